//! The small languages of `sed` and `awk`: whether a program of theirs writes files or starts commands.

use std::iter::Peekable;
use std::slice::Iter;
use std::str::Chars;

use super::options::is_long;
use super::wrappers::unclear;
use super::{Part, Word};

/// What a script does beside printing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Deed {
    Prints,
    Writes,
    Runs,
}

/// What the words of `sed` are.
#[derive(Default)]
struct SedWords<'a> {
    scripts: Vec<&'a Word>,
    operands: Vec<&'a Word>,
    /// Whether an option gives the script; without one the first operand is it.
    named: bool,
}

pub(super) fn sed(args: &[Word], parts: &mut Vec<Part>) {
    let mut read = SedWords::default();
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        match word.known() {
            Some("--") => read.operands.extend(rest.by_ref()),
            Some(text) if text.starts_with("--") => sed_long(text, &mut rest, &mut read, parts),
            Some(text) if text.len() > 1 && text.starts_with('-') => {
                sed_short(text, &mut rest, &mut read, parts);
            }
            Some(_) => read.operands.push(word),
            None => {
                if word.may_be_option() {
                    parts.push(unclear(format!("`{word}` may be an option of `sed`, which runs commands")));
                }
                read.operands.push(word);
            }
        }
    }
    if !read.named {
        read.scripts.extend(read.operands.first());
    }
    for script in read.scripts {
        match script.known() {
            Some(text) => judge(deed_of_sed(text), text, "sed", parts),
            None => parts.push(unclear(format!("what the script `{script}` of `sed` does"))),
        }
    }
}

/// A long option, or a beginning of one.
fn sed_long<'a>(text: &str, rest: &mut Iter<'a, Word>, read: &mut SedWords<'a>, parts: &mut Vec<Part>) {
    let attached = text.split_once('=').map(|(_, value)| value);
    if is_long(text, "--in-place") {
        parts.push(Part::Hidden(text.to_owned()));
    } else if is_long(text, "--expression") {
        read.named = true;
        match attached {
            Some(script) => judge(deed_of_sed(script), script, "sed", parts),
            None => read.scripts.extend(rest.next()),
        }
    } else if is_long(text, "--file") {
        read.named = true;
        parts.push(unclear(format!("what the script of `sed {text}` does")));
        skip_value(attached, rest, parts);
    } else if is_long(text, "--line-length") {
        skip_value(attached, rest, parts);
    }
}

/// A cluster of short options.
fn sed_short<'a>(text: &str, rest: &mut Iter<'a, Word>, read: &mut SedWords<'a>, parts: &mut Vec<Part>) {
    for (at, letter) in text.char_indices().skip(1) {
        let attached = Some(&text[at + letter.len_utf8()..]).filter(|value| !value.is_empty());
        match letter {
            'E' | 'b' | 'n' | 'r' | 's' | 'u' | 'z' => continue,
            'i' => parts.push(Part::Hidden(text.to_owned())),
            'e' => {
                read.named = true;
                match attached {
                    Some(script) => judge(deed_of_sed(script), script, "sed", parts),
                    None => read.scripts.extend(rest.next()),
                }
            }
            'f' => {
                read.named = true;
                parts.push(unclear(format!("what the script of `sed {text}` does")));
                skip_value(attached, rest, parts);
            }
            'l' => skip_value(attached, rest, parts),
            _ => parts.push(unclear(format!("of `sed`, its option `{text}` is not known"))),
        }
        return;
    }
}

/// Passes over an option's value, where it is the next word.
fn skip_value(attached: Option<&str>, rest: &mut Iter<'_, Word>, parts: &mut Vec<Part>) {
    if attached.is_none()
        && let Some(word @ Word::Many(_)) = rest.next()
    {
        parts.push(unclear(format!("`{word}` may be an option of `sed`, which runs commands")));
    }
}

fn judge(deed: Option<Deed>, script: &str, name: &str, parts: &mut Vec<Part>) {
    match deed {
        Some(Deed::Prints) => {}
        Some(Deed::Writes) => parts.push(Part::Hidden(script.to_owned())),
        Some(Deed::Runs) => parts.push(unclear(format!("what the script of `{name}` starts"))),
        None => parts.push(unclear(format!("what the script `{script}` of `{name}` does"))),
    }
}

/// What a sed script does; `None` where it is not understood.
fn deed_of_sed(script: &str) -> Option<Deed> {
    let mut deed = Deed::Prints;
    let mut text = script.chars().peekable();
    while let Some(c) = text.next() {
        match c {
            c if c.is_whitespace() || matches!(c, ';' | '{' | '}' | '!' | ',' | '+' | '~' | '$') => {}
            c if c.is_ascii_digit() => {}
            '#' => drop(to_line_end(&mut text)),
            '/' => {
                until(&mut text, '/')?;
                while text.next_if(|c| matches!(c, 'I' | 'M')).is_some() {}
            }
            '\\' => {
                let delimiter = text.next()?;
                until(&mut text, delimiter)?;
                while text.next_if(|c| matches!(c, 'I' | 'M')).is_some() {}
            }
            's' => {
                let delimiter = text.next()?;
                until(&mut text, delimiter)?;
                until(&mut text, delimiter)?;
                while let Some(flag) = text.next_if(|c| {
                    c.is_ascii_digit() || matches!(c, 'g' | 'p' | 'i' | 'I' | 'm' | 'M' | 'e' | 'w')
                }) {
                    match flag {
                        'e' => deed = Deed::Runs,
                        'w' => {
                            deed = deed.max(Deed::Writes);
                            to_line_end(&mut text);
                        }
                        _ => {}
                    }
                }
            }
            'y' => {
                let delimiter = text.next()?;
                until(&mut text, delimiter)?;
                until(&mut text, delimiter)?;
            }
            'w' | 'W' => {
                deed = deed.max(Deed::Writes);
                to_line_end(&mut text);
            }
            'e' => {
                deed = Deed::Runs;
                to_line_end(&mut text);
            }
            'a' | 'i' | 'c' => past_text(&mut text)?,
            // A file that is read, up to the end of the line.
            'r' | 'R' => drop(to_line_end(&mut text)),
            ':' | 'b' | 't' | 'T' => while text.next_if(|c| !matches!(c, ';' | '\n' | '}')).is_some() {},
            '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' | 'l' | 'q' | 'Q'
            | 'F' => {}
            _ => return None,
        }
    }
    Some(deed)
}

/// Passes over a part that ends at `delimiter`.
fn until(text: &mut Peekable<Chars<'_>>, delimiter: char) -> Option<()> {
    let mut class = false;
    loop {
        match text.next()? {
            '\\' => drop(text.next()?),
            '\n' => return None,
            // In `[..]` the delimiter is a character in some versions and ends the part in others.
            '[' if delimiter != '[' => class = true,
            ']' => class = false,
            c if c == delimiter && class => return None,
            c if c == delimiter => return Some(()),
            _ => {}
        }
    }
}

/// Passes over text, which goes on behind a backslash at the end of a line. One may stand before the text: then whether
/// another one at the end of that line escapes anything is not the same in every version.
fn past_text(text: &mut Peekable<Chars<'_>>) -> Option<()> {
    while text.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
    if text.next_if_eq(&'\\').is_some() {
        while text.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        if text.next_if_eq(&'\n').is_none() {
            let line: String = text.clone().take_while(|c| *c != '\n').collect();
            if line.ends_with('\\') {
                return None;
            }
        }
    }
    while to_line_end(text) {}
    Some(())
}

/// Passes over the rest of the line. Whether it ends in a backslash that no other one escapes.
fn to_line_end(text: &mut Peekable<Chars<'_>>) -> bool {
    let mut escapes = false;
    for c in text.by_ref() {
        if c == '\n' {
            return escapes;
        }
        escapes = c == '\\' && !escapes;
    }
    false
}

pub(super) fn awk(name: &str, args: &[Word], parts: &mut Vec<Part>) {
    let mut rest = args.iter();
    let mut program = None;
    while let Some(word) = rest.next() {
        let Some(text) = word.known() else {
            return parts.push(unclear(format!("`{word}` may be the program of `{name}`")));
        };
        match text {
            "-F" | "-v" | "--field-separator" | "--assign" => drop(rest.next()),
            "--" => {
                program = rest.next();
                break;
            }
            _ if text.starts_with("-F")
                || text.starts_with("-v")
                || text.starts_with("--field-separator=") => {}
            _ if text.starts_with('-') && text.len() > 1 => {
                return parts.push(unclear(format!("what `{name} {text}` does")));
            }
            _ => {
                program = Some(word);
                break;
            }
        }
    }
    match program.map(Word::known) {
        Some(Some(text)) => judge(Some(deed_of_awk(text)), text, name, parts),
        Some(None) => parts.push(unclear(format!("what the program of `{name}` does"))),
        None => {}
    }
}

/// A program of awk that names `system`, a pipe or a file to read its program from counts as one that starts
/// commands, and one with `>` as one that writes; both may be a mistake, and then a person is asked for nothing.
fn deed_of_awk(program: &str) -> Deed {
    let pipes = program.replace("||", "").contains('|');
    let named = ["system", "getline", "@load", "@include", "@namespace", "SYMTAB"];
    if pipes || named.iter().any(|word| program.contains(word)) || program.contains('@') {
        Deed::Runs
    } else if program.contains('>') {
        Deed::Writes
    } else {
        Deed::Prints
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sed_scripts_do() {
        let prints = [
            "s/a/b/",
            "s,w,e,g",
            "/re/d",
            "1,5p",
            "$!N;P;D",
            "s/\\/x/y/2p",
            "10q",
            "/a/,/b/{s/x/y/;p}",
            "y/abc/wef/",
            "a\\\ntext w",
            "\\,x,d",
            ":a;N;$!ba;s/\\n/ /g",
            "r file",
            "# we",
            "1~2d",
            "/x/I,+3p",
            "s/^ *//;s/e$//",
        ];
        for script in prints {
            assert_eq!(deed_of_sed(script), Some(Deed::Prints), "{script}");
        }
        for script in ["w out", "s/a/b/w out", "/x/w f", "1!w f", "$w f", "/x/{p;w f\n}"] {
            assert_eq!(deed_of_sed(script), Some(Deed::Writes), "{script}");
        }
        for script in ["1i foo\\\\\n1e rm f", "1e rm f", "s/.*/rm f/e", "e", "/x/{e rm f\n}", "s/a/b/ge"] {
            assert_eq!(deed_of_sed(script), Some(Deed::Runs), "{script}");
        }
        for script in ["s/a", "k", "s/[/]/x/", "é"] {
            assert_eq!(deed_of_sed(script), None, "{script}");
        }
    }

    #[test]
    fn what_awk_programs_do() {
        assert_eq!(deed_of_awk("{print $1}"), Deed::Prints);
        assert_eq!(deed_of_awk("$1==\"a\" || NR<3"), Deed::Prints);
        assert_eq!(deed_of_awk("{print > \"f\"}"), Deed::Writes);
        for program in
            ["BEGIN{system(\"rm f\")}", "{print | \"sh\"}", "{\"date\" | getline}", "@include \"x\""]
        {
            assert_eq!(deed_of_awk(program), Deed::Runs, "{program}");
        }
    }
}
