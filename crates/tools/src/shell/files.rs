//! The files that a line opens: redirects.

use provost_core::act::{Access, Touch};
use provost_core::exec::Word;
use provost_core::path::RelPath;

use crate::started::{Folders, Touches};

/// Files that hold nothing.
const NOTHING: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/tty",
];

/// Notes that a redirect opens `target`, to read it or to write it.
pub(super) fn opened(target: &Word, of: Access, folders: &Folders, touches: &mut Touches<'_>) {
    let Some(name) = target.known() else {
        return touches.untold(of, &format!("the file `{target}` of a redirect"));
    };
    if NOTHING.contains(&name) || is_descriptor(name) {
        return;
    }
    if name.starts_with("/dev/tcp/") || name.starts_with("/dev/udp/") {
        let mut parts = name.split('/').skip(3);
        let host = parts.next().unwrap_or_default().to_lowercase();
        return match parts.next().and_then(|port| port.parse().ok()) {
            Some(port) if !host.is_empty() => touches.push(Touch::Net { host, port }),
            _ => touches.untold(Access::Net, &format!("the host of `{name}`")),
        };
    }
    match folders {
        _ if name.starts_with('/') => within(name, &RelPath::root(), of, touches),
        Folders::Known(all) => all.iter().for_each(|folder| within(name, folder, of, touches)),
        Folders::Any => touches.untold(of, &format!("in which folder the file `{name}` of a redirect lies")),
    }
}

fn is_descriptor(name: &str) -> bool {
    let number = name.strip_prefix("/dev/fd/").or_else(|| name.strip_prefix("/proc/self/fd/"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn within(name: &str, folder: &RelPath, of: Access, touches: &mut Touches<'_>) {
    let workspace = touches.ctx.workspace;
    let path = if name.starts_with('/') {
        workspace.name(name)
    } else {
        folder.join(name.as_bytes()).map_err(Into::into)
    };
    if let Ok(located) = path.and_then(|path| workspace.locate(&path)) {
        for path in located.paths() {
            let path = path.clone();
            touches.push(if of == Access::Read { Touch::Read { path } } else { Touch::Write { path } });
        }
    } else {
        // It leaves the workspace, by its name or by a link.
        let path =
            if name.starts_with('/') { name.to_owned() } else { format!("{}/{name}", folder.as_str()) };
        touches.push(Touch::Outside { of, path });
    }
}
