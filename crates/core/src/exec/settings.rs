//! Options that a shell is given by their name: `set -o`, `shopt -s`, `bash -O`.

/// Names that change nothing of which commands a line runs. Not among them: `keyword`, with which assignments stand
/// anywhere; `cdable_vars`, with which `cd` follows a variable; `history` and `histexpand`, with which `!` stands for
/// words; `extdebug`, `posix` and the ways of older versions.
const PLAIN: &[&str] = &[
    "allexport",
    "braceexpand",
    "checkhash",
    "checkjobs",
    "checkwinsize",
    "dotglob",
    "emacs",
    "errexit",
    "errtrace",
    "execfail",
    // An alias is asked about where it is made.
    "expand_aliases",
    "extglob",
    "failglob",
    "functrace",
    "globasciiranges",
    "globskipdots",
    "globstar",
    "hashall",
    "huponexit",
    "ignoreeof",
    "inherit_errexit",
    "lastpipe",
    "monitor",
    "nocaseglob",
    "nocasematch",
    "noclobber",
    "noexec",
    "noglob",
    "nolog",
    "notify",
    "nounset",
    "nullglob",
    "onecmd",
    "physical",
    "pipefail",
    "privileged",
    "shift_verbose",
    "verbose",
    "vi",
    "xpg_echo",
    "xtrace",
];

/// Whether a shell runs the same commands whether or not this option of it is set.
///
/// ```
/// use provost_core::exec::is_plain_setting;
/// assert!(is_plain_setting("pipefail") && !is_plain_setting("keyword"));
/// ```
pub fn is_plain_setting(name: &str) -> bool {
    PLAIN.contains(&name)
}

/// Whether one of a shell's options of one letter changes which commands a line runs: `-k` is `keyword`, `-H` is
/// `histexpand`.
pub fn is_steering_flag(letter: char) -> bool {
    matches!(letter, 'k' | 'H')
}
