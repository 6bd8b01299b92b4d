//! The small languages of `sed` and `awk`: whether a program of theirs writes files or starts commands.

use std::iter::Peekable;
use std::str::Chars;

use super::options::{has_short, is_long};
use super::wrappers::unclear;
use super::{Part, Word};

/// What a script does beside printing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Deed {
    Prints,
    Writes,
    Runs,
}

pub(super) fn sed(args: &[Word], parts: &mut Vec<Part>) {
    const VALUES: &str = "efl";
    let mut scripts: Vec<&Word> = Vec::new();
    let mut operands: Vec<&Word> = Vec::new();
    let mut named = false;
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        let Some(text) = word.known() else {
            operands.push(word);
            continue;
        };
        if is_long(text, "--in-place") || (has_short(text, 'i', VALUES) && !text.starts_with("--")) {
            parts.push(Part::Hidden(text.to_owned()));
        }
        if text == "--" {
            operands.extend(rest.by_ref());
        } else if let Some(script) = text.strip_prefix("--expression=") {
            named = true;
            judge(deed_of_sed(script), script, "sed", parts);
        } else if matches!(text, "-e" | "--expression") || (has_short(text, 'e', "") && text.ends_with('e')) {
            named = true;
            scripts.extend(rest.next());
        } else if has_short(text, 'e', "") || has_short(text, 'f', "e") || is_long(text, "--file") {
            // Attached, or in a file.
            named = true;
            parts.push(unclear(format!("what the script of `sed {text}` does")));
        } else if !text.starts_with('-') || text == "-" {
            operands.push(word);
        }
    }
    if !named {
        scripts.extend(operands.first());
        operands = operands.into_iter().skip(1).collect();
    }
    for script in scripts {
        match script.known() {
            Some(text) => judge(deed_of_sed(text), text, "sed", parts),
            None => parts.push(unclear(format!("what the script `{script}` of `sed` does"))),
        }
    }
    // A name that an expansion makes may be an option.
    parts.extend(
        operands
            .iter()
            .filter(|word| word.known().is_none())
            .map(|word| Part::Hidden(word.text().to_owned())),
    );
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
            // Text, or a file that is read, up to the end of the line; text goes on behind a backslash.
            'a' | 'i' | 'c' => while to_line_end(&mut text) {},
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

/// Passes over the rest of the line. Whether it ends in a backslash.
fn to_line_end(text: &mut Peekable<Chars<'_>>) -> bool {
    let mut last = '\n';
    for c in text.by_ref() {
        if c == '\n' {
            return last == '\\';
        }
        last = c;
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
        for script in ["1e rm f", "s/.*/rm f/e", "e", "/x/{e rm f\n}", "s/a/b/ge"] {
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
