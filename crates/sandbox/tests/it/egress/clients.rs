//! Programs that fetch something, told of the proxies and not.

use std::fs;
use std::path::Path;

use provost_core::containment::Rung;

use super::fixture::{BOTH, Net, Origin, Told};
use crate::support::CONTAINED;

/// Fetches `http://origin.test/` at port 80 and at the server's own one.
#[track_caller]
fn fetches(told: Told, fetch: impl Fn(&str) -> Vec<String>) {
    fetches_by(None, &CONTAINED, told, fetch);
}

/// The same under these rungs, by a program that is put into the workspace as `fetch`.
#[track_caller]
fn fetches_by(program: Option<&Path>, rungs: &[Rung], told: Told, fetch: impl Fn(&str) -> Vec<String>) {
    let origin = Origin::start();
    let port = origin.address.port();
    let urls = ["http://origin.test/a?b=c".to_owned(), format!("http://origin.test:{port}/a?b=c")];
    for (rung, url) in rungs.iter().flat_map(|rung| urls.iter().map(move |url| (*rung, url))) {
        let before = origin.connections();
        let argv = fetch(url);
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        let net = Net::with_origin(&origin).on(rung);
        if let Some(program) = program {
            fs::copy(program, net.host.ws().join("fetch")).unwrap();
        }
        let done = net.run(&argv, told);
        done.assert_ok().assert_says("hello from origin");
        let (line, host) = origin.seen().pop().unwrap();
        assert_eq!(line, "GET /a?b=c HTTP/1.1");
        assert!(host == "origin.test" || host == format!("origin.test:{port}"), "{host}");
        let [traffic] = done.report.traffic.hosts.as_slice() else { panic!("{:?}", done.report) };
        assert_eq!(traffic.host, "origin.test");
        assert_eq!(traffic.connections as usize, origin.connections() - before);
        assert!(traffic.sent > 50 && traffic.received > 50, "{traffic:?}");
        assert_eq!(done.asked, ["origin.test"], "it is looked up once");
        assert!(done.report.refusals.is_empty(), "{:?}", done.report);
    }
}

fn words(line: &str, url: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).chain([url.to_owned()]).collect()
}

#[test]
fn curl() {
    for told in BOTH {
        fetches(told, |url| words("curl -sS --fail", url));
    }
}

#[test]
fn curl_through_a_tunnel() {
    let proxies =
        ["-p -x http://127.0.0.1:3128", "-x socks5h://127.0.0.1:1080", "-x socks5://127.0.0.1:1080"];
    for proxy in proxies {
        fetches(Told::No, |url| words(&format!("curl -sS --fail {proxy}"), url));
    }
}

#[test]
fn python_urllib() {
    for told in BOTH {
        fetches(told, |url| {
            let script = format!("import urllib.request as r; print(r.urlopen('{url}', timeout=10).read())");
            vec!["/usr/bin/python3".to_owned(), "-c".to_owned(), script]
        });
    }
}

#[test]
fn node_fetch() {
    for told in BOTH {
        fetches(told, |url| {
            let script = format!("fetch('{url}').then(r => r.text()).then(console.log)");
            vec!["node".to_owned(), "-e".to_owned(), script]
        });
    }
}

/// Go connects without blocking. It asks name servers by itself too, over UDP, and has the C library do it where
/// `RES_OPTIONS` is set, as it is under R2.
#[test]
fn go_http() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("fetch.go"), folder.path().join("fetch"));
    fs::write(
        &source,
        "package main\n\nimport (\n\t\"io\"\n\t\"net/http\"\n\t\"os\"\n)\n\n\
         func main() {\n\tanswer, err := http.Get(os.Args[1])\n\tif err != nil {\n\t\tpanic(err)\n\t}\n\
         \tio.Copy(os.Stdout, answer.Body)\n}\n",
    )
    .unwrap();
    let built = std::process::Command::new("go")
        .args(["build", "-o"])
        .args([&program, &source])
        .envs([("GOCACHE", folder.path().join("cache")), ("GOPATH", folder.path().join("path"))])
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    for told in BOTH {
        fetches_by(Some(&program), &CONTAINED, told, |url| words("./fetch", url));
        fetches_by(Some(&program), &[Rung::R3], told, |url| words("env GODEBUG=netdns=go ./fetch", url));
    }
}

/// A sandbox of its own answers on its loopback as without a network.
#[test]
fn a_server_of_ones_own_still_answers() {
    let origin = Origin::start();
    let script = "import socket, urllib.request, threading, http.server as h\n\
        s = h.HTTPServer(('127.0.0.1', 8000), h.SimpleHTTPRequestHandler)\n\
        threading.Thread(target=s.serve_forever, daemon=True).start()\n\
        for name in ('127.0.0.1', 'localhost'):\n    \
            assert urllib.request.urlopen(f'http://{name}:8000/', timeout=10).status == 200\n\
        assert socket.gethostbyname('sandbox') == '127.0.0.1'";
    for told in BOTH {
        Net::with_origin(&origin).py(script, told).assert_ok();
    }
}
