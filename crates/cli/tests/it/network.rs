//! A network of named hosts, from a flag to evidence.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::script::{exec, script, submit, told};
use crate::support::{TestEnvironment, bodies};

#[test]
fn a_host_that_a_flag_allows_is_reached_and_another_is_not() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ =
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n");
        }
    });
    let env = TestEnvironment::new();
    let repo = env.repository("repository", &[("a.txt", "one\n")]);
    let get = |host: &str| exec(&["curl", "-sS", "--noproxy", "", &format!("http://{host}/")]);
    let model = env.rehearse(&script([get(&address.to_string()), get("evil.test"), submit()]));
    let rule = format!("net {address}");
    let ran = env.run(&repo.path, &model, &["--allow", &rule, "--verify", "true"]).code(0);
    let run = ran.run();
    let log = env.provost(["log", &run]).code(0).stdout;
    for words in [
        format!("network `{address}`, where commands are contained by R3, by R4, or by R2 with its broker"),
        format!("net {address} may be dialled"),
        "net evil.test:80 refused (deny: rule `default net = deny`".to_owned(),
    ] {
        assert!(log.contains(&words), "{log}");
    }
    let all = told(&model);
    assert!(all.iter().any(|text| text.contains("hello")), "{all:?}");
    assert!(all.iter().any(|text| text.contains("evil.test:80` was refused")), "{all:?}");
    let journal = env.journal(&run);
    assert_eq!(bodies(&journal, "net.decided").len(), 2);

    let bundle = env.at("bundle").display().to_string();
    let _ = env.provost(["export", &run, "--out", &bundle]).code(0);
    let key = env.public_key().display().to_string();
    let repository = repo.path.display().to_string();
    let _ = env.provost(["verify", &bundle, "--key", &key, "--repo", &repository]).code(0);
}
