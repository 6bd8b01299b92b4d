//! What a command starts, read off its argument vector, and what policy makes of it.

use proptest::prelude::*;
use provost_core::act::{Access, Touch};
use provost_core::containment::Rung;
use provost_core::exec::{Part, Word, base_name, parts, steers};
use provost_core::policy::{Default, Effect, Layer, Policy, Preset};

use crate::cases;

/// Words as in these tables: `$x` is one word of an expansion, `$*` any number.
fn words(line: &str) -> Vec<Word> {
    let word = |text: String| match text.as_str() {
        "$*" => Word::Many(text),
        "$x" => Word::One(text),
        _ => Word::Fixed(text),
    };
    shlex::split(line).unwrap().into_iter().map(word).collect()
}

fn looked_at(line: &str) -> Vec<Part> {
    let words = words(line);
    parts(base_name(words[0].text()), &words[1..])
}

/// The commands and lines that a command starts, as text; `~` where it may write, `?` where it cannot be told.
fn shown(line: &str) -> String {
    let show = |part: &Part| match part {
        Part::Command { words, .. } => words.iter().map(Word::text).collect::<Vec<_>>().join(" "),
        Part::Line { line, .. } => format!("sh:{line}"),
        Part::Hidden(_) => "~".to_owned(),
        Part::Unclear(_) | Part::Untold(_) => "?".to_owned(),
    };
    looked_at(line).iter().map(show).collect::<Vec<_>>().join(" | ")
}

#[test]
fn wrappers_are_seen_through() {
    let table = [
        ("env rm f", "rm f"),
        ("env -i A=1 B=2 rm f", "rm f"),
        ("env -u X -C dir rm f", "rm f"),
        ("env --chdir=dir -- rm f", "rm f"),
        ("env - rm f", "rm f"),
        ("env PATH=/x rm f", "? | rm f"),
        ("env -S 'rm -rf x'", "rm -rf x"),
        ("env '-S rm f'", "rm f"),
        ("env -S 'rm ${X}'", "sh:rm ${X} | ?"),
        ("env", ""),
        ("env A=1", ""),
        ("nice rm f", "rm f"),
        ("nice -n 5 rm f", "rm f"),
        ("nice -n5 rm f", "rm f"),
        ("nice -10 rm f", "rm f"),
        ("nice --adjustment=3 rm f", "rm f"),
        ("nice --adj=3 rm f", "rm f | f | ?"),
        ("ionice -c2 -n 0 rm f", "rm f"),
        ("timeout 5 rm f", "rm f"),
        ("timeout -s KILL -k 3 5s rm f", "rm f"),
        ("timeout --signal=KILL 5 rm f", "rm f"),
        ("nohup rm f", "rm f"),
        ("setsid -f rm f", "rm f"),
        ("stdbuf -oL rm f", "rm f"),
        ("time -p rm f", "rm f"),
        ("time -o log rm f", "~ | rm f"),
        ("command rm f", "rm f"),
        ("command -v rm", ""),
        ("exec -a x rm f", "rm f"),
        ("chroot / rm f", "rm f"),
        ("chroot /x", "?"),
        ("unshare -r rm f", "rm f"),
        ("unshare -r", "?"),
        ("nsenter -t 1 -m rm f", "rm f"),
        ("sudo -u me A=1 rm f", "rm f"),
        ("sudo -s rm f", "? | rm f"),
        ("doas rm f", "rm f"),
        ("choom -n 0 rm f", "rm f"),
        ("ssh-agent rm f", "rm f"),
        ("busybox rm f", "rm f"),
        ("flock l rm f", "rm f"),
        ("flock -n l -c 'rm f'", "sh:rm f"),
        ("flock -w 3 l rm f", "rm f"),
        ("script -c 'rm f'", "~ | sh:rm f"),
        ("script -qec 'rm f' /dev/null", "~ | sh:rm f"),
        ("script", "~ | ?"),
        ("xargs rm", "rm [words that xargs reads]"),
        ("xargs -n1 -P4 rm -f", "rm -f [words that xargs reads]"),
        ("xargs -I{} rm {}", "rm {}"),
        ("xargs -I {} {}", "?"),
        ("xargs -I{} sh -c 'rm {}'", "sh -c rm {}"),
        ("xargs", "echo [words that xargs reads]"),
        ("strace -f -e trace=file rm f", "rm f"),
        ("strace -o log rm f", "? | rm f"),
        ("watch -n 1 rm f", "sh:rm f"),
        ("watch -x rm f", "rm f"),
        ("ssh localhost rm f", "sh:rm f"),
        ("ssh -o ProxyCommand=x localhost rm f", "? | sh:rm f"),
        ("parallel rm ::: a b", "rm | sh:rm | sh:::: | sh:a | sh:b | ?"),
        ("/lib64/ld-linux-x86-64.so.2 /bin/rm f", "/bin/rm f"),
        ("find . -name '*.o' -exec rm {} ;", "rm {}"),
        ("find . -exec rm {} + -print", "rm {}"),
        ("find . -exec rm a + b ;", "rm a + b"),
        ("find . -ok rm {} ; -execdir mv {} x ;", "rm {} | mv {} x"),
        ("find . -exec {} ;", "?"),
        ("find . -delete", "~"),
        ("find . -fprintf out %p", "~"),
        ("find $x -name a", "?"),
        ("find . -name $x", ""),
        ("find . -name $*", "?"),
        ("find . -files0-from f -exec rm {} ;", "? | rm {}"),
        ("find $* -name a", "?"),
        ("fd -x rm", "rm [names that fd finds]"),
        ("su -c 'rm f' me", "sh:rm f | ?"),
        ("rustup run stable cargo publish", "cargo publish"),
        ("bash -c 'rm f'", "sh:rm f"),
        ("bash -euo pipefail -c 'rm f'", "sh:rm f"),
        ("sh -c 'rm \"$1\"' _ f", "sh:rm \"$1\""),
        ("bash --noprofile --norc -c 'rm f'", "sh:rm f"),
        ("bash -lc 'rm f'", "? | sh:rm f"),
        ("bash -oc posix 'rm f'", "? | sh:rm f"),
        ("sh -oc noglob 'rm f'", "sh:rm f"),
        ("bash -Oc extglob 'rm f'", "sh:rm f"),
        ("bash -oo errexit pipefail -c 'rm f'", "sh:rm f"),
        ("bash +c 'rm f'", "sh:rm f"),
        ("sh +ec 'rm f'", "sh:rm f"),
        ("bash -kc 'ls A=1'", "? | sh:ls A=1"),
        ("bash -o $x -c 'rm f'", "? | sh:rm f"),
        ("bash -norc -c 'rm f'", "sh:rm f"),
        ("bash --rcfile x -c 'rm f'", "? | sh:rm f"),
        ("sh", "?"),
        ("sh -s a", "? | "),
        ("sh script.sh a", ""),
        ("sh /dev/stdin", "?"),
        ("zsh -c 'rm f'", "?"),
        ("eval rm f", "sh:rm f | ?"),
        ("trap 'rm f' EXIT", "sh:rm f"),
        ("trap -- 'rm f' EXIT", "sh:rm f"),
        ("trap -- '-x; rm f' EXIT", "sh:-x; rm f"),
        ("trap -- -p EXIT", "sh:-p"),
        ("trap -p EXIT", ""),
        ("trap -lp", ""),
        ("trap -- - EXIT", ""),
        ("trap 2", ""),
        ("trap 2 EXIT", ""),
        ("trap '' TERM", ""),
        ("trap - TERM", ""),
        ("trap TERM", ""),
        ("trap $x TERM", "sh:$x"),
        ("nice $x", "?"),
        ("git -C . push", "git push"),
        ("git -c a.b=c push", "? | git push"),
        ("git -c user.name=x push", "git push"),
        ("git -c alias.x='!rm f' x", "sh:rm f | ? | git x"),
        ("git -c alias.x=push x origin", "? | git x origin | git push origin"),
        ("git -c core.pager=rm log", "? | git log"),
        ("git --git-dir=x --work-tree y push", "git push"),
        ("git rebase -x 'rm f' main", "sh:rm f"),
        ("git rebase -x ls -ix 'rm f'", "sh:ls | ?"),
        ("git rebase --exe='rm f'", "?"),
        ("git rebase $x", "?"),
        ("git log $x", "~"),
        ("git submodule $x 'rm f'", "?"),
        ("git clone -c core.sshCommand=rm x", "?"),
        ("git clone -qccore.sshCommand=rm x", "?"),
        ("git clone -c user.name=rm x", ""),
        ("git clone -c $x y", "? | ?"),
        ("git-push origin", "git push origin"),
        ("git bisect run rm f", "rm f"),
        ("git submodule foreach 'rm f'", "sh:rm f"),
        ("git diff --output=f", "~"),
        ("git diff --outp=f", "~"),
        ("git clone --upload-pack=x y", "?"),
        ("git fetch ext::x", "?"),
        ("git log --oneline -5", ""),
        ("cargo +nightly publish", "cargo publish"),
        ("cargo -q --offline publish", "cargo publish"),
        ("cargo --color never publish", "cargo never publish | cargo publish"),
        ("cargo --config x=1 test", "? | cargo x=1 test | cargo test"),
        ("cargo test --lib", ""),
        ("npm --prefix dir publish", "npm dir publish | npm publish"),
        ("npx -y rm f", "rm f"),
        ("python3 -c 'import os'", ""),
        ("cat f", ""),
    ];
    for (line, wanted) in table {
        let shown = shown(line).trim_end_matches(" | ").to_owned();
        assert_eq!(shown, wanted.trim_end_matches(" | "), "{line}");
    }
}

/// P7: what a reader's name does not say.
#[test]
fn p7_readers_that_write_or_start_something() {
    for line in [
        "sort -o f a",
        "sort -uo f a",
        "sort --output=f a",
        "sort --out=f",
        "sed -i s/a/b/ f",
        "sed -Ei.bak s/a/b/ f",
        "sed -n 'w out' f",
        "sed s/a/b/w\\ out f",
        "base64 -o f",
        "uniq a b",
        "tree -o f",
        "yq -i .a f",
        "curl -o f u",
        "awk '{print > \"f\"}' a",
        "find . -fls f",
        "git log --output=f",
    ] {
        assert!(looked_at(line).iter().any(|part| matches!(part, Part::Hidden(_))), "{line}");
    }
    for line in [
        "rg --pre ./x y",
        "sort --compress-program=x a",
        "tar -I ./x -tf a",
        "tar tIf ./x a",
        "tar --to-command=x -xf a",
        "tar --checkpoint=1 --checkpoint-action=exec=x -cf a b",
        "tar --use-compress=x -tf a",
        "sed '1e rm f' a",
        "sed s/a/b/e f",
        "awk 'BEGIN{system(\"rm\")}'",
        "awk '{print|\"sh\"}' f",
        "awk -f x f",
        "less f",
        "vim f",
        "man -P x y",
        "rsync -e x a b",
        "rsync -ave ./x a b",
        "zip -TT x a b",
        "zip a -T b",
        "sqlite3 db .shell",
        "git grep -O./x y",
        "nc -e /bin/sh h 1",
        "split --filter=x f",
        "sed p p $x",
        "sed --expr='1e rm f' p",
        "sed -l 5 '1e rm f' a",
        "diff3 --diff-program=x a b c",
        "sftp -D x h",
        "sqlite3 db '.import \"|rm\" t'",
        "sort $*",
    ] {
        let parts = looked_at(line);
        let told =
            parts.iter().any(|part| matches!(part, Part::Unclear(_) | Part::Untold(_) | Part::Hidden(_)));
        assert!(told, "{line}: {parts:?}");
    }
    for line in [
        "sort -u -k2 a",
        "sort -t o a",
        "sed -n 1,5p f",
        "sed -n 1p -- $x",
        "sqlite3 db 'select a.s from b'",
        "sed -e s/o/w/ -e s/w/e/ f",
        "rg -n --hidden x",
        "tar -tf a",
        "tar xzf a",
        "find . -name x -type f -print",
        "awk '{print $1}' f",
        "awk -F'|' '{print $2}' f",
        "uniq -c f",
        "rsync -a a b",
        "base64 -d f",
        "grep -o x f",
        "head -n 5 f",
        "git diff --stat HEAD~1",
        "curl -s u",
    ] {
        assert_eq!(looked_at(line), [], "{line}");
    }
}

#[test]
fn variables_that_steer() {
    for name in [
        "PATH",
        "LD_PRELOAD",
        "BASH_CMDS",
        "BASH_ENV",
        "ENV",
        "GIT_SSH_COMMAND",
        "PAGER",
        "RUSTC_WRAPPER",
        "PS4",
        "IFS_",
    ] {
        assert_eq!(steers(name), name != "IFS_", "{name}");
    }
    for name in ["RUST_LOG", "RUST_BACKTRACE", "CI", "A", "CARGO_TERM_COLOR", "PYTHONUNBUFFERED", "LANG"] {
        assert!(!steers(name), "{name}");
    }
}

fn policy(default: &str, rules: &[(Effect, &str)]) -> Policy {
    let mut layer = Layer::named("test");
    for (effect, rule) in rules {
        layer = layer.rule(*effect, rule).unwrap();
    }
    let default = match default {
        "allow" => Default::Allow,
        "ask" => Default::Ask,
        _ => Default::Deny,
    };
    layer.defaults = Access::ALL.into_iter().map(|access| (access, default)).collect();
    let mut policy = Policy::preset(Preset::FullAccess);
    policy.layers = vec![layer];
    policy
}

fn effect(policy: &Policy, touch: &Touch) -> Effect {
    policy.decide(std::slice::from_ref(touch), Rung::R3).effect
}

const ALLOW: Effect = Effect::Allow;
const ASK: Effect = Effect::Ask;
const DENY: Effect = Effect::Deny;

#[test]
fn a_command_that_is_known_in_part() {
    let made = |line: &str| {
        let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let known = argv.iter().position(|word| word.starts_with('$')).unwrap() as u32;
        Touch::Expanded { argv, known, program: Some("/usr/bin/git".into()) }
    };
    let push = policy("allow", &[(DENY, "exec git push")]);
    assert_eq!(effect(&push, &made("git push $x")), DENY);
    assert_eq!(effect(&push, &made("git $x")), ASK, "it may be push");
    assert_eq!(effect(&push, &made("git log $x")), ALLOW);
    assert_eq!(effect(&push, &made("x $x")), ASK, "another name for git");
    let decision = push.decide(&[made("git $x")], Rung::R3);
    assert_eq!(decision.rule, "perhaps deny exec git push");
    let some = policy("deny", &[(ALLOW, "exec git log*"), (ALLOW, "exec git show x")]);
    assert_eq!(effect(&some, &made("git log $x")), ALLOW);
    assert_eq!(effect(&some, &made("git $x")), DENY);
    assert_eq!(effect(&some, &made("git show $x")), DENY);
    assert_eq!(effect(&policy("deny", &[(ALLOW, "exec git *")]), &made("git $x")), ALLOW);
}

#[test]
fn what_cannot_be_told_counts_as_everything() {
    let unclear = |of| Touch::Unclear { of, why: "`eval`".to_owned() };
    for (default, rules, wanted) in [
        ("allow", &[][..], ALLOW),
        ("ask", &[], ASK),
        ("deny", &[], DENY),
        ("allow", &[(DENY, "exec rm")], ASK),
        ("allow", &[(ASK, "exec rm")], ASK),
        ("allow", &[(DENY, "write x")], ALLOW),
        ("ask", &[(ALLOW, "exec cargo*"), (ALLOW, "exec eval*")], ASK),
        ("deny", &[(ALLOW, "exec eval*")], DENY),
        ("ask", &[(ALLOW, "exec *")], ALLOW),
        ("ask", &[(ALLOW, "exec *"), (DENY, "exec rm")], ASK),
        ("allow", &[(DENY, "exec *")], DENY),
    ] {
        assert_eq!(effect(&policy(default, rules), &unclear(Access::Exec)), wanted, "{default} {rules:?}");
    }
    let files = policy("allow", &[(DENY, "write .git/")]);
    assert_eq!(effect(&files, &unclear(Access::Write)), ASK);
    assert_eq!(effect(&files, &unclear(Access::Read)), ALLOW);
    let outside = |path: &str| Touch::Outside { of: Access::Write, path: path.to_owned() };
    for path in ["/etc/x", "/tmp/../etc/x", "../x", "/tmpx"] {
        assert_eq!(effect(&files, &outside(path)), ASK, "{path}");
    }
    // A command has `/tmp` for itself, but not without a sandbox.
    assert_eq!(effect(&files, &outside("/tmp/x")), ALLOW);
    assert_eq!(files.decide(&[outside("/tmp/x")], Rung::R1).effect, ASK);
    assert_eq!(effect(&policy("deny", &[]), &outside("/tmp/x")), DENY);
}

#[test]
fn a_reader_that_writes_is_allowed_where_the_rule_spells_it() {
    let sorts = |by: &str| {
        let argv = ["sort", by, "f"].map(str::to_owned).to_vec();
        Touch::Hidden { argv, by: by.to_owned() }
    };
    let allowed = |rule: &str, by: &str| effect(&policy("ask", &[(ALLOW, rule)]), &sorts(by)) == ALLOW;
    assert!(!allowed("exec sort*", "-o") && !allowed("exec sort * f", "-o"));
    assert!(allowed("exec sort -o*", "-o") && allowed("exec sort -o f", "-o") && allowed("exec *", "-o"));
    assert!(allowed("exec sort --output=* *", "--output=f") && !allowed("exec sort --*", "-o"));
    assert_eq!(effect(&policy("allow", &[(DENY, "exec rm")]), &sorts("-o")), ALLOW);
    assert_eq!(effect(&policy("allow", &[(DENY, "exec sort -o")]), &sorts("-o")), DENY);
}

/// What a command starts is decided by itself, but for two kinds of allow rules.
#[test]
fn a_rule_that_spells_the_whole_command_covers_what_it_starts() {
    let argv = |line: &str| shlex::split(line).unwrap();
    let act = |line: &str, starts: &str| {
        vec![
            Touch::Exec { argv: argv(line), program: Some("/usr/bin/sh".into()) },
            Touch::Exec { argv: argv(starts), program: None },
            Touch::Expanded { argv: argv("cat $x"), known: 1, program: None },
            Touch::Unclear { of: Access::Exec, why: "eval".into() },
        ]
    };
    let decide = |rules: &[(Effect, &str)], act: &[Touch]| policy("deny", rules).decide(act, Rung::R3).effect;
    let make = act("sh -c 'make all'", "make all");
    for (rule, wanted) in [
        ("exec sh -c 'make all'", ALLOW),
        ("exec sh **", ALLOW),
        ("exec sh *", DENY),
        ("exec sh -c*", DENY),
        ("exec sh -c 'make ?ll'", DENY),
        ("exec sh", DENY),
    ] {
        assert_eq!(decide(&[(ALLOW, rule)], &make), wanted, "{rule}");
    }
    assert_eq!(decide(&[(ALLOW, "exec sh **"), (DENY, "exec make")], &make), DENY);
    assert_eq!(decide(&[(ALLOW, "exec sh **"), (DENY, "exec rm")], &make), ASK, "`eval` may be rm");
    assert_eq!(
        decide(&[(ALLOW, "exec sh **"), (ASK, "exec sh*")], &make),
        DENY,
        "the allowance does not decide"
    );
    // Another path of the same program is no command that it starts, and a file is not covered.
    let mut spelled = act("sh x", "/ws/sh x");
    assert_eq!(decide(&[(ALLOW, "exec sh **")], &spelled), DENY);
    spelled = act("sh x", "y");
    spelled.push(Touch::Outside { of: Access::Write, path: "/etc/x".into() });
    assert_eq!(decide(&[(ALLOW, "exec sh **")], &spelled), DENY);
}

#[test]
fn a_shells_own_part_needs_no_allow_and_keeps_a_deny() {
    let bash = Touch::Shell {
        argv: vec!["bash".into(), "-c".into(), "x".into()],
        known: None,
        program: Some("/bin/bash".into()),
    };
    assert_eq!(effect(&policy("deny", &[]), &bash), ALLOW);
    assert_eq!(effect(&policy("allow", &[(DENY, "exec bash")]), &bash), DENY);
    assert_eq!(effect(&policy("allow", &[(ASK, "exec bash*")]), &bash), ASK);
}

#[test]
fn rules_bring_their_own_tests() {
    let good = r#"
allow = [{ rule = "exec cargo test*", match = ["cargo test -p x"], no_match = ["cargo publish", "./cargo test"] }]
ask = [{ rule = "write docs/", match = ["docs/a"] }]
deny = [
  "exec rm",
  { rule = "exec git push*", match = ["git push -f", "env git push", "git -C x push", "sh -c 'git push'"], no_match = ["git pull"] },
  { rule = "net *.example.org", match = ["a.example.org:443"], no_match = ["example.org:443"] },
]
"#;
    let policy = Policy::from_toml(good, "p.toml").unwrap();
    assert_eq!(policy.rules(), Policy::preset(Preset::Strict).rules() + 5);
    // The examples are the file's alone: the journal keeps the rules.
    assert!(!serde_json::to_string(&policy).unwrap().contains("no_match"));
    for (bad, wanted) in [
        (
            "deny = [\n  { rule = \"exec rm\", match = [\n    \"rm f\",\n    \"rmdir f\" ] },\n]",
            "p.toml:4: `deny exec rm` does not hold for its `match` `rmdir f`",
        ),
        (
            "allow = [{ rule = \"exec cargo *\",\n no_match = [\"cargo publish\"] }]",
            "p.toml:2: `allow exec cargo *` holds for its `no_match` `cargo publish`",
        ),
        (
            "deny = [{ rule = \"exec rm\", no_match = [\"nice rm f\"] }]",
            "p.toml:1: `deny exec rm` holds for its `no_match` `nice rm f`",
        ),
        (
            "deny = [{ rule = \"net x\", match = [\"x\"] }]",
            "p.toml:1: `deny net x` has an example that cannot be read (it is not host:port): `x`",
        ),
    ] {
        assert_eq!(Policy::from_toml(bad, "p.toml").unwrap_err().to_string(), wanted);
    }
    for bad in
        ["deny = [{ rule = \"exec rm\", matches = [\"rm\"] }]", "deny = [{ match = [\"rm\"] }]", "deny = [5]"]
    {
        let error = Policy::from_toml(bad, "p.toml").unwrap_err().to_string();
        assert!(error.starts_with("p.toml: "), "{error}");
    }
}

/// What is put around a command without changing what it does.
const AROUND: &[&[&str]] = &[
    &["env"],
    &["env", "A=1"],
    &["nice", "-n", "5"],
    &["timeout", "10"],
    &["sudo", "-u", "x"],
    &["setsid"],
    &["nohup"],
    &["stdbuf", "-oL"],
    &["busybox"],
    &["flock", "lock"],
    &["xargs", "-n", "1"],
    &["command"],
    &["time", "-p"],
    &["chroot", "/"],
    &["ionice", "-c3"],
    &["doas"],
    &["strace", "-f"],
    &["unknown-to-nobody", "env"],
];

/// The strictest decision on a command and all that it starts.
fn decided(policy: &Policy, words: &[Word], depth: usize) -> Effect {
    let argv: Vec<String> = words.iter().map(|word| word.text().to_owned()).collect();
    let known = words.iter().take_while(|word| word.known().is_some()).count();
    let own = if known == argv.len() {
        Touch::Exec { argv, program: None }
    } else {
        Touch::Expanded { argv, known: known as u32, program: None }
    };
    let mut strictest = effect(policy, &own);
    if depth == 0 {
        return strictest;
    }
    for part in parts(base_name(words[0].text()), &words[1..]) {
        strictest = strictest.max(match part {
            Part::Command { words, .. } => decided(policy, &words, depth - 1),
            Part::Line { .. } | Part::Unclear(_) | Part::Untold(_) => {
                effect(policy, &Touch::Unclear { of: Access::Exec, why: String::new() })
            }
            Part::Hidden(_) => ALLOW,
        });
    }
    strictest
}

proptest! {
    #![proptest_config(cases(300))]

    /// However a denied command is wrapped, it is not allowed.
    #[test]
    fn wrapping_never_turns_a_denial_into_an_allowance(
        around in prop::collection::vec(prop::sample::select(&AROUND[..AROUND.len() - 1]), 0..5),
        inner in prop::sample::select(vec!["rm -rf x", "/bin/rm x", "git push", "git -C . push", "cargo publish"]),
    ) {
        let policy = policy("allow", &[(DENY, "exec rm"), (DENY, "exec git push"), (DENY, "exec cargo publish")]);
        let mut all: Vec<Word> = around.iter().flat_map(|words| words.iter().copied().map(Word::fixed)).collect();
        all.extend(words(inner));
        prop_assert_eq!(decided(&policy, &all, 12), DENY);
    }

    /// Words that nobody chose: no panic, and a denial more never allows more.
    #[test]
    fn i5_a_denial_more_never_allows_more_of_what_a_command_starts(
        line in prop::collection::vec(prop::sample::select(vec![
            "env", "-S", "rm f", "xargs", "-I", "{}", "find", "-exec", ";", "+", "sh", "-c", "git", "-c", "a=b", "push",
            "--", "-", "sed", "w x", "-i", "awk", "{print|\"x\"}", "sort", "-o", "$x", "$*", "sudo", "-u", "A=1",
            "timeout", "5", "script", "flock", "cargo", "+x", "publish", "tar", "-I", "", "-n", "ssh", "parallel", ":::",
        ]), 1..9),
        denied in prop::sample::select(vec!["exec rm", "exec git push", "exec sort -o", "exec *", "exec x"]),
        default in prop::sample::select(vec!["allow", "ask", "deny"]),
    ) {
        let words: Vec<Word> = line.iter().map(|text| match *text {
            "$*" => Word::Many("$*".to_owned()),
            "$x" => Word::One("$x".to_owned()),
            text => Word::fixed(text),
        }).collect();
        let rules = [(ALLOW, "exec env*"), (ALLOW, "exec git *"), (ALLOW, "exec find*")];
        let before = decided(&policy(default, &rules), &words, 4);
        let mut more = rules.to_vec();
        more.push((DENY, denied));
        prop_assert!(decided(&policy(default, &more), &words, 4) >= before);
    }
}
