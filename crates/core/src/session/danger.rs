//! Files that are code or configuration to whoever builds, tests or opens a change: what they say runs with the rights
//! of that person, or decides what is run.
//!
//! One table for both sides. A session's policy denies writing them unless the authorization allows their kind, and who
//! verifies looks for them in the change itself.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::act::Touch;
use crate::path::RelPath;
use crate::policy::{Effect, Pattern};

/// A kind of dangerous file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Danger {
    /// Programs that a build runs, as `build.rs`.
    BuildScripts,
    /// What says how to build: make, just, cmake, meson.
    BuildFiles,
    /// What says what a package is: it names scripts, harnesses, procedural macros, dependencies.
    Manifests,
    /// Cargo's configuration: it names runners, wrappers and sources.
    CargoConfig,
    /// What says which toolchain is run.
    Toolchain,
    /// What a test runner reads before the tests.
    TestConfig,
    /// What a forge runs.
    Ci,
    /// What git reads from a work tree.
    GitControl,
    /// What package managers read.
    PackageConfig,
    /// What editors and shells run when a folder is opened.
    Editors,
    /// What a container is built from.
    Containers,
    /// Who has to be asked about a change.
    Owners,
    /// Content that is no text, whatever the file is called.
    Binaries,
    /// Characters that hide or move text, in what is added.
    HiddenText,
    /// What stands for content that lies elsewhere: pointers of Git LFS.
    LfsPointers,
}

impl Danger {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::BuildScripts,
        Self::BuildFiles,
        Self::Manifests,
        Self::CargoConfig,
        Self::Toolchain,
        Self::TestConfig,
        Self::Ci,
        Self::GitControl,
        Self::PackageConfig,
        Self::Editors,
        Self::Containers,
        Self::Owners,
        Self::Binaries,
        Self::HiddenText,
        Self::LfsPointers,
    ];

    /// Its name, as in `--allow build-scripts`.
    pub fn name(self) -> &'static str {
        match self {
            Self::BuildScripts => "build-scripts",
            Self::BuildFiles => "build-files",
            Self::Manifests => "manifests",
            Self::CargoConfig => "cargo-config",
            Self::Toolchain => "toolchain",
            Self::TestConfig => "test-config",
            Self::Ci => "ci",
            Self::GitControl => "git-control",
            Self::PackageConfig => "package-config",
            Self::Editors => "editors",
            Self::Containers => "containers",
            Self::Owners => "owners",
            Self::Binaries => "binaries",
            Self::HiddenText => "hidden-text",
            Self::LfsPointers => "lfs-pointers",
        }
    }

    /// Why such a file is dangerous, in words that follow its name.
    pub fn why(self) -> &'static str {
        match self {
            Self::BuildScripts => "runs when the package is built",
            Self::BuildFiles => "says what a build runs",
            Self::Manifests => "names scripts, harnesses, procedural macros and dependencies",
            Self::CargoConfig => "names cargo's runners, wrappers and sources",
            Self::Toolchain => "says which toolchain is run",
            Self::TestConfig => "is read by the test runner before the tests",
            Self::Ci => "is run by the forge",
            Self::GitControl => "is read by git in a work tree",
            Self::PackageConfig => "is read by package managers",
            Self::Editors => "runs when an editor or a shell opens the folder",
            Self::Containers => "is what a container is built from",
            Self::Owners => "says who has to be asked about a change",
            Self::Binaries => "is no text: nobody can read in a patch what it holds",
            Self::HiddenText => "gains characters that hide or move text",
            Self::LfsPointers => "stands for content that lies elsewhere and is not part of the change",
        }
    }

    /// Globs of such files, wherever they stand in the workspace. None where it is the content that is dangerous: that is
    /// seen in the change only.
    pub fn globs(self) -> &'static [&'static str] {
        match self {
            Self::BuildScripts => &[
                "**/build.rs",
                "**/setup.py",
                "**/binding.gyp",
                "**/configure",
                "**/gradlew",
                "**/gradlew.bat",
                "**/mvnw",
                "**/hatch_build.py",
                "**/build.zig",
            ],
            Self::BuildFiles => &[
                "**/Makefile",
                "**/makefile",
                "**/GNUmakefile",
                "**/*.mk",
                "**/justfile",
                "**/Justfile",
                "**/CMakeLists.txt",
                "**/*.cmake",
                "**/meson.build",
                "**/SConstruct",
                "**/Taskfile.y*ml",
                "**/build.gradle*",
                "**/settings.gradle*",
                "**/pom.xml",
                "**/Rakefile",
                "**/rakefile",
                "**/WORKSPACE*",
                "**/MODULE.bazel",
                "**/BUILD",
                "**/BUILD.bazel",
                "**/.bazelrc",
                "**/*.bzl",
                "**/.justfile",
                "**/Earthfile",
                "**/flake.nix",
                "**/shell.nix",
            ],
            Self::Manifests => &[
                "**/Cargo.toml",
                "**/package.json",
                "**/pyproject.toml",
                "**/setup.cfg",
                "**/go.mod",
                "**/go.work",
                "**/Gemfile",
                "**/deno.json*",
                "**/Package.swift",
                "**/composer.json",
                "**/mix.exs",
                "**/build.zig.zon",
            ],
            Self::CargoConfig => &["**/.cargo/**"],
            Self::Toolchain => &[
                "**/rust-toolchain",
                "**/rust-toolchain.toml",
                "**/.nvmrc",
                "**/.node-version",
                "**/.python-version",
                "**/.tool-versions",
                "**/mise.toml",
                "**/.mise.toml",
                "**/.sdkmanrc",
            ],
            Self::TestConfig => &[
                "**/conftest.py",
                "**/pytest.ini",
                "**/tox.ini",
                "**/noxfile.py",
                "**/sitecustomize.py",
                "**/jest.config.*",
                "**/vitest.config.*",
                "**/.mocharc*",
                "**/.config/nextest.toml",
                "**/.pytest.ini",
                "**/usercustomize.py",
                "**/*.pth",
                "**/vite.config.*",
                "**/vitest.workspace.*",
                "**/playwright.config.*",
                "**/karma.conf.*",
                "**/babel.config.*",
                "**/.babelrc*",
                "**/eslint.config.*",
                "**/.eslintrc*",
                "**/webpack.config.*",
                "**/rollup.config.*",
                "**/bunfig.toml",
            ],
            Self::Ci => &[
                "**/.github/**",
                "**/.gitlab-ci.yml",
                "**/.gitlab/**",
                "**/.circleci/**",
                "**/.buildkite/**",
                "**/.travis.yml",
                "**/Jenkinsfile",
                "**/azure-pipelines.yml",
                "**/.ci/**",
                "**/.gitlab-ci.yaml",
                "**/.forgejo/**",
                "**/.gitea/**",
                "**/.woodpecker*",
                "**/.drone.yml",
                "**/bitbucket-pipelines.yml",
                "**/.appveyor.yml",
                "**/appveyor.yml",
                "**/.cirrus.yml",
                "**/cloudbuild.yaml",
            ],
            Self::GitControl => &[
                "**/.gitattributes",
                "**/.gitmodules",
                "**/.lfsconfig",
                "**/.githooks/**",
                "**/.husky/**",
                "**/.pre-commit-config.yaml",
                "**/lefthook.y*ml",
                "**/.lefthook.y*ml",
            ],
            Self::PackageConfig => &[
                "**/.npmrc",
                "**/.yarnrc*",
                "**/.pnpmfile.*",
                "**/pip.conf",
                "**/.pypirc",
                "**/.pnp.*",
                "**/.yarn/**",
                "**/pnpm-workspace.yaml",
            ],
            Self::Editors => &[
                "**/.vscode/**",
                "**/.idea/**",
                "**/.envrc",
                "**/.devcontainer/**",
                "**/.exrc",
                "**/.mcp.json",
                "**/.vimrc",
                "**/.nvim.lua",
                "**/.nvimrc",
                "**/.dir-locals.el",
                "**/*.code-workspace",
                "**/.zed/**",
                "**/.cursor/**",
                "**/.claude/**",
                "**/.devcontainer.json",
            ],
            Self::Containers => &[
                "**/Dockerfile*",
                "**/Containerfile*",
                "**/docker-compose*.y*ml",
                "**/compose.y*ml",
                "**/docker-bake.*",
            ],
            Self::Owners => &["**/CODEOWNERS"],
            Self::Binaries | Self::HiddenText | Self::LfsPointers => &[],
        }
    }

    /// The rules that deny writing such files, as they are written on the command line.
    pub fn rules(self) -> impl Iterator<Item = String> {
        self.globs().iter().map(|glob| format!("write {glob}"))
    }
}

impl fmt::Display for Danger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Danger {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.into_iter().map(Self::name).collect();
            format!("`{text}` is no kind of dangerous file: expected one of {}", names.join(", "))
        })
    }
}

/// The table, ready to be held against many paths.
#[derive(Debug)]
pub struct Dangers(Vec<(Danger, Pattern)>);

impl Dangers {
    /// All kinds.
    pub fn all() -> Self {
        // In lower case on both sides: some file systems take `Build.rs` for `build.rs`.
        let rules = |kind: Danger| kind.rules().map(move |rule| (kind, rule.to_lowercase()));
        let patterns = Danger::ALL.into_iter().flat_map(rules);
        let table: Vec<_> =
            patterns.filter_map(|(kind, rule)| Some((kind, rule.parse::<Pattern>().ok()?))).collect();
        // The globs above are constants: one that does not parse is a bug, and a test counts them.
        debug_assert_eq!(table.len(), Danger::ALL.iter().map(|kind| kind.globs().len()).sum::<usize>());
        Self(table)
    }

    /// What kind of dangerous file a path names, in whatever case; `None` for any other.
    pub fn of(&self, path: &RelPath) -> Option<Danger> {
        let lower = RelPath::try_from(path.as_str().to_lowercase()).unwrap_or_else(|_| path.clone());
        let touch = Touch::Write { path: lower };
        self.0.iter().find(|(_, pattern)| pattern.matches(&touch, Effect::Deny)).map(|(kind, _)| *kind)
    }
}
