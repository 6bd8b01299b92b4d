//! `find` and `fd`: their actions, and what they find.

use super::super::options::has_short;
use super::super::{Part, Place, Word};
use super::{command, filled, guess, unclear};

/// Tests and actions of `find` with one argument.
const FIND_VALUES: &[&str] = &[
    "-amin",
    "-anewer",
    "-atime",
    "-cmin",
    "-cnewer",
    "-ctime",
    "-fstype",
    "-gid",
    "-group",
    "-ilname",
    "-iname",
    "-inum",
    "-ipath",
    "-iregex",
    "-iwholename",
    "-links",
    "-lname",
    "-maxdepth",
    "-mindepth",
    "-mmin",
    "-mtime",
    "-name",
    "-newer",
    "-path",
    "-perm",
    "-printf",
    "-regex",
    "-regextype",
    "-samefile",
    "-size",
    "-type",
    "-uid",
    "-used",
    "-user",
    "-wholename",
    "-xtype",
];

pub(super) fn find(args: &[Word], parts: &mut Vec<Part>) {
    let mut at = 0;
    while let Some(word) = args.get(at) {
        at += 1;
        match word {
            Word::One(_) | Word::File(_) | Word::Many(_) => {
                if word.may_be_option() {
                    parts.push(unclear(format!("`{word}` may be an action of `find`")));
                }
                continue;
            }
            Word::Fixed(text) => match text.as_str() {
                "-delete" | "-fprint" | "-fprint0" | "-fprintf" | "-fls" => {
                    parts.push(Part::Hidden(text.clone()));
                    continue;
                }
                // Names of that list may start as options do.
                "-files0-from" => {
                    parts.push(unclear("what `find` starts for the names of a list"));
                    continue;
                }
                "-exec" | "-execdir" | "-ok" | "-okdir" => {}
                _ => {
                    // One word behind a test is what it tests for.
                    let tested = matches!(args.get(at), Some(Word::One(_) | Word::File(_)));
                    at += usize::from(tested && FIND_VALUES.contains(&text.as_str()));
                    continue;
                }
            },
        }
        let elsewhere = word.text().ends_with("dir");
        let behind = &args[at..];
        let ends = |(index, word): (usize, &Word)| {
            word.known() == Some(";")
                || (word.known() == Some("+") && index > 0 && behind[index - 1].known() == Some("{}"))
        };
        let length = behind.iter().enumerate().position(|(index, word)| ends((index, word)));
        let length = length.unwrap_or(behind.len());
        let place = if elsewhere { Place::Elsewhere } else { Place::Here };
        command(&found_by_find(&behind[..length]), place, parts);
        at += length;
    }
}

/// The words of a command with what `find` finds: paths, which start as its starting points do.
fn found_by_find(words: &[Word]) -> Vec<Word> {
    let path = |word: Word| match word {
        Word::One(text) if text == "{}" => Word::File(text),
        word => word,
    };
    filled(words, "{}").into_iter().map(path).collect()
}

pub(super) fn fd(args: &[Word], parts: &mut Vec<Part>) {
    for (at, word) in args.iter().enumerate() {
        let Some(text) = word.known() else {
            parts.push(unclear(format!("`{word}` may be an option of `fd`")));
            continue;
        };
        let behind = &args[at + 1..];
        if matches!(text, "-x" | "-X" | "--exec" | "--exec-batch") {
            let length = behind.iter().position(|word| word.known() == Some(";")).unwrap_or(behind.len());
            let mut words: Vec<Word> = behind[..length].to_vec();
            let fill = |word: &mut Word| {
                if word.text().contains('{') {
                    *word = Word::One(word.text().to_owned());
                }
            };
            words.iter_mut().for_each(fill);
            words.push(Word::Many("[names that fd finds]".to_owned()));
            command(&words, Place::Here, parts);
        } else if has_short(text, 'x', "deEtSoj")
            || has_short(text, 'X', "deEtSoj")
            || text.starts_with("--exec")
        {
            guess(behind, parts);
            parts.push(unclear(format!("what `fd {text}` runs")));
        }
    }
}
