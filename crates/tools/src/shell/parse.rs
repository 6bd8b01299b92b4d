//! A line as bash's grammar has it, or a refusal.

use std::panic::{AssertUnwindSafe, catch_unwind};

use brush_parser::ast::Program;
use brush_parser::word::{self, WordPieceWithSource};
use brush_parser::{Parser, ParserOptions};

/// Longest line that is read, in bytes.
pub(super) const LONGEST: usize = 10_000;

/// Brackets within each other, and brackets in all. The parser recurses, and goes back where it was wrong.
const DEEPEST: usize = 24;
const MOST_BRACKETS: usize = 600;

/// Why a line is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unread {
    /// It is too long or too deep to be looked at.
    TooMuch(String),
    /// It is not bash, as far as the parser can tell.
    Bad(String),
}

fn options() -> ParserOptions {
    ParserOptions {
        // `bash -c` has it off.
        enable_extended_globbing: false,
        // Told apart in `words`.
        tilde_expansion_at_word_start: false,
        ..ParserOptions::default()
    }
}

/// Parses a whole line.
pub(super) fn program(line: &str) -> Result<Program, Unread> {
    bounded(line)?;
    let parsed = catch_unwind(AssertUnwindSafe(|| {
        Parser::new(std::io::Cursor::new(line.as_bytes()), &options()).parse_program()
    }));
    match parsed {
        Ok(Ok(program)) => Ok(program),
        Ok(Err(error)) => Err(Unread::Bad(error.to_string())),
        Err(_) => Err(Unread::Bad("the parser gave up".to_owned())),
    }
}

/// The pieces of a word as it is written.
pub(super) fn pieces(word: &str) -> Option<Vec<WordPieceWithSource>> {
    bounded(word).ok()?;
    catch_unwind(AssertUnwindSafe(|| word::parse(word, &options()).ok())).ok().flatten()
}

/// The pieces of a here-document.
pub(super) fn document(text: &str) -> Option<Vec<WordPieceWithSource>> {
    bounded(text).ok()?;
    catch_unwind(AssertUnwindSafe(|| word::parse_heredoc(text, &options()).ok())).ok().flatten()
}

/// Refuses what could take the parser's time, stack or arithmetic.
fn bounded(text: &str) -> Result<(), Unread> {
    if text.len() > LONGEST {
        return Err(Unread::TooMuch(format!("it is longer than {LONGEST} bytes")));
    }
    let (mut depth, mut deepest, mut brackets, mut digits) = (0_usize, 0, 0, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'{' | b'[' => {
                depth += 1;
                brackets += 1;
                deepest = deepest.max(depth);
            }
            b')' | b'}' | b']' => depth = depth.saturating_sub(1),
            b'`' => brackets += 1,
            _ => {}
        }
        if matches!(byte, b'<' | b'>') && digits > 9 {
            return Err(Unread::Bad("a descriptor's number is too large".to_owned()));
        }
        digits = if byte.is_ascii_digit() { digits + 1 } else { 0 };
    }
    // Words that open a construct nest too.
    let opening = ["if", "for", "while", "until", "case", "then", "do"];
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let opened = words.filter(|word| opening.contains(word)).count();
    if deepest > DEEPEST || brackets > MOST_BRACKETS || opened > 200 {
        return Err(Unread::TooMuch("it is nested too deeply".to_owned()));
    }
    if text.contains('\0') {
        return Err(Unread::Bad("it holds a NUL character".to_owned()));
    }
    Ok(())
}
