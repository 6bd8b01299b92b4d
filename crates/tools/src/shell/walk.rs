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
use super::documents::ends_elsewhere;
use super::files::opened;
use super::made::Made;
use super::names::{is_array, is_filled, is_integer, is_name, names_descriptor, variable, variables_of};
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
    /// Variables that the line makes arrays, and those that it declares with a value that is not known: to an array it
    /// may be a list, of which everything is expanded once more.
    arrays: BTreeSet<String>,
    declared: BTreeSet<String>,
    /// What the commands so far may have made.
    made: Made,
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
        touches.untold(Access::Exec, &format!("how another shell than bash reads `{line}`"));
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
        arrays: BTreeSet::new(),
        declared: BTreeSet::new(),
        made: Made::default(),
    };
    let first = walk.touches.noted().len();
    walk.program(&program, &mut folders.clone());
    if walk.repeats {
        // What comes again comes after all of it.
        walk.may_be_made(first);
    }
    if walk.moves && walk.repeats {
        // It may come from another folder too.
        walk.program(&program, &mut Folders::Any);
    }
    walk.variables();
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
            touches.untold(Access::Exec, &format!("what a shell makes of `{text}` ({why})"));
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

    /// What the variables of the line may hold where bash evaluates them.
    fn variables(&mut self) {
        for name in std::mem::take(&mut self.evaluated) {
            let is_number = match self.numbers.get(&name) {
                Some(number) => *number,
                // Whoever starts a command may have given it the variable.
                None => self.opens == Opens::Noted || is_integer(&name),
            };
            if !is_number || is_filled(&name) {
                self.unclear(&format!("arithmetic evaluates what `{name}` holds"));
            }
        }
        for name in std::mem::take(&mut self.declared) {
            if self.arrays.contains(&name) || is_array(&name) {
                self.unclear(&format!("what the array `{name}` is filled with"));
            }
        }
    }

    /// Programs that were noted since `first`, and which the line may have made.
    fn may_be_made(&mut self, first: usize) {
        let program = |touch: &Touch| match touch {
            Touch::Exec { argv, program } | Touch::Expanded { argv, program, .. } => {
                let path = argv.first().filter(|path| path.contains('/'))?;
                self.made.may_be(path, program.is_some()).then(|| path.clone())
            }
            _ => None,
        };
        let made: Vec<String> = self.touches.noted()[first..].iter().filter_map(program).collect();
        for path in made {
            self.may_be_anything(path);
        }
    }

    /// The program at `path` may be any other under that name, as a rule that denies or asks would have it. Unlike what
    /// cannot be read off the line, it is a program all the same, and no stranger than what a build makes and tests run.
    fn may_be_anything(&mut self, path: String) {
        self.touches.push(Touch::Expanded { argv: vec![path], known: 0, program: None });
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
        let Some((last, others)) = pipeline.seq.split_last() else { return };
        for command in others {
            self.command(command, &mut folders.clone());
        }
        // With `lastpipe` it is the shell itself that goes.
        self.command(last, folders);
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
        self.descriptors(command);
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

    /// `{fd}>f` is a word and a redirect to the parser.
    fn descriptors(&mut self, command: &SimpleCommand) {
        let prefix = command.prefix.iter().flat_map(|prefix| &prefix.0).map(Some);
        // The command's name stands between.
        let items: Vec<Option<&Item>> = prefix
            .chain(command.word_or_name.iter().map(|_| None))
            .chain(command.suffix.iter().flat_map(|suffix| &suffix.0).map(Some))
            .collect();
        let written = |item: Option<&Item>| match item {
            Some(Item::Word(word)) => names_descriptor(&word.value),
            Some(_) => false,
            None => command.word_or_name.as_ref().is_some_and(|name| names_descriptor(&name.value)),
        };
        let named = |pair: &[Option<&Item>]| matches!(pair[1], Some(Item::IoRedirect(_))) && written(pair[0]);
        if items.windows(2).any(named) {
            self.unclear("which command a redirect into a variable stands before");
        }
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
                if matches!(assignment.value, AssignmentValue::Scalar(_)) {
                    self.expanded(&written.value, folders);
                }
                match word(&written.value) {
                    // Its values were looked at.
                    _ if matches!(assignment.value, AssignmentValue::Array(_)) => {
                        words.push(Word::One(format!("{}={ARRAY}", assigned_name(&assignment.name))));
                    }
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
            return self.program_of_words(words, folders);
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
            Builtin::Assigns => self.assigns(args),
            Builtin::Names => args.iter().flat_map(variables_of).for_each(|name| self.names(&name)),
            Builtin::Waits => args.iter().for_each(|word| self.waits(word)),
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

    /// A simple command that is a program.
    fn program_of_words(&mut self, words: &[Word], folders: &Folders) {
        let first = self.touches.noted().len();
        self.touches.command(words, folders, self.depth);
        self.may_be_made(first);
        // One that was noted before may be another one now.
        if let Some(path) = words[0].known().filter(|path| path.contains('/'))
            && self.made.may_be(path, true)
        {
            self.may_be_anything(path.to_owned());
        }
        self.made.ran(words);
    }

    /// A variable that a builtin fills.
    fn names(&mut self, word: &Word) {
        if let Some(why) = named(word) {
            self.unclear(&why);
        }
        self.holds(word.text(), "$1");
        self.arrays.insert(word.text().to_owned());
    }

    /// What `wait` waits for; one of its options names a variable.
    fn waits(&mut self, word: &Word) {
        if word.known().is_some() || matches!(word.text(), "$!" | "\"$!\"") {
            return;
        }
        match variable(word.text()) {
            Some(name) => drop(self.evaluated.insert(name.to_owned())),
            None => self.unclear(&format!("whether `{word}` is an option of `wait`")),
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
            Part::Hidden(why) | Part::Unclear(why) | Part::Untold(why) => self.unclear(&why),
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
                    AssignmentValue::Array(_) => {
                        self.arrays.insert(name.clone());
                        self.holds(name, "$1");
                    }
                }
            }
            AssignmentName::ArrayElementName(name, index) => {
                self.sets(name);
                self.arrays.insert(name.clone());
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

    /// The words that `export` and the like take.
    fn assigns(&mut self, args: &[Word]) {
        let is_option = |word: &&Word| word.known().is_some_and(|text| text.starts_with(['-', '+']));
        let arrays = args.iter().filter(is_option).any(|word| word.text().contains(['a', 'A']));
        for word in args.iter().filter(|word| !is_option(word)) {
            self.assigned(word);
            if arrays {
                self.arrays.insert(word.text().split(['=', '+']).next().unwrap_or_default().to_owned());
            }
        }
    }

    /// One of them.
    fn assigned(&mut self, word: &Word) {
        let text = word.text();
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let name = name.strip_suffix('+').unwrap_or(name);
        if !is_name(name) || (word.known().is_none() && !text.contains('=')) {
            return self.unclear(&format!("which variable `{text}` sets"));
        }
        self.sets(name);
        self.holds(name, value);
        if value == ARRAY {
            self.arrays.insert(name.to_owned());
        }
        let expands = value.contains(['$', '`', '[', '<', '>']);
        if word.known().is_none() && value != ARRAY {
            self.declared.insert(name.to_owned());
        } else if value.starts_with('(') && expands {
            // A list in quotes is read once more.
            self.unclear(&format!("what the array `{name}` is filled with"));
        }
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
                if let Some(why) = ends_elsewhere(document) {
                    self.unclear(&why);
                }
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
        if accesses.contains(&Access::Write) {
            self.made.writes(&target);
        }
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

/// How a list in brackets is written in a word that stands for its assignment.
const ARRAY: &str = "(…)";

fn assigned_name(name: &AssignmentName) -> &str {
    match name {
        AssignmentName::VariableName(name) | AssignmentName::ArrayElementName(name, _) => name,
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
