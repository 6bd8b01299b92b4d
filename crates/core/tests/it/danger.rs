//! Files that are code or configuration to whoever takes a change.

use provost_core::path::RelPath;
use provost_core::policy::{Effect, Layer};
use provost_core::session::{Danger, Dangers};

#[test]
fn each_kind_names_its_files_and_leaves_others_alone() {
    let dangers = Dangers::all();
    let of = |path: &str| dangers.of(&RelPath::parse(path).unwrap());
    for (path, kind) in [
        ("build.rs", Danger::BuildScripts),
        ("package/deep/build.rs", Danger::BuildScripts),
        ("Makefile", Danger::BuildFiles),
        ("Cargo.toml", Danger::Manifests),
        (".cargo/config.toml", Danger::CargoConfig),
        ("a/.cargo/config", Danger::CargoConfig),
        ("rust-toolchain", Danger::Toolchain),
        ("tests/conftest.py", Danger::TestConfig),
        (".github/workflows/ci.yml", Danger::Ci),
        (".github", Danger::Ci),
        (".GitHub/workflows/ci.yml", Danger::Ci),
        ("Build.rs", Danger::BuildScripts),
        ("makefile", Danger::BuildFiles),
        (".gitattributes", Danger::GitControl),
        (".npmrc", Danger::PackageConfig),
        (".vscode/tasks.json", Danger::Editors),
        ("Dockerfile.dev", Danger::Containers),
        ("docs/CODEOWNERS", Danger::Owners),
    ] {
        assert_eq!(of(path), Some(kind), "{path}");
    }
    for path in ["src/build.rs.txt", "src/lib.rs", "Cargo.lock", "github/x.yml", "docs/Makefile.md"] {
        assert_eq!(of(path), None, "{path}");
    }
}

#[test]
fn every_glob_is_a_rule_and_every_name_is_read_back() {
    for kind in Danger::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        for rule in kind.rules() {
            Layer::named("x").rule(Effect::Deny, &rule).unwrap();
        }
    }
    assert!("build".parse::<Danger>().unwrap_err().contains("build-scripts, build-files"));
}
