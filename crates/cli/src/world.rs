//! The world as the command line finds it: home, environment, terminal. Only this file reads it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use crate::failure::{AtPath, Failure};

/// The process environment and the folders that follow from it.
pub(crate) struct World {
    env: BTreeMap<OsString, OsString>,
}

impl World {
    pub(crate) fn read() -> Self {
        Self { env: std::env::vars_os().collect() }
    }

    /// All variables.
    pub(crate) fn variables(&self) -> &BTreeMap<OsString, OsString> {
        &self.env
    }

    /// A variable's value, if it is set, not empty and text.
    pub(crate) fn var(&self, name: &str) -> Option<String> {
        let value = self.env.get(&OsString::from(name))?.to_str()?;
        (!value.is_empty()).then(|| value.to_owned())
    }

    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.var("HOME").map(PathBuf::from)
    }

    fn xdg(&self, variable: &str, fallback: &str) -> Result<PathBuf, Failure> {
        if let Some(folder) = self.var(variable) {
            return Ok(PathBuf::from(folder).join("provost"));
        }
        let home = self.home().ok_or_else(|| {
            Failure::usage("neither HOME nor a folder is set").hint("set HOME, or give --store FILE")
        })?;
        Ok(home.join(fallback).join("provost"))
    }

    /// The store: what was given, or the user's own.
    pub(crate) fn store_path(&self, given: Option<&Path>) -> Result<PathBuf, Failure> {
        match given {
            Some(path) => std::path::absolute(path).at(path),
            None => Ok(self.xdg("XDG_STATE_HOME", ".local/state")?.join("provost.db")),
        }
    }

    /// The store that a command takes when none is given to it.
    pub(crate) fn usual_store(&self) -> Option<PathBuf> {
        let named = self.var("PROVOST_STORE").map(PathBuf::from);
        self.store_path(named.as_deref()).ok()
    }

    /// The folder of unpacked images: what was given, what the environment names, or the user's own.
    pub(crate) fn images_path(&self, given: Option<&Path>) -> Result<PathBuf, Failure> {
        match given.map(Path::to_owned).or_else(|| self.var("PROVOST_IMAGES").map(PathBuf::from)) {
            Some(path) => std::path::absolute(&path).at(&path),
            None => Ok(self.xdg("XDG_STATE_HOME", ".local/state")?.join("images")),
        }
    }

    /// The folder of governed sessions: what was given, or the user's own.
    pub(crate) fn sessions_path(&self, given: Option<&Path>) -> Result<PathBuf, Failure> {
        match given {
            Some(path) => std::path::absolute(path).at(path),
            None => Ok(self.xdg("XDG_STATE_HOME", ".local/state")?.join("sessions")),
        }
    }

    /// The folder that says whom the user trusts to authorize: what was given, or the user's own.
    pub(crate) fn trust_path(&self, given: Option<&Path>) -> Result<PathBuf, Failure> {
        match given {
            Some(path) => std::path::absolute(path).at(path),
            None => Ok(self.xdg("XDG_CONFIG_HOME", ".config")?.join("trust")),
        }
    }

    /// The runner's private key.
    pub(crate) fn key_path(&self) -> Result<PathBuf, Failure> {
        Ok(self.xdg("XDG_CONFIG_HOME", ".config")?.join("runner.pem"))
    }

    /// The user's own file of prices, which need not be there; `None` where nothing says where.
    pub(crate) fn usual_prices(&self) -> Option<PathBuf> {
        Some(self.xdg("XDG_CONFIG_HOME", ".config").ok()?.join("prices.toml"))
    }

    /// The user's own file that says where keys are, which need not be there; `None` where nothing says where.
    pub(crate) fn usual_keys(&self) -> Option<PathBuf> {
        Some(self.xdg("XDG_CONFIG_HOME", ".config").ok()?.join("keys.toml"))
    }

    /// The user's own file of servers, which need not be there; `None` where nothing says where.
    pub(crate) fn usual_servers(&self) -> Option<PathBuf> {
        Some(self.xdg("XDG_CONFIG_HOME", ".config").ok()?.join("mcp.toml"))
    }

    /// Where what can be found out again is kept; `None` where nothing says where.
    pub(crate) fn cache_folder(&self) -> Option<PathBuf> {
        self.xdg("XDG_CACHE_HOME", ".cache").ok()
    }

    /// Whether a person watches standard output.
    pub(crate) fn stdout_is_terminal() -> bool {
        std::io::stdout().is_terminal()
    }

    /// Whether a person can be asked.
    pub(crate) fn can_ask() -> bool {
        std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }

    /// Whether SIGHUP was ignored when this process was started, as `nohup` does (`proc_pid_status(5)`).
    pub(crate) fn ignores_hangup() -> bool {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask & 1 == 1)
    }
}
