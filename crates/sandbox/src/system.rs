//! The system's own folders: what programs need to run at all.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Where they are.
pub(crate) const SYSTEM: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt"];

/// How long one may take to answer.
const LIMIT: Duration = Duration::from_millis(500);

static FOUND: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// Those that are there, looked up once. One that does not answer (a network file system whose server is gone) is left out:
/// every command would hang in it, and so would we.
pub(crate) fn system() -> &'static [PathBuf] {
    FOUND.get_or_init(look)
}

/// Settles which are there, where they have been looked up already.
pub(crate) fn know(found: Vec<PathBuf>) {
    // A second word changes nothing.
    let _ = FOUND.set(found);
}

fn look() -> Vec<PathBuf> {
    let asked = SYSTEM.map(|path| (path, ask(path)));
    let until = Instant::now() + LIMIT;
    let is_there = |said: &Receiver<bool>| {
        said.recv_timeout(until.saturating_duration_since(Instant::now())) == Ok(true)
    };
    asked.iter().filter(|(_, said)| is_there(said)).map(|(path, _)| PathBuf::from(path)).collect()
}

/// Asks on a thread of its own. One that hangs is left behind; the kernel ends it with this process.
fn ask(path: &'static str) -> Receiver<bool> {
    let (say, said) = sync_channel(1);
    let here = say.clone();
    // Who does not wait any more is not told.
    let answer = |say: &SyncSender<bool>| _ = say.send(Path::new(path).exists());
    let asks = Builder::new().name("provost-system".to_owned()).stack_size(64 * 1024);
    if asks.spawn(move || answer(&say)).is_err() {
        answer(&here);
    }
    said
}
