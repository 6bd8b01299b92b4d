//! Through a line, command by command.

use std::collections::{BTreeMap, BTreeSet};

use brush_parser::ast::{
    Assignment, AssignmentName, AssignmentValue, BinaryPredicate, Command, CommandPrefixOrSuffixItem as Item,
    CompoundCommand, CompoundList, ExtendedTestExpr, IoFileRedirectKind, IoFileRedirectTarget, IoRedirect,
    Pipeline, Program, RedirectList, SimpleCommand, UnaryPredicate,
};
use provost_core::act::{Access, Touch};
use provost_core::exec::{Grammar, Part, Place, Word, parts};

use super::builtins::{Builtin, builtin, named};
use super::files::opened;
use super::parse::{self, Unread};
use super::words::{unsplit, word};
use crate::started::{Folders, Touches};

/// Whether the files that a line opens are noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opens {
    /// They are.
    Noted,
    /// Only what it starts is: the files are left to containment.
    Left,
}

/// Folders that a line may be in; more are any.
const MOST_FOLDERS: usize = 8;
/// Substitutions within each other that are looked into.
const DEEPEST: usize = 10;

pub(super) struct Walk<'t, 'a> {
    pub(super) touches: &'t mut Touches<'a>,
    opens: Opens,
    depth: usize,
    within: usize,
    /// Whether it goes to another folder, and whether something of it may come again.
    moves: bool,
    repeats: bool,
    /// Variables that the line sets, and whether only to numbers.
    pub(super) numbers: BTreeMap<String, bool>,
    /// Variables that arithmetic evaluates.
    pub(super) evaluated: BTreeSet<String>,
}

/// Notes what a line touches when a shell runs it.
pub(super) fn line(
    line: &str,
    grammar: Grammar,
    folders: &Folders,
    depth: usize,
    opens: Opens,
    touches: &mut Touches<'_>,
) -> Result<(), Unread> {
    let program = parse::program(line)?;
    if grammar == Grammar::Posix && reads_otherwise(line) {
        touches.unclear(Access::Exec, &format!("how another shell than bash reads `{line}`"));
    }
    let mut walk = Walk {
        touches,
        opens,
        depth,
        within: 0,
        moves: false,
        repeats: false,
        numbers: BTreeMap::new(),
        evaluated: BTreeSet::new(),
    };
    walk.program(&program, &mut folders.clone());
    if walk.moves && walk.repeats {
        // What comes again may come from another folder.
        walk.program(&program, &mut Folders::Any);
    }
    let evaluated = std::mem::take(&mut walk.evaluated);
    for name in evaluated {
        if walk.numbers.get(&name) == Some(&false) {
            walk.unclear(&format!("arithmetic evaluates what `{name}` holds"));
        }
    }
    Ok(())
}

/// Notes what a line starts that one command hands to a shell.
pub(crate) fn started_by(
    text: &str,
    grammar: Grammar,
    folders: &Folders,
    depth: usize,
    touches: &mut Touches<'_>,
) {
    match line(text, grammar, folders, depth, Opens::Left, touches) {
        Ok(()) => {}
        Err(Unread::TooMuch(why) | Unread::Bad(why)) => {
            touches.unclear(Access::Exec, &format!("what a shell makes of `{text}` ({why})"));
        }
    }
}

/// Whether a shell that knows no more than POSIX reads other commands in the line than bash does.
fn reads_otherwise(line: &str) -> bool {
    let plain = line.replace("$((", "").replace("{}", "");
    let signs = [
        "((", "[[", "$'", "$\"", "&>", "<(", ">(", "<<<", "|&", ";&", ";;&", "=(", "{", "function", "coproc",
        "time ", "select",
    ];
    // Braces are fine around an expansion, and as words.
    let braces = plain.replace("${", "").replace("{ ", "");
    signs.iter().any(|sign| if *sign == "{" { braces.contains('{') } else { plain.contains(sign) })
}

impl Walk<'_, '_> {
    fn program(&mut self, program: &Program, folders: &mut Folders) {
        for list in &program.complete_commands {
            self.list(list, folders);
        }
    }

    /// The line of a substitution.
    pub(super) fn inner(&mut self, line: &str, folders: &Folders) {
        if self.within == DEEPEST {
            return self.unclear("substitutions within each other, too deep to look into");
        }
        self.within += 1;
        match parse::program(line) {
            Ok(program) => self.program(&program, &mut folders.clone()),
            Err(Unread::TooMuch(why) | Unread::Bad(why)) => {
                self.unclear(&format!("what the substitution `{line}` runs ({why})"));
            }
        }
        self.within -= 1;
    }

    fn list(&mut self, list: &CompoundList, folders: &mut Folders) {
        for item in &list.0 {
            for (_, pipeline) in &item.0 {
                self.pipeline(pipeline, folders);
            }
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline, folders: &mut Folders) {
        if let [only] = &pipeline.seq[..] {
            return self.command(only, folders);
        }
        for command in &pipeline.seq {
            self.command(command, &mut folders.clone());
        }
    }

    fn command(&mut self, command: &Command, folders: &mut Folders) {
        match command {
            Command::Simple(simple) => self.simple(simple, folders),
            Command::Compound(compound, redirects) => {
                self.redirects(redirects.as_ref(), folders);
                self.compound(compound, folders);
            }
            Command::Function(function) => {
                self.repeats = true;
                self.redirects(function.body.1.as_ref(), folders);
                self.compound(&function.body.0, folders);
            }
            Command::ExtendedTest(test, redirects) => {
                self.redirects(redirects.as_ref(), folders);
                self.test(&test.expr, folders);
            }
        }
    }

    fn compound(&mut self, compound: &CompoundCommand, folders: &mut Folders) {
        match compound {
            CompoundCommand::Arithmetic(command) => self.arithmetic(&command.expr.value, folders),
            CompoundCommand::ArithmeticForClause(clause) => {
                self.repeats = true;
                for part in [&clause.initializer, &clause.condition, &clause.updater].into_iter().flatten() {
                    self.arithmetic(&part.value, folders);
                }
                self.list(&clause.body.list, folders);
            }
            CompoundCommand::BraceGroup(group) => self.list(&group.list, folders),
            CompoundCommand::Subshell(subshell) => self.list(&subshell.list, &mut folders.clone()),
            CompoundCommand::ForClause(clause) => {
                self.repeats = true;
                self.sets(&clause.variable_name);
                for value in clause.values.iter().flatten() {
                    self.expanded(&value.value, folders);
                    self.holds(&clause.variable_name, range(&value.value));
                }
                if clause.values.is_none() {
                    self.holds(&clause.variable_name, "$1");
                }
                self.list(&clause.body.list, folders);
            }
            CompoundCommand::CaseClause(clause) => {
                self.expanded(&clause.value.value, folders);
                for case in &clause.cases {
                    case.patterns.iter().for_each(|pattern| self.expanded(&pattern.value, folders));
                    case.cmd.iter().for_each(|list| self.list(list, folders));
                }
            }
            CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition, folders);
                self.list(&clause.then, folders);
                for other in clause.elses.iter().flatten() {
                    other.condition.iter().for_each(|list| self.list(list, folders));
                    self.list(&other.body, folders);
                }
            }
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                self.repeats = true;
                self.list(&clause.0, folders);
                self.list(&clause.1.list, folders);
            }
            CompoundCommand::Coprocess(coprocess) => {
                coprocess.name.iter().for_each(|name| self.sets(&name.value));
                self.command(&coprocess.body, &mut folders.clone());
            }
        }
    }

    fn test(&mut self, test: &ExtendedTestExpr, folders: &Folders) {
        match test {
            ExtendedTestExpr::And(left, right) | ExtendedTestExpr::Or(left, right) => {
                self.test(left, folders);
                self.test(right, folders);
            }
            ExtendedTestExpr::Not(inner) | ExtendedTestExpr::Parenthesized(inner) => {
                self.test(inner, folders);
            }
            ExtendedTestExpr::UnaryTest(predicate, operand) => {
                self.expanded(&operand.value, folders);
                let names = matches!(
                    predicate,
                    UnaryPredicate::ShellVariableIsSetAndAssigned
                        | UnaryPredicate::ShellVariableIsSetAndNameRef
                );
                if names && let Some(why) = named(&unsplit(&operand.value)) {
                    self.unclear(&why);
                }
            }
            ExtendedTestExpr::BinaryTest(predicate, left, right) => {
                use BinaryPredicate as P;
                let counts = matches!(
                    predicate,
                    P::ArithmeticEqualTo
                        | P::ArithmeticNotEqualTo
                        | P::ArithmeticLessThan
                        | P::ArithmeticLessThanOrEqualTo
                        | P::ArithmeticGreaterThan
                        | P::ArithmeticGreaterThanOrEqualTo
                );
                for operand in [left, right] {
                    if counts {
                        self.arithmetic(&operand.value.replace('"', ""), folders);
                    } else {
                        self.expanded(&operand.value, folders);
                    }
                }
            }
        }
    }

    fn simple(&mut self, command: &SimpleCommand, folders: &mut Folders) {
        let mut words: Vec<Word> = Vec::new();
        for item in command.prefix.iter().flat_map(|prefix| &prefix.0) {
            match item {
                Item::AssignmentWord(assignment, _) => self.assignment(assignment, folders),
                item => self.item(item, &mut words, folders),
            }
        }
        if let Some(name) = &command.word_or_name {
            self.expanded(&name.value, folders);
            words.push(word(&name.value));
        }
        for item in command.suffix.iter().flat_map(|suffix| &suffix.0) {
            self.item(item, &mut words, folders);
        }
        self.words(&words, folders);
    }

    /// A redirect, a word, or a substitution in a word's place.
    fn item(&mut self, item: &Item, words: &mut Vec<Word>, folders: &Folders) {
        match item {
            Item::IoRedirect(redirect) => self.redirect(redirect, folders),
            Item::Word(written) => {
                self.expanded(&written.value, folders);
                words.push(word(&written.value));
            }
            Item::AssignmentWord(assignment, written) => {
                // To a builtin it is an assignment, to others a word.
                self.values(&assignment.value, folders);
                self.expanded(&written.value, folders);
                match word(&written.value) {
                    Word::Many(text) if matches!(assignment.name, AssignmentName::VariableName(_)) => {
                        words.push(Word::One(text));
                    }
                    word => words.push(word),
                }
            }
            Item::ProcessSubstitution(_, subshell) => {
                self.list(&subshell.list, &mut folders.clone());
                words.push(Word::One("/dev/fd/[a process]".to_owned()));
            }
        }
    }

    /// A simple command's words.
    fn words(&mut self, words: &[Word], folders: &mut Folders) {
        let Some((first, args)) = words.split_first() else { return };
        let Some(name) = first.known() else {
            return self.unclear(&format!("`{first}` becomes a command's name"));
        };
        let Some(does) = builtin(name, args) else {
            return self.touches.command(words, folders, self.depth);
        };
        let known = words.iter().take_while(|word| word.known().is_some()).count();
        self.touches.push(Touch::Shell {
            argv: words.iter().map(|word| word.text().to_owned()).collect(),
            known: (known < words.len()).then_some(known as u32),
            program: None,
        });
        match does {
            Builtin::Plain => {}
            Builtin::Folder => self.goes(args, folders),
            Builtin::Assigns => args.iter().for_each(|word| self.assigned(word)),
            Builtin::Names => {
                for word in args {
                    if let Some(why) = named(word) {
                        self.unclear(&why);
                    }
                    self.holds(word.text(), "$1");
                }
            }
            Builtin::Arithmetic => args.iter().for_each(|word| self.arithmetic(word.text(), folders)),
            Builtin::Tests => self.tests(args),
            Builtin::Starts => {
                for part in parts(name, args) {
                    self.part(part, folders);
                }
            }
            Builtin::Unclear(why) => self.unclear(&why),
        }
    }

    /// What `exec`, `command`, `eval` and the like start.
    fn part(&mut self, part: Part, folders: &mut Folders) {
        match part {
            Part::Command { words, place: Place::Here } => self.words(&words, folders),
            Part::Command { words, place: Place::Elsewhere } => self.words(&words, &mut Folders::Any),
            Part::Line { line, place, .. } => match line.known() {
                Some(line) if place == Place::Here => self.inner(line, folders),
                Some(line) => {
                    // It runs again and again, and what it changes holds for what follows.
                    self.repeats = true;
                    self.inner(line, &Folders::Any);
                }
                None => self.unclear(&format!("what the line `{line}` runs")),
            },
            Part::Hidden(why) | Part::Unclear(why) => self.unclear(&why),
        }
    }

    /// `[` and `test`: with `-v` a name's subscript is evaluated, and an expansion may be `-v`.
    fn tests(&mut self, args: &[Word]) {
        let names = |word: &Word| matches!(word.known(), Some("-v" | "-R"));
        for (at, word) in args.iter().enumerate() {
            if names(word)
                && let Some(why) = args.get(at + 1).and_then(named)
            {
                self.unclear(&why);
            }
            if let Word::Many(text) = word {
                match text.strip_prefix('$') {
                    Some("#" | "?" | "$" | "!") => {}
                    // A number of the line's own cannot be an option.
                    Some(name) if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') => {
                        self.evaluated.insert(name.to_owned());
                    }
                    _ => self.unclear(&format!("what `{text}` is to a test")),
                }
            }
        }
        let operands = args.iter().filter(|word| word.known() != Some("]"));
        if let [Word::One(text), _] = operands.collect::<Vec<_>>()[..] {
            self.unclear(&format!("what `{text}` is to a test"));
        }
    }

    /// `cd`: the folder is one more that what follows may be in, for it may fail.
    fn goes(&mut self, args: &[Word], folders: &mut Folders) {
        self.moves = true;
        let target = match args {
            [Word::Fixed(target)] if !target.starts_with(['-', '+', '~']) && !target.is_empty() => target,
            _ => {
                *folders = Folders::Any;
                return;
            }
        };
        let workspace = self.touches.ctx.workspace;
        let Folders::Known(known) = folders else { return };
        let mut more = Vec::new();
        for folder in known.iter() {
            let path = if target.starts_with('/') {
                workspace.name(target).ok()
            } else {
                folder.join(target.as_bytes()).ok()
            };
            if let Some(located) = path.and_then(|path| workspace.locate(&path).ok()) {
                more.push(located.real);
            } else {
                *folders = Folders::Any;
                return;
            }
        }
        for folder in more {
            if !known.contains(&folder) {
                known.push(folder);
            }
        }
        if known.len() > MOST_FOLDERS {
            *folders = Folders::Any;
        }
    }

    fn assignment(&mut self, assignment: &Assignment, folders: &Folders) {
        match &assignment.name {
            AssignmentName::VariableName(name) => {
                self.sets(name);
                match &assignment.value {
                    AssignmentValue::Scalar(value) => self.holds(name, &value.value),
                    AssignmentValue::Array(_) => self.holds(name, "$1"),
                }
            }
            AssignmentName::ArrayElementName(name, index) => {
                self.sets(name);
                self.holds(name, "$1");
                self.arithmetic(index, folders);
            }
        }
        self.values(&assignment.value, folders);
    }

    fn values(&mut self, value: &AssignmentValue, folders: &Folders) {
        match value {
            AssignmentValue::Scalar(value) => self.expanded(&value.value, folders),
            AssignmentValue::Array(values) => {
                for (index, value) in values {
                    if let Some(index) = index {
                        self.arithmetic(&index.value, folders);
                    }
                    self.expanded(&value.value, folders);
                }
            }
        }
    }

    /// A word that `export` and the like take.
    fn assigned(&mut self, word: &Word) {
        let text = word.text();
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let name = name.strip_suffix('+').unwrap_or(name);
        let plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if word.known().is_some() && text.starts_with(['-', '+']) {
            return;
        }
        if !plain(name) || name.is_empty() || (word.known().is_none() && !text.contains('=')) {
            return self.unclear(&format!("which variable `{text}` sets"));
        }
        self.sets(name);
        self.holds(name, value);
    }

    fn redirects(&mut self, redirects: Option<&RedirectList>, folders: &Folders) {
        for redirect in redirects.iter().flat_map(|list| &list.0) {
            self.redirect(redirect, folders);
        }
    }

    fn redirect(&mut self, redirect: &IoRedirect, folders: &Folders) {
        match redirect {
            IoRedirect::File(_, kind, target) => {
                use IoFileRedirectKind as K;
                let accesses: &[Access] = match kind {
                    K::Read | K::DuplicateInput => &[Access::Read],
                    K::Write | K::Append | K::Clobber | K::DuplicateOutput => &[Access::Write],
                    K::ReadAndWrite => &[Access::Read, Access::Write],
                };
                match target {
                    IoFileRedirectTarget::Fd(_) => {}
                    IoFileRedirectTarget::ProcessSubstitution(_, subshell) => {
                        self.list(&subshell.list, &mut folders.clone());
                    }
                    IoFileRedirectTarget::Duplicate(word) if is_descriptor(&word.value) => {}
                    IoFileRedirectTarget::Filename(word) | IoFileRedirectTarget::Duplicate(word) => {
                        self.opens(&word.value, accesses, folders);
                    }
                }
            }
            IoRedirect::HereDocument(_, document) => {
                if document.requires_expansion {
                    self.document(&document.doc.value, folders);
                }
            }
            IoRedirect::HereString(_, word) => self.expanded(&word.value, folders),
            IoRedirect::OutputAndError(word, _) => self.opens(&word.value, &[Access::Write], folders),
        }
    }

    fn opens(&mut self, written: &str, accesses: &[Access], folders: &Folders) {
        self.expanded(written, folders);
        let target = unsplit(written);
        for access in accesses {
            // A host is dialled by a name of a file.
            let dials = target
                .known()
                .is_none_or(|name| name.starts_with("/dev/tcp") || name.starts_with("/dev/udp"));
            if self.opens == Opens::Noted || (dials && target.known().is_some()) {
                opened(&target, *access, folders, self.touches);
            }
        }
    }
}

/// Whether the target of `>&` is a descriptor: digits, `-`, or digits and `-`.
fn is_descriptor(word: &str) -> bool {
    let digits = word.strip_suffix('-').unwrap_or(word);
    !word.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// A range of numbers as one of them: `{1..5}`.
fn range(word: &str) -> &str {
    let inner = word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(word);
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if inner.split("..").all(number) { "0" } else { word }
}
