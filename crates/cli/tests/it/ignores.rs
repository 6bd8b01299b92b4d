//! What git ignores by rules outside of the workspace is not the run's affair either.

use std::fs;

use serde_json::json;

use crate::support::{TestEnvironment, bodies};

#[test]
fn rules_above_the_workspace_and_of_the_person_hold() {
    let env = TestEnvironment::new();
    let files = [
        ("pkg/src/a.txt", "a\n"),
        (".gitignore", "node_modules\n/pkg/local.txt\n"),
        ("pkg/.gitignore", "!kept.log\n"),
    ];
    let repo = env.repository("repository", &files);
    repo.commit();
    for (path, lines) in [(".git/info/exclude", "*.log\n"), (".gitconfig", "")] {
        fs::write(if path == ".gitconfig" { env.at("home/.gitconfig") } else { repo.path.join(path) }, lines)
            .unwrap();
    }
    fs::create_dir_all(env.at("home/.config/git")).unwrap();
    fs::write(env.at("home/.config/git/ignore"), "*.bak\n").unwrap();
    for name in ["pkg/node_modules/x/index.js", "pkg/local.txt", "pkg/out.log", "pkg/a.bak"] {
        repo.write(name, "ignored\n");
    }
    assert_eq!(repo.git(&["status", "--short"]), "", "git ignores all of it");
    let line =
        "echo x > node_modules/x/cache; echo x > b.log; echo x > kept.log; echo x > c.bak; echo x > seen.txt";
    let model = env.rehearse(&json!({ "steps": [
        { "call": { "name": "exec", "arguments": { "argv": ["sh", "-c", line] } } },
        { "call": { "name": "submit", "arguments": { "summary": "done" } } },
    ] }));
    let gate =
        "sh -c 'test -e src/a.txt && test ! -e node_modules && test ! -e local.txt && test ! -e a.bak'";
    let ran = env.run(&repo.path.join("pkg"), &model, &["--verify", gate, "--export", "bundle"]).code(0);
    let journal = env.journal(&ran.run());
    let changed = bodies(&journal, "act.finished")[0]["changes"].to_string();
    assert_eq!(changed.matches("\"path\"").count(), 2, "{changed}");
    assert!(changed.contains("kept.log") && changed.contains("seen.txt"), "{changed}");
    let key = env.public_key().display().to_string();
    let at = repo.path.display().to_string();
    let _ = env.provost(["verify", "bundle", "--key", &key, "--repo", &at]).code(0);
}
