//! What people are told before it costs them something: names and files that are somebody else's, rules that reach nothing,
//! tools that wait for a network that is not there.

use std::fs;

use provost::tools::Registry;

use crate::script::{exec, script, sh, submit, told};
use crate::support::{TestEnvironment, bodies, finish};

/// What an agent may write must not be the next run's policy.
#[test]
fn i5_a_policy_file_of_the_workspace_is_refused_unless_no_run_can_write_it() {
    let env = TestEnvironment::new();
    let policy = "preset = \"full-access\"\n";
    let files = [("a.txt", "one\n"), ("policy.toml", policy), ("provost.toml", policy)];
    let repo = env.repository("repository", &files);
    let model = env.rehearse(&script([sh("echo evil >> provost.toml; echo two > a.txt"), submit()]));
    let run = |policy: &std::path::Path| env.run(&repo.path, &model, &["--policy", policy.to_str().unwrap()]);
    let refused = run(&repo.path.join("policy.toml")).code(2).says("lies in the workspace");
    let _ = refused.says("call it `provost.toml`");
    // By whatever way it is named.
    std::os::unix::fs::symlink(repo.path.join("policy.toml"), env.at("link.toml")).unwrap();
    let _ = run(&env.at("link.toml")).code(2).says("lies in the workspace");
    std::os::unix::fs::symlink(env.at("outside.toml"), repo.path.join("inside.toml")).unwrap();
    fs::write(env.at("outside.toml"), policy).unwrap();
    let _ = run(&repo.path.join("inside.toml")).code(2).says("lies in the workspace");
    fs::remove_file(repo.path.join("inside.toml")).unwrap();
    // A link in the middle is as much the agent's: by the next run it may lead elsewhere.
    fs::create_dir(env.at("policies")).unwrap();
    fs::write(env.at("policies/p.toml"), policy).unwrap();
    std::os::unix::fs::symlink(env.at("policies"), repo.path.join("team")).unwrap();
    let _ = run(&repo.path.join("team/p.toml")).code(2).says("lies in the workspace");
    std::os::unix::fs::symlink(repo.path.join("team"), env.at("by-way-of")).unwrap();
    let _ = run(&env.at("by-way-of/../policies/p.toml")).code(2).says("lies in the workspace");
    fs::remove_file(repo.path.join("team")).unwrap();
    // And so is a folder that could become one.
    fs::create_dir(repo.path.join("team")).unwrap();
    let _ = run(&repo.path.join("team/../../policies/p.toml")).code(2).says("lies in the workspace");
    fs::remove_dir(repo.path.join("team")).unwrap();
    // Under a name that no run can write it is taken, and protected even where it allows everything itself.
    let _ = run(&repo.path.join("provost.toml")).code(0);
    assert_eq!(fs::read_to_string(repo.path.join("provost.toml")).unwrap(), policy);
    assert_eq!(fs::read_to_string(repo.path.join("a.txt")).unwrap(), "two\n", "the control");
    assert!(told(&model)[0].contains("changed `provost.toml`, which the policy protects: undone"));
    // What is explained is what a run takes.
    let explain = |policy: &str| {
        let mut command = env.command(env!("CARGO_BIN_EXE_provost"));
        command
            .args(["policy", "explain", "--policy", policy, "write", "provost.toml"])
            .current_dir(&repo.path);
        finish(command)
    };
    let _ = explain("policy.toml").code(2).says("lies in the workspace");
    let explained = explain("provost.toml").code(0);
    assert!(explained.stdout.contains("deny: rule `deny write provost.toml`"), "{explained}");
    // And outside, by way of links outside.
    repo.write("a.txt", "one\n");
    let _ = run(&env.at("outside.toml")).code(0);
    std::os::unix::fs::symlink(env.at("policies"), env.at("elsewhere")).unwrap();
    repo.write("a.txt", "one\n");
    let _ = run(&env.at("elsewhere/p.toml")).code(0);
}

#[test]
fn a_rule_for_a_loopback_that_is_not_this_host_s_is_told() {
    let env = TestEnvironment::new();
    let explain = |rule: &str| {
        env.provost(["policy", "explain", "--allow", rule, "net", "example.org:443"]).code(0).stderr
    };
    for host in ["localhost:3000", "127.0.0.1:3000", "[::1]:3000", "127.8.8.8"] {
        let said = explain(&format!("net {host}"));
        assert!(
            said.starts_with(&format!("note: `net {host}`: a command that dials it reaches its own")),
            "{said}"
        );
    }
    for host in ["example.org:443", "10.0.0.1:80", "localhost.example.org"] {
        assert_eq!(explain(&format!("net {host}")), "");
    }
}

#[test]
fn a_question_about_a_host_is_explained_as_the_refusal_that_it_is() {
    let env = TestEnvironment::new();
    let explain = |preset: &str| {
        env.provost(["policy", "explain", "--policy", preset, "net", "example.org:443"]).code(0).stdout
    };
    assert!(explain("strict").contains("a run takes it for a refusal"));
    assert!(!explain("workspace").contains("a run takes it for a refusal"));
}

#[test]
fn tools_that_fetch_do_not_try_again_where_there_is_no_network() {
    let retries = |more: &[&str]| {
        let env = TestEnvironment::new();
        let repo = env.repository("repository", &[("a.txt", "one\n")]);
        let steps = [
            exec(&["npm", "config", "get", "fetch-retries"]),
            sh("npm_config_fetch_retries=5 npm config get fetch-retries"),
            sh("echo pip=$PIP_RETRIES cargo=$CARGO_NET_RETRY"),
            submit(),
        ];
        let model = env.rehearse(&script(steps));
        let _ = env.run(&repo.path, &model, more).code(0);
        told(&model)
    };
    let offline = retries(&["--yes"]);
    assert!(offline[0].ends_with("exit status 0\n0\n"), "{offline:?}");
    // Whoever writes a command may have it otherwise.
    assert!(offline[1].ends_with("exit status 0\n5\n"), "{offline:?}");
    assert!(offline[2].contains("pip=0 cargo=0"), "{offline:?}");
    // The control: where a host may be dialled they do as they usually do.
    let online = retries(&["--yes", "--allow", "net registry.example.org:443"]);
    assert!(online[0].ends_with("exit status 0\n2\n"), "{online:?}");
    assert!(online[2].contains("pip= cargo="), "{online:?}");
}

#[test]
fn the_help_of_rehearse_lists_every_tool_with_its_arguments() {
    let env = TestEnvironment::new();
    let help = env.provost(["rehearse", "--help"]).code(0).stdout;
    for spec in Registry::standard().specs() {
        let line = help.lines().find(|line| line.trim_start().starts_with(&format!("{} {{", spec.name)));
        let line = line.unwrap_or_else(|| panic!("{}: {help}", spec.name));
        for argument in spec.schema["properties"].as_object().unwrap().keys() {
            assert!(line.contains(argument), "{argument}: {line}");
        }
    }
}

#[test]
fn an_image_is_not_built_over_another_one_s_name() {
    let env = TestEnvironment::new();
    let folder = env.at("state/provost/images").join("00".repeat(32));
    fs::create_dir_all(&folder).unwrap();
    let about = serde_json::json!({
        "digest": "00".repeat(32), "name": "mine", "env": [], "layers": 1, "bytes": 0, "entries": 0
    });
    fs::write(folder.join("image.json"), about.to_string()).unwrap();
    let build = |more: &[&str]| {
        let mut command = env.provost_command(["image", "build", "--name"].iter().chain(more));
        // Where nothing can be gathered: how far it comes is what is asked here.
        command.env("PATH", "/nowhere");
        crate::support::finish(command)
    };
    let refused = build(&["mine"]).code(2).says("`mine` is the name of sha256:0000");
    assert!(!refused.stderr.contains("gathering"), "{refused}");
    for more in [&["mine", "--replace"][..], &["other"]] {
        let began = build(more).code(2).says("gathering this host's toolchain");
        let _ = began.says("`rustc` is not on PATH");
    }
}

#[test]
fn an_import_says_whose_name_it_took() {
    let env = TestEnvironment::new();
    let made = |text: &str| {
        let archive = env.at(format!("{text}.tar"));
        let digest = crate::images::layout(&env, &archive, text);
        (archive, digest)
    };
    let import = |archive: &std::path::Path| {
        env.provost(["image", "import", archive.to_str().unwrap(), "--name", "small"]).code(0).stderr
    };
    let ((one, digest), (two, _)) = (made("one"), made("two"));
    assert_eq!(import(&one), "");
    assert_eq!(import(&one), "", "the same image again takes nothing");
    assert_eq!(
        import(&two),
        format!("note: the name `small` was {digest}'s until now; it has none any more\n")
    );
}

#[test]
fn a_rule_that_asks_about_a_host_is_refused_with_its_line() {
    let env = TestEnvironment::new();
    let explain = |text: &str| {
        fs::write(env.at("provost.toml"), text).unwrap();
        env.provost(["policy", "explain", "--policy", "provost.toml", "net", "example.org:443"])
    };
    let _ = explain("ask = [\n  \"net example.org:443\",\n]\n")
        .code(2)
        .says("provost.toml:2: `ask net example.org:443`: nobody can be asked while a command dials");
    let allowed = explain("allow = [\"net example.org:443\"]\n").code(0).stdout;
    assert!(allowed.contains("allow: rule `allow net example.org:443`"), "{allowed}");
}

#[test]
fn a_port_is_explained_by_the_list_that_grants_it() {
    let env = TestEnvironment::new();
    fs::write(env.at("provost.toml"), "publish = [3000]\n").unwrap();
    let explain = |port: &str| {
        env.provost(["policy", "explain", "--policy", "provost.toml", "publish", port]).code(0).stdout
    };
    assert!(explain("3000").contains("\nallow: the policy's list `publish` has it"));
    assert!(explain("3001").contains("\ndeny: the policy's list `publish` does not have it"));
    let _ = env.provost(["policy", "explain", "publish", "x"]).code(2).says("`x` is no port");
}

#[test]
fn the_policy_of_a_run_by_an_engine_is_shown_with_it() {
    let env = TestEnvironment::new();
    let repo = env.repository("repository", &[("a.txt", "one\n")]);
    let archive = env.at("layout.tar");
    let _ = crate::images::layout(&env, &archive, "x");
    let _ = env.provost(["image", "import", archive.to_str().unwrap(), "--name", "small"]).code(0);
    let model = env.rehearse(&script([submit()]));
    let more = ["--engine", "podman", "--image", "small", "--id", "by-engine"];
    let mut args = env.run_args(&repo.path, &model, &more);
    args[0] = "enqueue".to_owned();
    let _ = env.provost(args).code(0);
    let shown = env.provost(["show", "by-engine"]).code(0).stdout;
    assert!(shown.contains("; commands by podman"), "{shown}");
    assert_eq!(bodies(&env.journal("by-engine"), "run.queued")[0]["policy"]["engine"], "podman");
}
