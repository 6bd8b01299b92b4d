//! What a command touches: its program under every name it has, and whatever it starts in turn.

use std::path::Path;

use provost_core::act::{Access, Touch};
use provost_core::exec::{Grammar, Part, Place, Word, base_name, parts};
use provost_core::path::RelPath;

use crate::program;
use crate::tool::Context;

/// The folders that a command may be started in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Folders {
    /// One of these.
    Known(Vec<RelPath>),
    /// Any.
    Any,
}

impl Folders {
    pub(crate) fn at(folder: &RelPath) -> Self {
        Self::Known(vec![folder.clone()])
    }

    fn of(&self, place: Place) -> Self {
        match place {
            Place::Here => self.clone(),
            Place::Elsewhere => Self::Any,
        }
    }
}

/// Touches as they are found, each once.
pub(crate) struct Touches<'a> {
    pub(crate) ctx: &'a Context<'a>,
    list: Vec<Touch>,
    /// Commands that may still be looked at.
    left: usize,
}

/// Commands of one act that are looked at, within each other or one behind the other.
const MOST_COMMANDS: usize = 512;
const DEEPEST: usize = 12;
/// Longest touch that is recorded.
const LONGEST_WHY: usize = 300;

impl<'a> Touches<'a> {
    pub(crate) fn new(ctx: &'a Context<'a>) -> Self {
        Self { ctx, list: Vec::new(), left: MOST_COMMANDS }
    }

    pub(crate) fn finish(self) -> Vec<Touch> {
        self.list
    }

    /// What was found until now.
    pub(crate) fn noted(&self) -> &[Touch] {
        &self.list
    }

    pub(crate) fn push(&mut self, touch: Touch) {
        if !self.list.contains(&touch) {
            self.list.push(touch);
        }
    }

    pub(crate) fn unclear(&mut self, of: Access, why: &str) {
        self.push(Touch::Unclear { of, why: crate::text::show::clip(why, LONGEST_WHY) });
    }

    /// The same of what a shell makes of its line.
    pub(crate) fn untold(&mut self, of: Access, why: &str) {
        self.push(Touch::Untold { of, why: crate::text::show::clip(why, LONGEST_WHY) });
    }

    /// A command and all that it starts.
    pub(crate) fn command(&mut self, words: &[Word], folders: &Folders, depth: usize) {
        let Some((first, args)) = words.split_first() else { return };
        let Some(name) = first.known() else {
            return self.untold(Access::Exec, &format!("`{first}` becomes a command's name"));
        };
        if depth > DEEPEST || self.left == 0 {
            return self.untold(Access::Exec, "more commands than are looked at");
        }
        self.left -= 1;
        let mut names = vec![base_name(name).to_owned()];
        match folders {
            Folders::Any if name.contains('/') && !name.starts_with('/') => {
                self.exec(words, name, None);
                self.unclear(Access::Exec, &format!("in which folder `{name}` is looked for"));
            }
            Folders::Any => self.found(words, name, &RelPath::root(), &mut names),
            Folders::Known(all) => {
                for folder in all {
                    self.found(words, name, folder, &mut names);
                }
            }
        }
        names.dedup();
        for name in names {
            for part in parts(&name, args) {
                self.part(part, words, folders, depth);
            }
        }
    }

    /// The program as it is called in one folder: by the name, by the file behind it, and by its path where the name
    /// alone would say too little.
    fn found(&mut self, words: &[Word], name: &str, folder: &RelPath, names: &mut Vec<String>) {
        let found = program::find(name, folder, self.ctx);
        let path = found.as_ref().map(|found| found.path.as_path());
        self.exec(words, name, path);
        if name.contains('/') && !name.starts_with('/') && !folder.is_root() {
            // Another program than that of this name at the root.
            self.exec(words, &format!("./{}/{name}", folder.as_str()), path);
        }
        let Some(found) = found else { return };
        if !name.contains('/') && found.is_changeable(self.ctx) {
            self.exec(words, &found.path.to_string_lossy(), Some(&found.path));
        }
        for path in [Some(&found.path), found.real.as_ref()].into_iter().flatten() {
            names.push(base_name(&path.to_string_lossy()).to_owned());
        }
        if let Some(real) = &found.real {
            self.exec(words, name, Some(real));
        }
    }

    fn exec(&mut self, words: &[Word], name: &str, program: Option<&Path>) {
        let rest = words[1..].iter().map(|word| word.text().to_owned());
        let argv: Vec<String> = std::iter::once(name.to_owned()).chain(rest).collect();
        let program = program.map(|path| path.to_string_lossy().into_owned());
        let known = words.iter().take_while(|word| word.known().is_some()).count();
        self.push(if known == argv.len() {
            Touch::Exec { argv, program }
        } else {
            Touch::Expanded { argv, known: known as u32, program }
        });
    }

    fn part(&mut self, part: Part, words: &[Word], folders: &Folders, depth: usize) {
        match part {
            Part::Command { words, place } => self.command(&words, &folders.of(place), depth + 1),
            Part::Line { line, grammar, place } => self.line(&line, grammar, &folders.of(place), depth + 1),
            Part::Hidden(by) => {
                let argv = words.iter().map(|word| word.text().to_owned()).collect();
                self.push(Touch::Hidden { argv, by });
            }
            Part::Unclear(why) => self.unclear(Access::Exec, &why),
            Part::Untold(why) => self.untold(Access::Exec, &why),
        }
    }

    /// A line that a shell reads.
    fn line(&mut self, line: &Word, grammar: Grammar, folders: &Folders, depth: usize) {
        match line.known() {
            _ if depth > DEEPEST => self.untold(Access::Exec, "more commands than are looked at"),
            Some(text) => crate::shell::started_by(text, grammar, folders, depth, self),
            None => self.untold(Access::Exec, &format!("what a shell makes of `{line}`")),
        }
    }
}
