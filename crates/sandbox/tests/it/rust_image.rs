//! An image from the host's own Rust toolchain. Not a part of what runs as an ordinary user: on a machine whose
//! toolchain is root's own, that one has none.

use std::fs;

use provost_core::containment::Rung;
use provost_sandbox::ImageRoot;
use provost_sandbox::image::{HostTools, ImageStore, rust_image};

use crate::support::Host;

#[test]
fn the_host_s_rust_toolchain_makes_an_image_that_tests_a_crate() {
    let host = Host::new();
    let tools = HostTools::of_path(&std::env::var_os("PATH").unwrap());
    let layout = host.dir.path().join("layout");
    fs::create_dir(&layout).unwrap();
    let digest = rust_image(&tools, &layout, "rust").unwrap();
    let image = ImageStore::new(host.dir.path().join("images")).import(&layout, Some(digest), None).unwrap();
    fs::remove_dir_all(&layout).unwrap();
    assert_eq!(image.name.as_deref(), Some("rust"));
    let ws = host.ws();
    fs::create_dir(ws.join("src")).unwrap();
    fs::write(ws.join("Cargo.toml"), "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2024\"\n")
        .unwrap();
    fs::write(ws.join("src/lib.rs"), "#[test]\nfn holds() {\n    assert_eq!(1 + 1, 2);\n}\n").unwrap();
    // A build script that needs the C compiler.
    fs::write(
        ws.join("build.rs"),
        "fn main() {\n    std::fs::write(\"t.c\", \"#include <stdio.h>\\nint main(void) { puts(\\\"c\\\"); }\").unwrap();\n    \
         let status = std::process::Command::new(\"cc\").args([\"t.c\", \"-o\", \"t\"]).status().unwrap();\n    \
         assert!(status.success());\n}\n",
    )
    .unwrap();
    let mut profile = host.profile();
    profile.image = Some(ImageRoot { folder: image.root(), digest, by: None });
    let mut command = host.command(&["cargo", "test", "--offline", "--lib"]);
    command.wall = std::time::Duration::from_secs(120);
    command.env.insert("PATH".into(), image.var("PATH").unwrap().into());
    let ran = host.run_with(Rung::R4, profile, &command);
    ran.assert_ok();
    assert!(ran.text.contains("test result: ok. 1 passed"), "{}", ran.text);
}

#[test]
fn a_host_without_a_toolchain_is_told_what_is_missing() {
    let host = Host::new();
    let refused = rust_image(&HostTools { path: vec![host.ws()] }, &host.outside(), "rust").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "`rustc` is not on PATH: install it, or make the image elsewhere and import it"
    );
}
