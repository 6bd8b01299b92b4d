//! `[` and `test`.

use provost_core::exec::Word;

use super::builtins::named;
use super::walk::Walk;

impl Walk<'_, '_> {
    /// With `-v` a name's subscript is evaluated, and an expansion may be `-v`.
    pub(super) fn tests(&mut self, args: &[Word]) {
        for (at, word) in args.iter().enumerate() {
            let next = args.get(at + 1);
            if matches!(word.known(), Some("-v" | "-R"))
                && let Some(why) = next.and_then(named)
            {
                self.unclear(&why);
            }
            if may_be_operator(word) && next.is_some_and(may_have_subscript) {
                self.unclear(&format!("what `{word}` is to a test"));
            }
            if let Word::Many(text) = word {
                self.split_in_test(text);
            }
        }
        let operands = args.iter().filter(|word| word.known() != Some("]"));
        if let [Word::One(text), _] = operands.collect::<Vec<_>>()[..] {
            self.unclear(&format!("what `{text}` is to a test"));
        }
    }

    /// An expansion that may be several words of a test.
    fn split_in_test(&mut self, text: &str) {
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

fn may_be_operator(word: &Word) -> bool {
    word.known().is_none() && !matches!(word.text(), "$#" | "$?" | "$$" | "$!")
}

/// Whether the word may be a name with a subscript, which is evaluated.
fn may_have_subscript(word: &Word) -> bool {
    word.known().is_none_or(|text| text.contains('['))
}
