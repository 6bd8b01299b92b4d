//! What a word of a line becomes, as far as that can be told without running anything.

use brush_parser::word::{Parameter, ParameterExpr, SpecialParameter, WordPiece, WordPieceWithSource};
use provost_core::exec::Word;

use super::parse;

/// Reads a word as it is written.
pub(super) fn word(written: &str) -> Word {
    let Some(pieces) = parse::pieces(written) else {
        return Word::Many(written.to_owned());
    };
    // A bracket alone is a command's name, and braces without a comma or dots are themselves.
    if matches!(written, "[" | "]") {
        return Word::Fixed(written.to_owned());
    }
    let braces = written.contains(',') || written.contains("..");
    let mut reading = Reading { text: String::new(), made: Made::No, braces };
    for (index, piece) in pieces.iter().enumerate() {
        reading.piece(&piece.piece, Quoted::No, index == 0);
    }
    match reading.made {
        Made::No => Word::Fixed(reading.text),
        Made::One => Word::One(written.to_owned()),
        Made::Many => Word::Many(written.to_owned()),
    }
}

/// What a word that is not split is: an assignment's value, a redirect's target.
pub(super) fn unsplit(written: &str) -> Word {
    match word(written) {
        Word::Many(text) => Word::One(text),
        word => word,
    }
}

/// Whether text may have been cut in the wrong place: what stands unquoted in one word has none of these.
pub(super) fn is_torn(pieces: &[WordPieceWithSource]) -> bool {
    pieces.iter().any(|piece| match &piece.piece {
        WordPiece::Text(text) => text.contains([' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')']),
        _ => false,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Made {
    No,
    One,
    Many,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quoted {
    No,
    Yes,
}

struct Reading {
    text: String,
    made: Made,
    /// Whether its braces may be alternatives.
    braces: bool,
}

impl Reading {
    fn makes(&mut self, made: Made) {
        self.made = self.made.max(made);
    }

    fn piece(&mut self, piece: &WordPiece, quoted: Quoted, first: bool) {
        match piece {
            WordPiece::Text(text) if quoted == Quoted::Yes => self.text.push_str(&text.replace("\\\n", "")),
            WordPiece::Text(text) => {
                // Names of files, alternatives: how many words come of it cannot be told.
                if text.contains(['*', '?', '[']) || (self.braces && text.contains('{')) {
                    self.makes(Made::Many);
                }
                if (first && text.starts_with('~')) || text.contains(":~") || text.contains("=~") {
                    self.makes(Made::One);
                }
                self.text.push_str(text);
            }
            WordPiece::SingleQuotedText(text) => self.text.push_str(text),
            WordPiece::AnsiCQuotedText(text) => match ansi_c(text) {
                Some(text) => self.text.push_str(&text),
                None => self.makes(Made::One),
            },
            WordPiece::EscapeSequence(text) => {
                let escaped = text.strip_prefix('\\').unwrap_or(text);
                if escaped != "\n" {
                    self.text.push_str(escaped);
                }
            }
            WordPiece::DoubleQuotedSequence(pieces) => {
                for piece in pieces {
                    self.piece(&piece.piece, Quoted::Yes, false);
                }
            }
            // A translation may stand in its place.
            WordPiece::GettextDoubleQuotedSequence(_) => self.makes(Made::One),
            WordPiece::ParameterExpansion(expression) => {
                let one = quoted == Quoted::Yes && !is_list(expression);
                self.makes(if one { Made::One } else { Made::Many });
            }
            WordPiece::CommandSubstitution(_)
            | WordPiece::BackquotedCommandSubstitution(_)
            | WordPiece::ArithmeticExpression(_) => {
                self.makes(if quoted == Quoted::Yes { Made::One } else { Made::Many });
            }
            WordPiece::TildeExpansion(_) => self.makes(Made::One),
        }
    }
}

/// Whether an expansion is several words even in quotes.
fn is_list(expression: &ParameterExpr) -> bool {
    let all = |parameter: &Parameter| {
        matches!(
            parameter,
            Parameter::Special(SpecialParameter::AllPositionalParameters { .. })
                | Parameter::NamedWithAllIndices { .. }
        )
    };
    match expression {
        ParameterExpr::Parameter { parameter, indirect } => *indirect || all(parameter),
        ParameterExpr::ParameterLength { .. } => false,
        ParameterExpr::UseDefaultValues { parameter, default_value, .. } => {
            all(parameter) || default_value.as_ref().is_some_and(|value| value.contains(['$', '`', '"']))
        }
        ParameterExpr::RemoveSmallestSuffixPattern { parameter, .. }
        | ParameterExpr::RemoveLargestSuffixPattern { parameter, .. }
        | ParameterExpr::RemoveSmallestPrefixPattern { parameter, .. }
        | ParameterExpr::RemoveLargestPrefixPattern { parameter, .. } => all(parameter),
        _ => true,
    }
}

/// `$'..'`; `None` where an escape is not read here.
fn ansi_c(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let digits = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>, radix: u32, most: usize| {
            let mut text = String::new();
            while text.len() < most {
                let Some(digit) = chars.next_if(|c| c.is_digit(radix)) else { break };
                text.push(digit);
            }
            u32::from_str_radix(&text, radix).ok()
        };
        let code = match chars.next()? {
            'n' => '\n' as u32,
            't' => '\t' as u32,
            'r' => '\r' as u32,
            'a' => 7,
            'b' => 8,
            'e' | 'E' => 27,
            'f' => 12,
            'v' => 11,
            quoted @ ('\\' | '\'' | '"' | '?') => quoted as u32,
            'x' => digits(&mut chars, 16, 2).filter(|code| *code < 128)?,
            'u' => digits(&mut chars, 16, 4)?,
            'U' => digits(&mut chars, 16, 8)?,
            first @ '0'..='7' => {
                let more = chars.next_if(|c| c.is_digit(8));
                let last = more.and_then(|_| chars.next_if(|c| c.is_digit(8)));
                let all: String = [Some(first), more, last].into_iter().flatten().collect();
                u32::from_str_radix(&all, 8).ok().filter(|code| *code < 128)?
            }
            _ => return None,
        };
        // The rest of the quotes is lost behind a NUL.
        out.push(char::from_u32(code).filter(|c| *c != '\0')?);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_what_they_say() {
        for (written, is) in [
            ("cargo", "cargo"),
            ("c\"\"argo", "cargo"),
            ("'c'ar\"g\"o", "cargo"),
            ("c\\argo", "cargo"),
            ("c\\\nargo", "cargo"),
            ("\"c\\\nargo\"", "cargo"),
            ("$'c\\x61rgo'", "cargo"),
            ("$'\\143argo'", "cargo"),
            ("$'c\\u0061rgo'", "cargo"),
            ("'a b'", "a b"),
            ("\"a\\$b\"", "a$b"),
            ("\"a\\b\"", "a\\b"),
            ("'*'", "*"),
            ("\\*", "*"),
            ("a=b", "a=b"),
            ("\"\"", ""),
            ("a~", "a~"),
            ("HEAD^", "HEAD^"),
            ("é", "é"),
            ("{}", "{}"),
            ("[", "["),
        ] {
            assert_eq!(word(written), Word::Fixed(is.to_owned()), "{written}");
        }
    }

    #[test]
    fn words_that_are_made() {
        for written in
            ["\"$x\"", "\"a$(b)c\"", "~", "~/x", "$'\\0rm'", "$'\\xff'", "\"${x%.rs}\"", "\"$((1+2))\""]
        {
            assert_eq!(word(written), Word::One(written.to_owned()), "{written}");
        }
        for written in
            ["$x", "\"$@\"", "\"${a[@]}\"", "*.rs", "{a,b}", "a?", "[ab]", "$(x)", "`x`", "\"${!x}\"", "x$y"]
        {
            assert_eq!(word(written), Word::Many(written.to_owned()), "{written}");
        }
    }
}
