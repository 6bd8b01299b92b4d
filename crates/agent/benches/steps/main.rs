//! What a step costs when the model costs nothing: `bench/run`, or `cargo bench -p provost-agent --bench steps`.
//!
//! Each case runs in a process of its own, so that its peak memory is its own; the rehearsal server in another. Bare
//! appends and bare spawns are interleaved with the steps, so that a noisy disk or a busy machine shows in both.
//! It reports and asserts nothing. `bench/README.md` says how to read the table.

mod bare;
mod case;
mod meter;
mod report;
mod wrap;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use provost_model::rehearse::{Script, Server};

use case::{Case, Kind, Via};

/// Steps of each kind.
const SIZES: [(Kind, usize); 3] = [(Kind::Read, 1000), (Kind::Edit, 200), (Kind::Command, 100)];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["serve", script] => serve(Path::new(script)),
        ["case", kind, via, steps, dir] => {
            let steps = steps.parse().expect("a number of steps");
            Case { kind: Kind::named(kind), via: Via::named(via), steps, dir: PathBuf::from(dir) }.run();
        }
        // `divide` makes a short trial of it: 10 runs a tenth of the steps.
        rest => all(rest.first().and_then(|text| text.parse().ok()).unwrap_or(1)),
    }
}

fn all(divide: usize) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    report::head(dir.path());
    for (kind, steps) in SIZES {
        for scripted in [true, false] {
            let dir = dir.path().join(format!(
                "{}-{}",
                kind.word(),
                if scripted { "scripted" } else { "loopback" }
            ));
            std::fs::create_dir(&dir).expect("a folder");
            one(kind, steps / divide, scripted, &dir);
        }
    }
}

/// Runs one case in a process of its own.
fn one(kind: Kind, steps: usize, scripted: bool, dir: &Path) {
    let server = (!scripted).then(|| {
        let script = dir.join("script.json");
        std::fs::write(&script, case::script(kind, steps)).expect("a script");
        Rehearsal::start(&script)
    });
    let via = server.as_ref().map_or("scripted", |server| server.url.as_str());
    let status = this()
        .args(["case", kind.word(), via, &steps.to_string()])
        .arg(dir)
        .status()
        .expect("this program starts again");
    if !status.success() {
        println!("this case ended with {status}\n");
    }
}

fn this() -> Command {
    Command::new(std::env::current_exe().expect("this program"))
}

fn serve(script: &Path) {
    let script = Script::load(script).expect("a script");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let server = Server::bind("127.0.0.1:0", script).expect("a port");
        println!("http://{}/v1", server.addr);
        server.serve(std::future::pending()).await.expect("it serves");
    });
}

/// The rehearsal server in a process of its own, killed when dropped.
struct Rehearsal {
    child: Child,
    url: String,
}

impl Rehearsal {
    fn start(script: &Path) -> Self {
        let mut child = this()
            .arg("serve")
            .arg(script)
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts again");
        let mut url = String::new();
        let out = child.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut url).expect("its address");
        Self { child, url: url.trim().to_owned() }
    }
}

impl Drop for Rehearsal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
