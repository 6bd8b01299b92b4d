//! Unix sockets of one's own under R2, where each connection is made by somebody else; and those that are not one's own.

use std::os::unix::net::UnixListener;

use provost_core::containment::Rung;

use crate::support::{CONTAINED, Host};

/// A server and its clients in one command, over paths as programs name them.
#[test]
fn a_server_of_ones_own_answers_by_path() {
    let host = Host::new();
    let script = "import array, asyncio, fcntl, os, socket, tempfile, threading\n\
        for folder in ('.', tempfile.gettempdir()):\n    \
            for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):\n        \
                path = os.path.join(folder, f'sock{int(kind)}')\n        \
                server = socket.socket(socket.AF_UNIX, kind); server.bind(path); server.listen(8)\n        \
                at = os.open(folder, os.O_RDONLY)\n        \
                names = (path, os.path.abspath(path), f'/proc/self/fd/{at}/sock{int(kind)}', './' * 20 + path)\n        \
                for name in names[:3] if path.startswith('/') else names:\n            \
                    for flags in (0, socket.SOCK_NONBLOCK):\n                \
                        s = socket.socket(socket.AF_UNIX, kind | flags); s.connect(name)\n                \
                        assert bool(fcntl.fcntl(s, fcntl.F_GETFL) & os.O_NONBLOCK) == bool(flags)\n                \
                        assert not os.get_inheritable(s.fileno()) and s.type & 0xf == kind\n                \
                        c, _ = server.accept(); c.sendall(b'hi'); s.setblocking(True); assert s.recv(2) == b'hi'\n\
        a, b = socket.socketpair()\n\
        a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0]))])\n\
        assert len(socket.recv_fds(b, 1, 1)[1]) == 1\n\
        async def main():\n    \
            async def hello(r, w): w.write(b'hello'); w.close()\n    \
            async with await asyncio.start_unix_server(hello, 'by-asyncio'):\n        \
                r, w = await asyncio.open_unix_connection('by-asyncio'); assert await r.read() == b'hello'\n\
        asyncio.run(main())\n\
        for name, wanted in (('gone', FileNotFoundError), ('/dev/null', PermissionError), ('file', ConnectionRefusedError)):\n    \
            open('file', 'w').close()\n    \
            try: socket.socket(socket.AF_UNIX).connect(name); raise SystemExit(name)\n    \
            except wanted: pass";
    host.py(Rung::R2, script).assert_ok();
    let others = script.replace("('/dev/null', PermissionError), ", "");
    // The control: where its own `/tmp` is another one, too.
    Host::new().py(Rung::R3, &others).assert_ok();
}

/// A client waits where a server is slow to accept, and other connections do not wait for it.
#[test]
fn a_full_server_is_waited_for() {
    let script = "import socket, threading, time\n\
        server = socket.socket(socket.AF_UNIX); server.bind('full'); server.listen(0)\n\
        other = socket.socket(socket.AF_UNIX); other.bind('other'); other.listen(8)\n\
        def client(): s = socket.socket(socket.AF_UNIX); s.connect('full'); done.append(s)\n\
        done = []\n\
        all = [threading.Thread(target=client) for _ in range(6)]\n\
        [t.start() for t in all]\n\
        socket.socket(socket.AF_UNIX).connect('other')\n\
        got = [server.accept() for _ in range(6)]\n\
        [t.join() for t in all]\n\
        assert len(done) == 6\n\
        s = [socket.socket(socket.AF_UNIX) for _ in range(6)]\n\
        [c.setblocking(False) for c in s]\n\
        assert {c.connect_ex('full') for c in s} == {0, 11}";
    for rung in CONTAINED {
        Host::new().py(rung, script).assert_ok();
    }
}

/// Where a socket lies decides, whatever path leads there.
#[test]
fn sockets_elsewhere_are_refused_by_every_path() {
    let host = Host::new();
    let _outside = UnixListener::bind(host.outside().join("docker.sock")).unwrap();
    std::fs::create_dir(host.ws().join("secrets")).unwrap();
    let _hidden = UnixListener::bind(host.ws().join("secrets/sock")).unwrap();
    std::os::unix::fs::symlink(host.outside(), host.ws().join("link")).unwrap();
    std::os::unix::fs::symlink(host.outside().join("docker.sock"), host.ws().join("sock")).unwrap();
    let outside = host.outside().display().to_string();
    let paths = [
        format!("{outside}/docker.sock"),
        "../outside/docker.sock".to_owned(),
        "link/docker.sock".to_owned(),
        "sock".to_owned(),
        format!("/proc/self/root{outside}/docker.sock"),
        "/proc/self/cwd/../outside/docker.sock".to_owned(),
        "secrets/sock".to_owned(),
    ];
    let connect = |path: &str| format!("import socket\nsocket.socket(socket.AF_UNIX).connect('{path}')");
    for path in &paths {
        let mut profile = host.profile();
        profile.hidden = vec![host.ws().join("secrets")];
        let script = connect(path);
        let command = host.command(&["/usr/bin/python3", "-c", &script]);
        let ran = host.run_with(Rung::R2, profile, &command);
        ran.assert_refused();
        assert!(ran.text.contains("PermissionError"), "{path}: {}", ran.text);
        host.py(Rung::R0, &script).assert_ok();
    }
}
