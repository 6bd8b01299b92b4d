//! What models send to tools, and what supervisors leave behind.

use std::fs;
use std::time::Duration;

use provost_core::act::Touch;
use provost_sandbox::{Recovered, recover};
use provost_tools::Effect;

use crate::world::world;

/// A call: the tool's name in the first line, its arguments behind it. What is accepted is one JSON object that is
/// accepted again in its own spelling, and asking what it touches changes nothing.
pub fn arguments(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (name, arguments) = text.split_once('\n').unwrap_or(("read_file", text));
    world(|world| {
        let (tool, value) = match world.registry.decode(name, arguments) {
            Ok(read) => read,
            Err(bad) => {
                // The model is told; an endless echo would fill its context.
                assert!(bad.to_string().len() < 4096 + 8 * name.len().min(64), "{}", bad.to_string().len());
                return;
            }
        };
        assert!(value.is_object());
        let again = world.registry.decode(name, &value.to_string());
        assert_eq!(again.expect("its own spelling is accepted").1, value);
        let touches = world.in_context(|ctx| tool.touches(&value, ctx));
        if let Ok(touches) = touches {
            assert_eq!(world.in_context(|ctx| tool.touches(&value, ctx)).ok(), Some(touches));
        }
    });
}

/// A patch: it changes only what it said it would touch, from what is there.
pub fn patch(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let arguments = serde_json::json!({ "patch": text });
    world(|world| {
        let tool = world.registry.get("apply_patch").expect("the tool");
        world.in_context(|ctx| {
            let touches = tool.touches(&arguments, ctx);
            let prepared = tool.prepare(&arguments, ctx);
            let Ok(Effect::Write(set)) = prepared else { return };
            let touches = touches.expect("what can be prepared can be put before the policy");
            for change in &set.changes {
                let touch = Touch::Write { path: change.path.clone() };
                assert!(touches.contains(&touch), "{} is not among {touches:?}", change.path);
                assert_ne!(change.before, change.after);
                let now = world.workspace.version(&change.path, 1 << 20).expect("a file or nothing");
                assert_eq!(change.before, now);
            }
        });
    });
}

/// An exit record: read as such, or nothing is known; a folder with a damaged record never passes for a command that did
/// not run.
pub fn exit_record(data: &[u8]) {
    world(|world| {
        let dir = world.path().join("record");
        fs::create_dir_all(&dir).expect("a folder");
        fs::write(dir.join("started"), b"").expect("a file");
        fs::write(dir.join("exit.json"), data).expect("a file");
        match recover(&dir, Duration::ZERO) {
            Ok(Recovered::Finished(record)) => {
                let json = serde_json::to_vec(&record).expect("a record is JSON");
                fs::write(dir.join("exit.json"), json).expect("a file");
                assert_eq!(
                    recover(&dir, Duration::ZERO).expect("what was written is read"),
                    Recovered::Finished(record)
                );
            }
            Ok(other) => assert_eq!(other, Recovered::Unknown),
            Err(error) => panic!("{error}"),
        }
    });
}
