//! `exec`: a command, made ready for the sandbox.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::act::{Recovery, Touch};
use provost_core::path::RelPath;
use provost_core::transcript::ToolSpec;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, ResolveFlags, openat2};
use serde_json::{Value, json};

use crate::args::{object, optional_number, optional_text};
use crate::failure::{BadCall, Failure};
use crate::tool::{CommandRequest, Context, Effect, Tool};
use crate::workspace::{FileError, Kind};

/// `exec`.
pub struct Exec(ToolSpec);

impl Default for Exec {
    fn default() -> Self {
        let argv = json!({
            "type": "array", "items": {"type": "string"}, "minItems": 1,
            "description": "Program and arguments, each its own string, for example [\"cargo\", \"test\", \"--lib\"]."
        });
        Self(ToolSpec {
            name: "exec".to_owned(),
            description: "Run a program and wait for it. No shell reads the arguments: they arrive as given. Standard \
                          input is empty and there is no terminal. Of long output the start and the end are shown."
                .to_owned(),
            schema: object(
                &[
                    ("argv", argv),
                    ("cwd", json!({"type": "string", "description": "Folder to run in; the workspace root if not given."})),
                    (
                        "timeout_seconds",
                        json!({"type": "integer", "minimum": 1, "description": "A time limit shorter than the usual one."}),
                    ),
                ],
                &["argv"],
            ),
        })
    }
}

impl Tool for Exec {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn recovery(&self) -> Recovery {
        Recovery::Supervised
    }

    fn touches(&self, args: &Value, ctx: &Context<'_>) -> Result<Vec<Touch>, BadCall> {
        let request = request(args, ctx)?;
        Ok(vec![Touch::Exec { argv: request.argv, program: request.program }])
    }

    fn prepare(&self, args: &Value, ctx: &Context<'_>) -> Result<Effect, Failure> {
        let request = request(args, ctx)?;
        if request.program.is_none() {
            return Err(Failure::Other(format!(
                "there is no program `{}`: it is not in {}",
                request.argv[0],
                if request.argv[0].contains('/') {
                    "the workspace or not executable".to_owned()
                } else {
                    format!("PATH ({})", ctx.environment.get("PATH").map_or("", String::as_str))
                }
            )));
        }
        Ok(Effect::Command(request))
    }
}

fn request(args: &Value, ctx: &Context<'_>) -> Result<CommandRequest, BadCall> {
    let argv: Vec<String> = args
        .get("argv")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|word| word.as_str().map(str::to_owned))
        .collect();
    let Some(name) = argv.first().filter(|name| !name.is_empty()) else {
        return Err(BadCall::value("argv", "needs a program as its first string"));
    };
    if argv.iter().any(|word| word.contains('\0')) {
        return Err(BadCall::value("argv", "holds a NUL character, which no argument can"));
    }
    let cwd = folder(optional_text(args, "cwd").unwrap_or("."), ctx)?;
    let most = Duration::from_millis(ctx.limits.command_ms);
    let limit = optional_number(args, "timeout_seconds", 1)?.map_or(most, Duration::from_secs);
    Ok(CommandRequest {
        program: program(name, &cwd, ctx),
        argv,
        cwd,
        limit: limit.min(most),
        env: ctx.environment.clone(),
    })
}

fn folder(text: &str, ctx: &Context<'_>) -> Result<RelPath, BadCall> {
    let located = ctx.workspace.locate(&ctx.workspace.name(text)?)?;
    match located.kind {
        Some(Kind::Folder) => Ok(located.real),
        None => Err(FileError::missing(&located.named).into()),
        Some(kind) => Err(BadCall::File(FileError::Kind { path: located.named, kind, wanted: "a folder" })),
    }
}

/// Where a program is found, as `execvp` would with the sandbox's `PATH`. Relative entries of `PATH` are passed over:
/// they would let a file of the workspace pass for a program of the system.
fn program(name: &str, cwd: &RelPath, ctx: &Context<'_>) -> Option<String> {
    if name.contains('/') {
        // Through its components, which leaves `.` out.
        let here: PathBuf = ctx.workspace.path().join(cwd.to_os()).join(name).components().collect();
        return executable(&here, ctx).then(|| here.to_string_lossy().into_owned());
    }
    let path = ctx.environment.get("PATH")?;
    path.split(':')
        .filter(|folder| folder.starts_with('/'))
        .map(|folder| Path::new(folder).join(name))
        .find(|candidate| executable(candidate, ctx))
        .map(|found| found.to_string_lossy().into_owned())
}

fn executable(path: &Path, ctx: &Context<'_>) -> bool {
    // The workspace is the host's; all else that commands find programs in is the image's.
    if let Some(image) = ctx.image.filter(|_| !path.starts_with(ctx.workspace.path())) {
        return executable_in(image, path);
    }
    let bytes = path.as_os_str().as_bytes();
    let is_file = rustix::fs::stat(bytes).is_ok_and(|stat| Kind::of(&stat) == Kind::File);
    is_file && rustix::fs::accessat(CWD, bytes, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

/// The same in an image, whose links lead to places in it.
fn executable_in(image: &Path, path: &Path) -> bool {
    let relative = path.strip_prefix("/").unwrap_or(path);
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found =
        File::open(image).ok().and_then(|root| openat2(&root, relative, flags, Mode::empty(), resolve).ok());
    found
        .and_then(|found| rustix::fs::fstat(found).ok())
        .is_some_and(|stat| Kind::of(&stat) == Kind::File && stat.st_mode & 0o111 != 0)
}
