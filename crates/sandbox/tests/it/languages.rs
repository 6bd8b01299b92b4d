//! What people build and test with works inside: Go, make, npm, pytest, uv, and a browser. Each does its ordinary work
//! offline; that the network is not there is tested elsewhere.

use std::path::PathBuf;
use std::time::Duration;

use provost_core::containment::Rung;
use provost_sandbox::{Command, HOME, Profile, toolchain_reads};

use crate::support::{Host, Ran};

/// With namespaces, and without.
const RUNGS: [Rung; 2] = [Rung::R3, Rung::R2];

/// A host whose workspace has these files.
fn host(files: &[(&str, &str)]) -> Host {
    let host = Host::new();
    for (name, text) in files {
        let path = host.ws().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    host
}

fn run(host: &Host, rung: Rung, profile: &Profile, argv: &[&str], env: &[(&str, &str)]) -> Ran {
    let mut command: Command = host.command(argv);
    command.wall = Duration::from_secs(100);
    command.env.insert("CI".into(), "1".into());
    command.env.extend(env.iter().map(|(name, value)| (name.into(), value.into())));
    host.run_with(rung, profile.clone(), &command)
}

#[test]
fn go_builds_and_tests_a_module() {
    for rung in RUNGS {
        let host = host(&[
            ("go.mod", "module small\n\ngo 1.19\n"),
            ("sum.go", "package small\n\nfunc Sum(a, b int) int { return a + b }\n"),
            (
                "sum_test.go",
                "package small\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif Sum(1, 1) != 2 {\n\t\tt.Fatal()\n\t}\n}\n",
            ),
        ]);
        // Go is given its cache by `HOME`, which a sandbox makes for each command.
        let ran = run(&host, rung, &host.profile(), &["go", "test", "./..."], &[("GOFLAGS", "-mod=mod")]);
        ran.assert_ok();
        assert!(ran.text.contains("ok  \tsmall"), "{rung}: {}", ran.text);
    }
}

#[test]
fn make_builds_with_several_jobs() {
    for rung in RUNGS {
        let host = host(&[
            ("Makefile", "all: a b\n\t./a && ./b\na b: main.c\n\tcc -o $@ main.c\n"),
            ("main.c", "#include <stdio.h>\nint main(void) { puts(\"made\"); return 0; }\n"),
        ]);
        let ran = run(&host, rung, &host.profile(), &["make", "-j2"], &[]);
        ran.assert_ok();
        assert!(ran.text.ends_with("made\nmade\n"), "{rung}: {}", ran.text);
    }
}

#[test]
fn npm_installs_what_is_there_and_runs_tests() {
    for rung in RUNGS {
        let host = host(&[
            (
                "package.json",
                "{\"name\": \"app\", \"version\": \"1.0.0\", \"dependencies\": {\"part\": \"file:./part\"}, \
                 \"scripts\": {\"test\": \"node --test\"}}",
            ),
            ("part/package.json", "{\"name\": \"part\", \"version\": \"1.0.0\", \"main\": \"part.js\"}"),
            ("part/part.js", "module.exports = 42;\n"),
            (
                "app.test.js",
                "require('node:test').test('part', () => require('node:assert').equal(require('part'), 42));\n",
            ),
        ]);
        run(&host, rung, &host.profile(), &["npm", "install", "--offline", "--no-audit"], &[]).assert_ok();
        let ran = run(&host, rung, &host.profile(), &["npm", "test"], &[]);
        ran.assert_ok();
        assert!(ran.text.contains("# pass 1"), "{rung}: {}", ran.text);
        assert!(host.ws().join("node_modules/part").exists());
    }
}

/// The folder of Node packages that `./test` prepares.
fn node_packages() -> PathBuf {
    std::env::var_os("PROVOST_TEST_NODE").map(PathBuf::from).expect(
        "PROVOST_TEST_NODE names no folder of packages: run the tests by `./test`, which prepares one with pnpm",
    )
}

#[test]
fn pnpm_installs_a_workspace_and_runs_its_tests() {
    let packages = node_packages();
    for rung in RUNGS {
        let host = host(&[
            ("pnpm-workspace.yaml", "packages:\n  - part\n  - app\n"),
            ("package.json", "{\"name\": \"all\", \"private\": true}"),
            (
                "app/package.json",
                "{\"name\": \"app\", \"version\": \"1.0.0\", \"dependencies\": {\"part\": \"workspace:*\"}, \
                 \"scripts\": {\"test\": \"node --test\"}}",
            ),
            ("part/package.json", "{\"name\": \"part\", \"version\": \"1.0.0\", \"main\": \"part.js\"}"),
            ("part/part.js", "module.exports = 42;\n"),
            (
                "app/app.test.js",
                "require('node:test').test('part', () => require('node:assert').equal(require('part'), 42));\n",
            ),
        ]);
        let mut profile = host.profile();
        profile.readable.push(packages.clone());
        let pnpm = packages.join("pnpm/bin/pnpm.cjs").to_string_lossy().into_owned();
        let pnpm = |args: &[&str]| {
            let argv: Vec<&str> = ["node", &pnpm].iter().chain(args).copied().collect();
            run(&host, rung, &profile, &argv, &[])
        };
        pnpm(&["install", "--offline", "--no-frozen-lockfile"]).assert_ok();
        assert!(host.ws().join("app/node_modules/part/part.js").exists());
        assert!(host.ws().join("pnpm-lock.yaml").exists());
        let ran = pnpm(&["--filter", "app", "test"]);
        ran.assert_ok();
        assert!(ran.text.contains("# pass 1"), "{rung}: {}", ran.text);
    }
}

/// The folder of Python packages that `./test` prepares.
fn python() -> PathBuf {
    let python = std::env::var_os("PROVOST_TEST_PYTHON").map(PathBuf::from).expect(
        "PROVOST_TEST_PYTHON names no interpreter: run the tests by `./test`, which prepares one with pytest and uv",
    );
    python.parent().and_then(|bin| bin.parent()).unwrap().to_owned()
}

#[test]
fn pytest_and_uv_work() {
    let venv = python();
    for rung in RUNGS {
        let host = host(&[
            (
                "test_sum.py",
                "def test_sum(tmp_path):\n    (tmp_path / 'x').write_text('1')\n    assert 1 + 1 == 2\n",
            ),
            (
                "pyproject.toml",
                "[project]\nname = \"small\"\nversion = \"0.1.0\"\nrequires-python = \">=3.9\"\ndependencies = []\n",
            ),
        ]);
        let mut profile = host.profile();
        profile.readable.push(venv.clone());
        // A virtual environment's interpreter is a link to an installation elsewhere.
        profile.readable.extend(toolchain_reads(venv.join("bin").as_os_str(), None));
        let bin = |name: &str| venv.join("bin").join(name).to_string_lossy().into_owned();
        let ran = run(&host, rung, &profile, &[&bin("pytest"), "-q"], &[]);
        ran.assert_ok();
        assert!(ran.text.contains("1 passed"), "{rung}: {}", ran.text);
        let offline =
            [("UV_OFFLINE", "1"), ("UV_PYTHON_DOWNLOADS", "never"), ("UV_PYTHON", "/usr/bin/python3")];
        let script = ["run", "--no-project", "python", "-c", "print('by uv')"];
        let argv: Vec<&str> = script.into_iter().collect();
        let uv = bin("uv");
        let ran = run(&host, rung, &profile, &[&[uv.as_str()], argv.as_slice()].concat(), &offline);
        ran.assert_ok();
        assert!(ran.text.contains("by uv"), "{rung}: {}", ran.text);
        run(&host, rung, &profile, &[&uv, "venv", "own"], &offline).assert_ok();
        assert!(host.ws().join("own/bin/python").exists());
    }
}

#[test]
fn a_browser_starts_and_draws_a_page() {
    for rung in RUNGS {
        let host =
            host(&[("page.html", "<p id=p></p><script>p.textContent = 'drawn ' + (20 + 22)</script>")]);
        let mut profile = host.profile();
        // Under R2 shared memory is the host's, when it is declared.
        profile.writable.push("/dev/shm".into());
        let page = format!("file://{}", host.ws().join("page.html").display());
        let argv = [
            "chromium",
            "--headless",
            // Its own sandbox wants namespaces, which no rung gives; this one holds it.
            "--no-sandbox",
            "--disable-gpu",
            "--dump-dom",
            &page,
        ];
        let ran = run(&host, rung, &profile, &argv, &[("XDG_CONFIG_HOME", HOME)]);
        ran.assert_ok();
        assert!(ran.text.contains("drawn 42"), "{rung}: {}", ran.text);
    }
}
