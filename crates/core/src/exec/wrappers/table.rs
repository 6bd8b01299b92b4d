//! Which programs run what stands behind their options, and the options they know.

use super::super::options::Options;

/// A program that runs the words behind its options.
pub(super) struct Wrapper {
    pub(super) names: &'static [&'static str],
    pub(super) options: Options,
    /// Words between the options and the command.
    pub(super) operands: usize,
    /// Whether `NAME=value` may stand before the command.
    pub(super) assigns: bool,
    /// Options behind which it works in another folder, or with another root.
    pub(super) moves: &'static [&'static str],
    /// Options with which a shell or another program reads what it does.
    pub(super) unclear: &'static [&'static str],
    /// Options with which it writes a file.
    pub(super) writes: &'static [&'static str],
    /// What it does without a command.
    pub(super) alone: Alone,
}

/// What a wrapper does when it is given no command.
#[derive(Clone, Copy)]
pub(super) enum Alone {
    /// Nothing that matters.
    Nothing,
    /// It starts a shell.
    Shell,
}

const PLAIN: Wrapper = Wrapper {
    names: &[],
    options: Options::NONE,
    operands: 0,
    assigns: false,
    moves: &[],
    unclear: &[],
    writes: &[],
    alone: Alone::Nothing,
};

pub(super) const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        names: &["nice"],
        options: Options { flags: "0123456789", values: "n", long_values: &["adjustment"], ..Options::NONE },
        ..PLAIN
    },
    Wrapper {
        names: &["ionice"],
        options: Options {
            flags: "t",
            values: "cnpPu",
            long_flags: &["ignore"],
            long_values: &["class", "classdata", "pid", "pgid", "uid"],
            ..Options::NONE
        },
        ..PLAIN
    },
    Wrapper {
        names: &["timeout"],
        options: Options {
            flags: "fpv",
            values: "sk",
            long_flags: &["foreground", "preserve-status", "verbose"],
            long_values: &["signal", "kill-after"],
            ..Options::NONE
        },
        operands: 1,
        ..PLAIN
    },
    Wrapper {
        names: &["nohup", "eatmydata", "catchsegv", "unbuffer", "builtin", "chronic", "ifne", "prime-run"],
        ..PLAIN
    },
    Wrapper { names: &["command"], options: Options { flags: "pvV", ..Options::NONE }, ..PLAIN },
    Wrapper { names: &["exec"], options: Options { flags: "cl", values: "a", ..Options::NONE }, ..PLAIN },
    Wrapper {
        names: &["stdbuf"],
        options: Options { values: "ioe", long_values: &["input", "output", "error"], ..Options::NONE },
        ..PLAIN
    },
    Wrapper {
        names: &["time", "gtime"],
        options: Options {
            flags: "apqvV",
            values: "fo",
            long_flags: &["append", "portability", "quiet", "verbose"],
            long_values: &["format", "output"],
            ..Options::NONE
        },
        writes: &["o", "output"],
        ..PLAIN
    },
    Wrapper {
        names: &["setsid"],
        options: Options { flags: "cfw", long_flags: &["ctty", "fork", "wait"], ..Options::NONE },
        ..PLAIN
    },
    Wrapper {
        names: &["chroot"],
        options: Options {
            long_flags: &["skip-chdir"],
            long_values: &["userspec", "groups"],
            ..Options::NONE
        },
        operands: 1,
        // What a name means in another root cannot be told; its own name still can.
        moves: &[""],
        alone: Alone::Shell,
        ..PLAIN
    },
    Wrapper {
        names: &["unshare"],
        options: Options {
            flags: "muinpUCTfrc",
            values: "SGRwl",
            long_flags: &[
                "mount",
                "uts",
                "ipc",
                "net",
                "pid",
                "user",
                "cgroup",
                "time",
                "fork",
                "map-root-user",
                "map-current-user",
                "map-auto",
                "mount-proc",
                "mount-binfmt",
                "kill-child",
                "keep-caps",
            ],
            long_values: &[
                "setuid",
                "setgid",
                "root",
                "wd",
                "propagation",
                "setgroups",
                "map-user",
                "map-users",
                "map-group",
                "map-groups",
                "monotonic",
                "boottime",
            ],
            ..Options::NONE
        },
        moves: &["R", "root", "w", "wd"],
        alone: Alone::Shell,
        ..PLAIN
    },
    Wrapper {
        names: &["nsenter"],
        options: Options {
            flags: "aFZec",
            values: "tSG",
            attached: "muinpUCTrwW",
            long_flags: &[
                "all",
                "mount",
                "uts",
                "ipc",
                "net",
                "pid",
                "cgroup",
                "user",
                "time",
                "root",
                "wd",
                "wdns",
                "preserve-credentials",
                "no-fork",
                "keep-caps",
                "env",
            ],
            long_values: &["target", "setuid", "setgid"],
        },
        moves: &[""],
        alone: Alone::Shell,
        ..PLAIN
    },
    Wrapper {
        names: &["taskset"],
        options: Options { flags: "ac", long_flags: &["all-tasks", "cpu-list"], ..Options::NONE },
        operands: 1,
        ..PLAIN
    },
    Wrapper {
        names: &["chrt"],
        options: Options {
            flags: "abdfiorRvm",
            values: "TPD",
            long_flags: &[
                "all-tasks",
                "batch",
                "deadline",
                "fifo",
                "idle",
                "other",
                "reset-on-fork",
                "rr",
                "verbose",
            ],
            long_values: &["sched-runtime", "sched-period", "sched-deadline"],
            ..Options::NONE
        },
        operands: 1,
        ..PLAIN
    },
    Wrapper {
        names: &["choom"],
        options: Options { values: "np", long_values: &["adjust", "pid"], ..Options::NONE },
        ..PLAIN
    },
    Wrapper {
        names: &["ssh-agent"],
        options: Options { flags: "cdDks", values: "aEOPt", ..Options::NONE },
        unclear: &["P"],
        ..PLAIN
    },
    Wrapper {
        names: &["setpriv"],
        options: Options {
            flags: "d",
            long_flags: &[
                "dump",
                "nnp",
                "no-new-privs",
                "clear-groups",
                "keep-groups",
                "init-groups",
                "reset-env",
            ],
            long_values: &[
                "ambient-caps",
                "inh-caps",
                "bounding-set",
                "ruid",
                "euid",
                "rgid",
                "egid",
                "reuid",
                "regid",
                "groups",
                "securebits",
                "pdeathsig",
                "selinux-label",
                "apparmor-profile",
            ],
            ..Options::NONE
        },
        ..PLAIN
    },
    Wrapper {
        names: &["sudo"],
        options: Options {
            flags: "AbBEeHiKklnNPSsVv",
            values: "CDghpRrtTUu",
            long_flags: &[
                "askpass",
                "background",
                "bell",
                "edit",
                "login",
                "shell",
                "set-home",
                "stdin",
                "non-interactive",
                "no-update",
                "preserve-groups",
                "preserve-env",
                "reset-timestamp",
                "remove-timestamp",
                "validate",
                "list",
            ],
            long_values: &[
                "close-from",
                "chdir",
                "group",
                "host",
                "prompt",
                "chroot",
                "role",
                "type",
                "command-timeout",
                "user",
            ],
            ..Options::NONE
        },
        assigns: true,
        moves: &["D", "chdir", "R", "chroot", "i", "login"],
        unclear: &["i", "login", "s", "shell", "e", "edit"],
        ..PLAIN
    },
    Wrapper {
        names: &["doas"],
        options: Options { flags: "Lns", values: "aCu", ..Options::NONE },
        unclear: &["s", "C"],
        ..PLAIN
    },
    Wrapper {
        names: &["strace", "ltrace"],
        options: Options { flags: "fFcCdDhikLnNqrtTvVwxyYZz", values: "abeEIoOpPsSuUAXl", ..Options::NONE },
        unclear: &["E", "o", "p", "l"],
        ..PLAIN
    },
    Wrapper {
        names: &["faketime"],
        options: Options { flags: "m", values: "f", ..Options::NONE },
        operands: 1,
        ..PLAIN
    },
    Wrapper {
        names: &["fakeroot"],
        options: Options { flags: "u", values: "lsibf", ..Options::NONE },
        unclear: &["l", "f"],
        alone: Alone::Shell,
        ..PLAIN
    },
    Wrapper {
        names: &["tini", "dumb-init", "catatonit"],
        options: Options {
            flags: "cgsvw",
            values: "pre",
            long_flags: &["single-child", "verbose"],
            ..Options::NONE
        },
        ..PLAIN
    },
    Wrapper {
        names: &["rustup-run"],
        options: Options { long_flags: &["install"], ..Options::NONE },
        operands: 1,
        ..PLAIN
    },
];

/// Programs that start others in ways that are not read here.
pub(super) const OPAQUE: &[&str] = &[
    "aa-exec",
    "anacron",
    "apptainer",
    "at",
    "authbind",
    "autossh",
    "bashbug",
    "batch",
    "bwrap",
    "capsh",
    "ccache",
    "cgexec",
    "chpst",
    "compose",
    "coproc",
    "coresched",
    "cpulimit",
    "crontab",
    "daemon",
    "daemonize",
    "dbus-launch",
    "dbus-run-session",
    "debconf",
    "direnv",
    "distcc",
    "dpkg-architecture",
    "dsh",
    "edit",
    "enosys",
    "entr",
    "envdir",
    "expect",
    "fakechroot",
    "firejail",
    "gdb",
    "gosu",
    "hyperfine",
    "i386",
    "inotifywait",
    "konsole",
    "linux32",
    "linux64",
    "lldb",
    "logrotate",
    "machinectl",
    "mispipe",
    "mosh",
    "newgrp",
    "nix",
    "nix-shell",
    "nocache",
    "nsjail",
    "numactl",
    "pee",
    "perf",
    "pipesz",
    "pkexec",
    "prlimit",
    "proot",
    "proxychains",
    "proxychains4",
    "pssh",
    "rlogin",
    "rlwrap",
    "rr",
    "rsh",
    "run-mailcap",
    "run-one",
    "run-parts",
    "runcon",
    "s-nail",
    "scalar",
    "sccache",
    "schroot",
    "screen",
    "scriptlive",
    "see",
    "select-editor",
    "sensible-browser",
    "sensible-editor",
    "sensible-pager",
    "setarch",
    "setpgid",
    "setuidgid",
    "sg",
    "socat",
    "softlimit",
    "sshpass",
    "start-stop-daemon",
    "startx",
    "su-exec",
    "switch_root",
    "systemd-cat",
    "systemd-inhibit",
    "systemd-nspawn",
    "systemd-run",
    "systemd-socket-activate",
    "tmux",
    "torsocks",
    "tsocks",
    "tsp",
    "uclampset",
    "uftrace",
    "uname26",
    "uxterm",
    "valgrind",
    "vidir",
    "vigr",
    "vipe",
    "vipw",
    "watchexec",
    "x-terminal-emulator",
    "x86_64",
    "xdg-open",
    "xinit",
    "xterm",
    "xvfb-run",
    "zrun",
];
