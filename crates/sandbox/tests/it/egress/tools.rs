//! Package managers and git, over HTTP and TLS: their ordinary clients, and registries that this machine serves.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use provost_core::containment::Rung;
use provost_sandbox::{Cancel, toolchain_env, toolchain_reads};

use super::fixture::{BOTH, Done, Net, Recorded, Told};
use crate::support::CONTAINED;

/// Serves a folder of the host, with a certificate where one is given.
struct Site {
    server: Child,
    address: std::net::SocketAddr,
}

const SITE: &str = "import http.server as h, ssl, sys, functools\n\
    class Quiet(h.SimpleHTTPRequestHandler):\n    \
        protocol_version = 'HTTP/1.1'\n    \
        def log_message(self, *_): pass\n\
    s = h.ThreadingHTTPServer(('127.0.0.1', 0), functools.partial(Quiet, directory=sys.argv[1]))\n\
    if len(sys.argv) > 2:\n    \
        c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[2])\n    \
        s.socket = c.wrap_socket(s.socket, server_side=True)\n\
    print(s.server_port, flush=True); s.serve_forever()";

impl Site {
    fn start(folder: &Path, certificate: Option<&Path>) -> Self {
        let mut server = Command::new("/usr/bin/python3")
            .args(["-c", SITE])
            .arg(folder)
            .args(certificate)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port: u16 = line.trim().parse().unwrap();
        Self { server, address: ([127, 0, 0, 1], port).into() }
    }

    /// `site.test` there, at its own port and the usual ones.
    fn net(&self, rung: Rung) -> Net {
        let port = self.address.port();
        let ports = [80, 443, port];
        let rules: Vec<String> = ports
            .iter()
            .flat_map(|port| [format!("site.test:{port}"), format!("127.0.0.1:{port}")])
            .collect();
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        Net::allowing(&rules).on(rung).name("site.test", &[self.address])
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Every rung with a network, told of the proxies and not.
fn everywhere() -> impl Iterator<Item = (Rung, Told)> {
    CONTAINED.into_iter().flat_map(|rung| BOTH.map(|told| (rung, told)))
}

/// Runs a shell line in the sandbox with the host's toolchains.
#[track_caller]
fn run(net: Net, line: &str, told: Told) -> Done {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap());
    let path = std::env::var_os("PATH").unwrap();
    let mut profile = net.host.profile();
    profile.readable.extend(toolchain_reads(&path, Some(&home)));
    let line = format!("export CARGO_HOME=\"$HOME/cargo\"; {line}");
    let mut command = net.command(&["sh", "-ec", &line], told);
    command.wall = Duration::from_secs(120);
    command.env.insert("PATH".into(), path);
    command.env.extend(toolchain_env(&home));
    net.run_with(profile, command, &Cancel::new().unwrap(), Arc::new(Recorded::default()))
}

/// A file with all the folders above it.
fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

#[track_caller]
fn host_runs(folder: &Path, line: &str) -> String {
    let output = Command::new("sh").args(["-ec", line]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn git_clones_over_http() {
    let dir = tempfile::tempdir().unwrap();
    host_runs(
        dir.path(),
        "git init -q work; cd work; echo one > a.txt; git add a.txt; \
         git -c user.name=n -c user.email=e@x commit -qm first; cd ..; \
         git clone -q --bare work repo.git; cd repo.git; git update-server-info",
    );
    let site = Site::start(dir.path(), None);
    let port = site.address.port();
    for (rung, told) in everywhere() {
        let line = format!("git clone -q http://site.test:{port}/repo.git got && cat got/a.txt");
        let done = run(site.net(rung), &line, told);
        done.assert_ok().assert_says("one");
        assert!(done.report.traffic.hosts[0].connections > 1, "{:?}", done.report);
        let line = format!("git clone -q http://evil.test:{port}/repo.git got");
        let refused = run(site.net(rung), &line, told);
        assert!(!refused.report.refusals.is_empty() && refused.report.traffic.hosts.is_empty());
    }
}

#[test]
fn cargo_fetches_from_a_sparse_registry() {
    let dir = tempfile::tempdir().unwrap();
    write(
        dir.path(),
        "dep-0.1.0/Cargo.toml",
        "[package]\nname=\"dep\"\nversion=\"0.1.0\"\nedition=\"2024\"\n",
    );
    write(dir.path(), "dep-0.1.0/src/lib.rs", "pub fn two() -> u32 { 2 }\n");
    let sum = host_runs(dir.path(), "tar czf dep.crate dep-0.1.0; sha256sum dep.crate | cut -d' ' -f1");
    let entry = format!(
        "{{\"name\":\"dep\",\"vers\":\"0.1.0\",\"deps\":[],\"cksum\":\"{sum}\",\"features\":{{}},\"yanked\":false}}\n"
    );
    write(dir.path(), "index/3/d/dep", entry);
    let site = Site::start(dir.path(), None);
    let port = site.address.port();
    let config = format!("{{\"dl\":\"http://site.test:{port}/{{crate}}.crate\"}}");
    write(dir.path(), "index/config.json", config);
    for (rung, told) in everywhere() {
        let net = site.net(rung);
        let ws = net.host.ws();
        write(
            &ws,
            "Cargo.toml",
            "[package]\nname=\"small\"\nversion=\"0.1.0\"\nedition=\"2024\"\n\n[dependencies]\ndep = { version = \"0.1\", registry = \"local\" }\n",
        );
        write(&ws, "src/main.rs", "fn main() { println!(\"got {}\", dep::two()) }\n");
        let index = format!("[registries.local]\nindex = \"sparse+http://site.test:{port}/index/\"\n");
        write(&ws, ".cargo/config.toml", index);
        let done = run(net, "cargo run -q", told);
        done.assert_ok().assert_says("got 2");
        assert!(done.report.refusals.is_empty(), "{:?}", done.report);
    }
}

#[test]
fn npm_installs_from_a_registry() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "package/package.json", "{\"name\":\"dep\",\"version\":\"0.1.0\"}");
    write(dir.path(), "package/index.js", "module.exports = 'got dep'");
    let sum = host_runs(dir.path(), "tar czf dep.tgz package; sha1sum dep.tgz | cut -d' ' -f1");
    let site = Site::start(dir.path(), None);
    let port = site.address.port();
    let manifest = format!(
        "{{\"name\":\"dep\",\"dist-tags\":{{\"latest\":\"0.1.0\"}},\"versions\":{{\"0.1.0\":{{\"name\":\"dep\",\
         \"version\":\"0.1.0\",\"dist\":{{\"tarball\":\"http://site.test:{port}/dep.tgz\",\"shasum\":\"{sum}\"}}}}}}}}"
    );
    write(dir.path(), "npm/dep", manifest);
    for (rung, told) in everywhere() {
        let line = format!(
            "npm install --no-audit --no-fund --no-update-notifier --registry http://site.test:{port}/npm/ dep \
             && node -e 'console.log(require(\"dep\"))'"
        );
        run(site.net(rung), &line, told).assert_ok().assert_says("got dep");
    }
}

#[test]
fn pip_installs_from_an_index() {
    let dir = tempfile::tempdir().unwrap();
    let wheel = "import zipfile\n\
        w = zipfile.ZipFile('dep-0.1.0-py3-none-any.whl', 'w')\n\
        i = 'dep-0.1.0.dist-info/'\n\
        w.writestr('dep.py', 'word = \"got dep\"')\n\
        w.writestr(i + 'METADATA', 'Metadata-Version: 2.1\\nName: dep\\nVersion: 0.1.0\\n')\n\
        w.writestr(i + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: hand\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
        w.writestr(i + 'RECORD', 'dep.py,,\\n' + i + 'METADATA,,\\n' + i + 'WHEEL,,\\n' + i + 'RECORD,,\\n')\n\
        w.close()";
    write(dir.path(), "make.py", wheel);
    host_runs(dir.path(), "/usr/bin/python3 make.py");
    let link = "<a href=\"../../dep-0.1.0-py3-none-any.whl\">dep-0.1.0-py3-none-any.whl</a>";
    write(dir.path(), "simple/dep/index.html", format!("<!DOCTYPE html><html><body>{link}</body></html>"));
    let site = Site::start(dir.path(), None);
    let port = site.address.port();
    for (rung, told) in everywhere() {
        let line = format!(
            "/usr/bin/pip install -q --disable-pip-version-check --no-cache-dir --target got \
             --index-url http://site.test:{port}/simple/ --trusted-host site.test dep \
             && PYTHONPATH=got /usr/bin/python3 -c 'import dep; print(dep.word)'"
        );
        run(site.net(rung), &line, told).assert_ok().assert_says("got dep");
    }
}

/// What is encrypted goes through as it is: the client sees the server's own certificate.
#[test]
fn tls_reaches_its_own_end() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "site/a.txt", "hello over TLS\n");
    host_runs(
        dir.path(),
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out cert.pem \
         -days 30 -subj /CN=site.test -addext subjectAltName=DNS:site.test 2>/dev/null; cat key.pem cert.pem > both.pem",
    );
    let site = Site::start(&dir.path().join("site"), Some(&dir.path().join("both.pem")));
    let port = site.address.port();
    let certificate = std::fs::read(dir.path().join("cert.pem")).unwrap();
    let fetch = "import sys, ssl, urllib.request as r\n\
        print(r.urlopen(sys.argv[1], context=ssl.create_default_context(cafile='cert.txt')).read())";
    for (rung, told) in everywhere() {
        for url in ["https://site.test/a.txt".to_owned(), format!("https://site.test:{port}/a.txt")] {
            let clients = [
                format!("curl -sS --fail --cacert cert.txt {url}"),
                format!("/usr/bin/python3 fetch.py {url}"),
                format!(
                    "NODE_EXTRA_CA_CERTS=cert.txt node -e \"fetch('{url}').then(r => r.text()).then(console.log)\""
                ),
            ];
            for line in clients {
                let net = site.net(rung);
                write(&net.host.ws(), "cert.txt", &certificate);
                write(&net.host.ws(), "fetch.py", fetch);
                run(net, &line, told).assert_ok().assert_says("hello over TLS");
            }
        }
    }
}
