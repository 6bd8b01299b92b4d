//! Which file is executed.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use provost_core::containment::Rung;
use provost_sandbox::RunError;

use crate::support::Host;

fn tool(host: &Host, folder: &str) -> PathBuf {
    let path = host.ws().join(folder).join("tool");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, format!("#!/bin/sh\necho {folder} as $0\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A program that comes to stand before the decided one in `PATH` is not what runs.
#[test]
fn the_program_that_was_decided_on_is_executed_whatever_stands_in_path() {
    let host = Host::new();
    let (first, second) = (tool(&host, "first"), tool(&host, "second"));
    let path = [&first, &second].map(|path| path.parent().unwrap().display().to_string()).join(":");
    for rung in [Rung::R1, Rung::R2, Rung::R3] {
        let mut command = host.command(&["tool"]);
        command.env.insert("PATH".into(), format!("{path}:/usr/bin:/bin").into());
        command.program = Some(second.clone());
        assert!(host.run_with(rung, host.profile(), &command).assert_ok().text.starts_with("second as "));
        let mut control = host.command(&["tool"]);
        control.env = command.env;
        assert!(host.run_with(rung, host.profile(), &control).assert_ok().text.starts_with("first as "));
    }
}

#[test]
fn a_program_has_the_name_that_it_was_called_by() {
    let host = Host::new();
    let mut command = host.command(&["another-name", "-c", "echo $0"]);
    command.program = Some("/bin/sh".into());
    let ran = host.run_with(Rung::R3, host.profile(), &command);
    assert_eq!(ran.assert_ok().text, "another-name\n");
}

#[test]
fn a_decided_program_that_is_gone_or_relative_does_not_run_another() {
    let host = Host::new();
    for program in ["/usr/bin/no-such-program", "true"] {
        let mut command = host.command(&["true"]);
        command.program = Some(program.into());
        let error = host.try_run(Rung::R3, host.profile(), &command).unwrap_err();
        assert!(matches!(error, RunError::NotStarted(_)), "{program}: {error}");
    }
}
