//! A tree of agents through the whole of Provost: the root has others do a part of its work.

use serde_json::{Value, json};

use crate::script::{call, read, sh, submit, together, write};
use crate::support::{Rehearsal, Repo, TestEnvironment, bodies, text};

fn delegate(arguments: Value) -> Value {
    call("delegate", arguments)
}

/// A model that plays the root, and each child by what it is to do.
fn tree(root: &[Value], children: &[(&str, &[Value])]) -> (TestEnvironment, Repo, Rehearsal) {
    let env = TestEnvironment::new();
    let repo = env.repository("repository", &[("a.txt", "one\n"), ("b.txt", "two\n")]);
    let child = |(when, steps): &(&str, &[Value])| json!({ "when": when, "steps": steps });
    let dialogues: Vec<Value> = children.iter().map(child).collect();
    let model = env.rehearse(&json!({ "steps": root, "dialogues": dialogues }));
    (env, repo, model)
}

fn log(env: &TestEnvironment) -> String {
    env.provost(["log", &env.only_run()]).code(0).stdout
}

fn say(words: &str) -> Value {
    json!({ "say": words })
}

/// What the model was told of the calls of its newest answer, in the newest request of the root's.
fn told(model: &Rehearsal) -> String {
    model.requests().last().map(ToString::to_string).unwrap_or_default()
}

/// The root's answer is one act with what the child said last; the child has a dialogue of its own.
#[test]
fn a_child_does_a_part_and_its_last_words_are_the_result() {
    let orders = json!({ "goal": "count the files", "name": "reader" });
    let root = [delegate(orders), write("found.txt", "2\n"), submit()];
    let child = [read("a.txt"), say("There are two files.")];
    let (env, repo, model) = tree(&root, &[("count the files", &child)]);
    let bundle = env.at("bundle").display().to_string();
    let _ = env.run(&repo.path, &model, &["--export", &bundle]).code(0);
    let run = env.only_run();
    let requests = model.requests();
    let childs: Vec<String> = requests
        .iter()
        .map(ToString::to_string)
        .filter(|body| body.contains("You are the agent `reader`"))
        .collect();
    assert_eq!(childs.len(), 2);
    assert!(
        childs.iter().all(|body| !body.contains("Mend it.")),
        "it knows nothing of what was said to the root"
    );
    assert!(told(&model).contains("There are two files."));
    let journal = env.journal(&run);
    assert_eq!(bodies(&journal, "agent.ended").len(), 1);
    let of_child = journal.iter().filter(|event| event["agent"] == 1 && event["kind"] == "model.answered");
    assert_eq!(of_child.count(), 2);
    let shown = env.show(&run);
    assert_eq!(shown["agents"][0]["name"], "reader");
    assert_eq!(shown["agents"][0]["end"], "done");
    assert_eq!(shown["steps"], 5);
    for words in ["agent 1 `reader` begins: count the files", "agent 1 `reader` ended: done"] {
        let log = log(&env);
        assert!(log.contains(words), "{log}");
    }
    let shown = env.provost(["show", &run]).code(0).stdout;
    assert!(shown.contains("agent 1: `reader`, for agent 0, 2 steps: done"), "{shown}");
    let cost = env.provost(["cost", "--by", "agent", "--json", &run]).code(0).stdout;
    assert!(cost.contains("\"agent\":\"0\"") && cost.contains("\"agent\":\"1\""), "{cost}");
    // A verifier folds the whole tree again.
    let key = env.public_key().display().to_string();
    let repository = repo.path.display().to_string();
    let _ = env.provost(["verify", &bundle, "--key", &key, "--repo", &repository]).code(0);
}

/// What a narrowed child leaves running could not be told from what others do.
#[test]
fn a_child_that_is_denied_something_starts_nothing_in_the_background() {
    let narrowed = json!({ "goal": "serve it", "name": "server", "deny": ["write gen/**"] });
    let control = json!({ "goal": "serve it", "name": "server" });
    for (orders, starts) in [(narrowed, 0), (control, 1)] {
        let child = [call("shell_start", json!({ "command": "sleep 60" })), say("It is served.")];
        let (env, repo, model) = tree(&[delegate(orders), submit()], &[("serve it", &child)]);
        let _ = env.run(&repo.path, &model, &[]).code(0);
        assert_eq!(bodies(&env.journal(&env.only_run()), "process.ended").len(), starts);
    }
}

/// I5: what a child is denied is denied by its own layer, and its parent goes on being allowed it.
#[test]
fn i5_a_child_may_do_less_than_its_parent_and_never_more() {
    let orders = json!({ "goal": "look only", "name": "reader", "deny": ["write **", "exec *"] });
    let root = [delegate(orders), write("of-root.txt", "root\n"), submit()];
    let child =
        [write("of-child.txt", "child\n"), call("exec", json!({ "argv": ["ls"] })), say("I may not.")];
    let (env, repo, model) = tree(&root, &[("look only", &child)]);
    let _ = env.run(&repo.path, &model, &[]).code(0);
    assert!(repo.path.join("of-root.txt").is_file() && !repo.path.join("of-child.txt").exists());
    let log = log(&env);
    assert!(log.contains("deny: rule `deny write **` of layer `agent reader`"), "{log}");
    assert!(log.contains("deny: rule `deny exec *` of layer `agent reader`"), "{log}");
}

/// A command of a narrowed child leaves nothing where it may not write; its parent's command does.
#[test]
fn i5_a_command_of_a_narrowed_child_is_held_to_its_rules() {
    let orders = json!({ "goal": "run it", "name": "runner", "deny": ["write b.txt", "read a.txt"] });
    let root = [sh("echo root > b.txt"), delegate(orders), sh("echo again > b.txt; cat a.txt"), submit()];
    let child = [sh("echo child > b.txt; cat a.txt; echo mine > c.txt"), say("Ran.")];
    let (env, repo, model) = tree(&root, &[("run it", &child)]);
    let _ = env.run(&repo.path, &model, &[]).code(0);
    let content = |name: &str| std::fs::read_to_string(repo.path.join(name)).unwrap();
    assert_eq!((content("b.txt").as_str(), content("c.txt").as_str()), ("again\n", "mine\n"));
    let journal = env.journal(&env.only_run());
    let finished = bodies(&journal, "act.finished");
    let of_child: Vec<&Value> = journal
        .iter()
        .filter(|event| event["agent"] == 1 && event["kind"] == "act.finished")
        .map(|event| &event["body"])
        .collect();
    assert_eq!(of_child.len(), 1);
    let paths: Vec<String> =
        of_child[0]["changes"].as_array().into_iter().flatten().map(|it| text(&it["path"])).collect();
    assert_eq!(paths, ["c.txt"], "{finished:?}");
}

/// Whoever may have no agents is not offered the tool, and has none if it calls for one all the same.
#[test]
fn with_no_agents_the_tool_is_not_offered() {
    let root = [delegate(json!({ "goal": "look only" })), submit()];
    let (env, repo, model) = tree(&root, &[("look only", &[say("Never.")])]);
    let _ = env.run(&repo.path, &model, &["--max-agents", "0"]).code(0);
    assert!(!model.requests()[0]["body"]["tools"].to_string().contains("delegate"));
    assert!(log(&env).contains("the contract has the agent work alone"));
    assert!(bodies(&env.journal(&env.only_run()), "agent.ended").is_empty());
}

/// Two in one answer go one after the other; the bound on all of them holds, and one child's steps end it alone.
#[test]
fn children_in_turn_are_bounded_by_their_orders_and_the_contract() {
    let order = |goal: &str| delegate(json!({ "goal": goal, "max_steps": 1 }));
    let root = [together(&[order("first"), order("second"), order("third")]), submit()];
    let child = [read("a.txt"), say("Too late.")];
    let (env, repo, model) =
        tree(&root, &[("first", &child), ("second", &[say("Second.")]), ("third", &child)]);
    let _ = env.run(&repo.path, &model, &["--max-agents", "2"]).code(0);
    for words in
        ["agent 1 `agent` ended: its steps are spent", "agent 2 `agent` ended: done", "all of the 2 agents"]
    {
        assert!(log(&env).contains(words), "{}", log(&env));
    }
    assert!(told(&model).contains("Second.") && !told(&model).contains("Too late."));
}

/// Whose lines they are is said on each of them, and whoever is asked learns for whom.
#[test]
fn a_person_sees_whose_each_line_is_and_for_whom_they_are_asked() {
    let orders = json!({ "goal": "count the files\nand say how many", "name": "reader", "max_steps": 4 });
    let root = [delegate(orders), write("found.txt", "2\n"), submit()];
    let asks = call("exec", json!({ "argv": ["wc", "-l", "a.txt"] }));
    let child = [read("a.txt"), asks, say("There are two files.")];
    let (env, repo, model) = tree(&root, &[("count the files", &child)]);
    let ask = ["--policy", "strict", "--allow", "read **"];
    let mut args = env.run_args(&repo.path, &model, &ask);
    args.retain(|arg| arg != "--json");
    let spawn = env.provost(args).code(5).stdout;
    let resume = |act: &str| env.provost(["resume", &env.only_run(), "--approve", act]);
    let exec = resume("0").code(5).stdout;
    let log = resume("2").code(5).stdout;
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"run-[0-9a-z-]+|[0-9a-z]{8,}-[0-9a-z-]+", "[RUN]");
    let waits = |text: &str| {
        let from = text.find("to look closer").unwrap_or_else(|| panic!("{text}"));
        let lines = text[from..]
            .lines()
            .skip(1)
            .filter(|line| !line.starts_with("waiting") && !line.contains("provost log"));
        lines.map(|line| line.replace(&env.only_run(), "[RUN]")).collect::<Vec<_>>().join("\n")
    };
    settings.add_filter(r"the program is `/[^`]*/wc`", "the program is `[BIN]/wc`");
    let asked = format!("{}\n---\n{}", waits(&spawn), waits(&exec));
    settings.bind(|| insta::assert_snapshot!("asked_for_a_child", asked));
    assert!(log.contains(" [1] exec wc -l a.txt"), "{log}");
    let log = env.provost(["log", &env.only_run()]).code(0).stdout;
    assert!(log.contains(" [1] read_file a.txt") && log.contains("  |  [1] There are two files."), "{log}");
    assert!(log.contains("#3   write_file found.txt"), "what is the root's has no mark: {log}");
}
