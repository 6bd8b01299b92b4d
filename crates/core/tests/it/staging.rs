//! Policy files that have changes staged.

use provost_core::path::RelPath;
use provost_core::policy::{Keep, Policy, WorkspaceMode};

fn folders(text: &str) -> Result<Option<Vec<String>>, String> {
    let policy = Policy::from_toml(text, "p.toml").map_err(|error| error.to_string())?;
    let names = policy.workspace.build_folders().iter().map(|path: &RelPath| path.as_str().to_owned());
    Ok(policy.workspace.is_staged().then(|| names.collect()))
}

#[test]
fn a_policy_file_says_whether_changes_are_staged_and_which_folders_are_not() {
    assert_eq!(folders("").unwrap(), None);
    assert_eq!(folders("workspace = \"direct\"").unwrap(), None);
    let usual = ["target", "node_modules", ".venv", "venv"].map(str::to_owned).to_vec();
    assert_eq!(folders("workspace = \"staged\"").unwrap(), Some(usual));
    let own = "workspace = \"staged\"\nbuild_folders = [\"web/dist\", \"out/\"]";
    assert_eq!(folders(own).unwrap(), Some(vec!["web/dist".to_owned(), "out".to_owned()]));
    assert_eq!(folders("workspace = \"staged\"\nbuild_folders = []").unwrap(), Some(Vec::new()));
}

#[test]
fn i9_build_folders_that_are_none_are_refused_by_file_and_line() {
    for (text, why) in [
        ("\nbuild_folders = [\"target\"]", "p.toml:2: build folders mean something only with"),
        (
            "workspace = \"staged\"\nbuild_folders = [\".\"]",
            "p.toml:2: the workspace itself is no build folder",
        ),
        ("workspace = \"staged\"\nbuild_folders = [\"../out\"]", "p.toml:2: `../out` contains `..`"),
        ("workspace = \"staged\"\nbuild_folders = [\"/out\"]", "p.toml:2: `/out` is absolute"),
        ("workspace = \"copied\"", "unknown variant `copied`"),
        ("[caps]\ndisk_mib = 0", "a cap is zero or too large"),
    ] {
        let error = folders(text).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_policy_that_says_nothing_of_it_is_written_as_before() {
    let text = serde_json::to_string(&Policy::from_toml("", "p.toml").unwrap()).unwrap();
    assert!(!text.contains("\"workspace\":"), "{text}");
    let staged = Policy { workspace: WorkspaceMode::staged(), ..Policy::from_toml("", "p.toml").unwrap() };
    let text = serde_json::to_string(&staged).unwrap();
    assert_eq!(serde_json::from_str::<Policy>(&text).unwrap(), staged);
}

#[test]
fn of_a_command_all_is_kept_or_nothing_where_the_file_says_so() {
    let of = |text: &str| Policy::from_toml(text, "p.toml").unwrap();
    assert_eq!(of("workspace = \"staged\"").workspace.keep(), Keep::Allowed);
    let own = of("workspace = \"all-or-nothing\"\nbuild_folders = [\"out\"]");
    assert_eq!(own.workspace.keep(), Keep::AllOrNothing);
    assert_eq!(own.workspace.build_folders(), [RelPath::parse("out").unwrap()]);
    let text = serde_json::to_string(&own).unwrap();
    assert!(text.contains("\"keep\":\"all-or-nothing\""), "{text}");
    assert_eq!(serde_json::from_str::<Policy>(&text).unwrap(), own);
    let staged = serde_json::to_string(&of("workspace = \"staged\"")).unwrap();
    assert!(!staged.contains("keep"), "staged is written as before: {staged}");
}
