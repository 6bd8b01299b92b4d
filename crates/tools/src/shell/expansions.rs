//! What expansions run: substitutions, and arithmetic, which runs what it finds in a subscript.

use brush_parser::word::{Parameter, ParameterExpr, ParameterTransformOp, WordPiece, WordPieceWithSource};
use provost_core::act::Access;
use provost_core::exec::steers;

use super::names::is_integer;
use super::parse;
use super::walk::Walk;
use super::words::is_torn;
use crate::started::Folders;

impl Walk<'_, '_> {
    /// Looks into a word as it is written.
    pub(super) fn expanded(&mut self, written: &str, folders: &Folders) {
        // In an expansion `<(..)` is text to the parser, and torn.
        let substitutes = written.contains("<(") || written.contains(">(");
        if !written.contains(['$', '`']) && !substitutes {
            return;
        }
        match parse::pieces(written) {
            Some(pieces) => {
                if is_torn(&pieces) {
                    self.unclear(&format!("where the parts of `{written}` end"));
                }
                self.all(&pieces, folders);
            }
            None => self.unclear(&format!("what `{written}` becomes")),
        }
    }

    pub(super) fn document(&mut self, text: &str, folders: &Folders) {
        if !text.contains(['$', '`']) {
            return;
        }
        match parse::document(text) {
            Some(pieces) => self.all(&pieces, folders),
            None => self.unclear("what a here-document becomes"),
        }
    }

    fn all(&mut self, pieces: &[WordPieceWithSource], folders: &Folders) {
        for piece in pieces {
            self.piece(&piece.piece, folders);
        }
    }

    fn piece(&mut self, piece: &WordPiece, folders: &Folders) {
        match piece {
            WordPiece::DoubleQuotedSequence(pieces) | WordPiece::GettextDoubleQuotedSequence(pieces) => {
                self.all(pieces, folders);
            }
            WordPiece::ParameterExpansion(expression) => self.parameter(expression, folders),
            WordPiece::CommandSubstitution(line) => self.substitution(line, folders),
            WordPiece::BackquotedCommandSubstitution(line) => {
                // What a backslash hides in there is read once more.
                if line.contains('\\') {
                    self.unclear(&format!("what the backslashes of `{line}` hide"));
                }
                self.substitution(line, folders);
            }
            WordPiece::ArithmeticExpression(expression) => self.arithmetic(&expression.value, folders),
            WordPiece::Text(_)
            | WordPiece::SingleQuotedText(_)
            | WordPiece::AnsiCQuotedText(_)
            | WordPiece::TildeExpansion(_)
            | WordPiece::EscapeSequence(_) => {}
        }
    }

    /// A substitution is found by counting brackets: where a comment or a here-document could hold one, its end is not
    /// sure.
    fn substitution(&mut self, line: &str, folders: &Folders) {
        if line.contains('#') || line.contains("<<") || line.contains("case") {
            self.unclear(&format!("where the substitution `{line}` ends"));
        }
        self.inner(line, folders);
    }

    fn parameter(&mut self, expression: &ParameterExpr, folders: &Folders) {
        use ParameterExpr as E;
        let (parameter, indirect) = match expression {
            E::Parameter { parameter, indirect }
            | E::UseDefaultValues { parameter, indirect, .. }
            | E::AssignDefaultValues { parameter, indirect, .. }
            | E::IndicateErrorIfNullOrUnset { parameter, indirect, .. }
            | E::UseAlternativeValue { parameter, indirect, .. }
            | E::ParameterLength { parameter, indirect }
            | E::RemoveSmallestSuffixPattern { parameter, indirect, .. }
            | E::RemoveLargestSuffixPattern { parameter, indirect, .. }
            | E::RemoveSmallestPrefixPattern { parameter, indirect, .. }
            | E::RemoveLargestPrefixPattern { parameter, indirect, .. }
            | E::Substring { parameter, indirect, .. }
            | E::Transform { parameter, indirect, .. }
            | E::UppercaseFirstChar { parameter, indirect, .. }
            | E::UppercasePattern { parameter, indirect, .. }
            | E::LowercaseFirstChar { parameter, indirect, .. }
            | E::LowercasePattern { parameter, indirect, .. }
            | E::ReplaceSubstring { parameter, indirect, .. } => (Some(parameter), *indirect),
            E::VariableNames { .. } | E::MemberKeys { .. } => (None, false),
        };
        if indirect {
            self.unclear("what an indirect expansion evaluates");
        }
        if let Some(Parameter::NamedWithIndex { index, .. }) = parameter {
            self.arithmetic(index, folders);
        }
        let word = match expression {
            E::UseDefaultValues { default_value: word, .. }
            | E::IndicateErrorIfNullOrUnset { error_message: word, .. }
            | E::UseAlternativeValue { alternative_value: word, .. }
            | E::RemoveSmallestSuffixPattern { pattern: word, .. }
            | E::RemoveLargestSuffixPattern { pattern: word, .. }
            | E::RemoveSmallestPrefixPattern { pattern: word, .. }
            | E::RemoveLargestPrefixPattern { pattern: word, .. }
            | E::UppercaseFirstChar { pattern: word, .. }
            | E::UppercasePattern { pattern: word, .. }
            | E::LowercaseFirstChar { pattern: word, .. }
            | E::LowercasePattern { pattern: word, .. } => word.as_deref(),
            E::AssignDefaultValues { default_value, parameter, .. } => {
                match parameter {
                    Parameter::Named(name) => {
                        self.sets(name);
                        self.holds(name, default_value.as_deref().unwrap_or_default());
                    }
                    _ => self.unclear("what an expansion sets"),
                }
                default_value.as_deref()
            }
            E::ReplaceSubstring { pattern, replacement, .. } => {
                self.expanded(pattern, folders);
                replacement.as_deref()
            }
            E::Substring { offset, length, .. } => {
                self.arithmetic(&offset.value, folders);
                length.as_ref().map(|length| length.value.as_str()).into_iter().for_each(|length| {
                    self.arithmetic(length, folders);
                });
                None
            }
            E::Transform { op: ParameterTransformOp::PromptExpand, .. } => {
                self.unclear("what a prompt expansion runs");
                None
            }
            _ => None,
        };
        if let Some(word) = word {
            self.expanded(word, folders);
        }
    }

    /// Arithmetic evaluates the values of variables as arithmetic too, and a subscript in there may run commands. So the
    /// variables in it have to hold numbers that the line itself gives them.
    pub(super) fn arithmetic(&mut self, expression: &str, folders: &Folders) {
        let plain = |c: char| c.is_ascii_alphanumeric() || " \t+-*/%<>=!&|^~?:,_()$#{}".contains(c);
        if expression.chars().any(|c| !plain(c)) {
            self.expanded(expression, folders);
            return self.unclear(&format!("what the arithmetic `{expression}` evaluates"));
        }
        if expression.contains("$(") {
            self.expanded(expression, folders);
            // What a substitution prints is evaluated, unless it is arithmetic itself.
            if expression.replace("$((", "").contains("$(") {
                return self.unclear(&format!("what the arithmetic `{expression}` evaluates"));
            }
        }
        let mut name = String::new();
        let mut before = ' ';
        for c in expression.chars().chain([' ']) {
            if c.is_ascii_alphanumeric() || c == '_' {
                name.push(c);
                continue;
            }
            if name.is_empty() {
                if !c.is_whitespace() {
                    before = c;
                }
                continue;
            }
            let word = std::mem::take(&mut name);
            // Two names side by side are a command, read by another shell or by bash itself.
            if before == 'w' {
                self.unclear(&format!("what the arithmetic `{expression}` evaluates"));
            }
            if word.starts_with(|first: char| !first.is_ascii_digit()) {
                self.evaluated.insert(word);
            } else if before == '$' || before == '{' {
                self.unclear("what a parameter of a function holds");
            }
            before = if c.is_whitespace() { 'w' } else { c };
        }
    }

    /// A variable gets this value.
    pub(super) fn holds(&mut self, name: &str, written: &str) {
        let digits = written.strip_prefix('-').unwrap_or(written);
        let number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let counted = digits
            .strip_prefix("$((")
            .is_some_and(|rest| rest.find("))") == Some(rest.len().saturating_sub(2)));
        let number = number || counted || matches!(written, "$#" | "$?" | "$!" | "\"$!\"");
        if !number && is_integer(name) {
            self.unclear(&format!("what `{name}`, which is a number, is given"));
        }
        *self.numbers.entry(name.to_owned()).or_insert(true) &= number;
    }

    /// A variable is set that may steer what runs.
    pub(super) fn sets(&mut self, name: &str) {
        if steers(name) {
            self.unclear(&format!("with another `{name}`, what runs"));
        }
    }

    pub(super) fn unclear(&mut self, why: &str) {
        self.touches.untold(Access::Exec, why);
    }
}
