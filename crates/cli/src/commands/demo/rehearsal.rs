//! The model server of the demonstration: this program's own `rehearse`, as a process of its own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::failure::{AtPath, Failure};

/// A running `provost rehearse`; ended when dropped.
pub(crate) struct Rehearsal {
    child: Child,
    pub(crate) base_url: String,
}

impl Rehearsal {
    pub(crate) fn start(script: &Path, log: &Path) -> Result<Self, Failure> {
        let this = std::env::current_exe().map_err(Failure::internal)?;
        let mut child = Command::new(&this)
            .arg("rehearse")
            .arg(script)
            .args(["--listen", "127.0.0.1:0", "--log"])
            .arg(log)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .at(&this)?;
        let mut base_url = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut base_url).map_err(Failure::internal)?;
        }
        let server = Self { child, base_url: base_url.trim().to_owned() };
        if server.base_url.is_empty() {
            return Err(Failure::internal("the rehearsal did not start"));
        }
        Ok(server)
    }
}

impl Drop for Rehearsal {
    fn drop(&mut self) {
        // It has nothing to save. Waiting leaves no zombie behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
