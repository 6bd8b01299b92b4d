//! The supervisor's way in: an `.init_array` entry that runs before `main` of whatever binary holds this crate.
//!
//! So an embedder sets nothing up in its `main`, and a test binary works as well as `provost` does.

use std::ffi::{c_char, c_int};

use crate::attack;

/// The first argument that makes this process a supervisor.
pub(crate) const MARK: &str = "__provost-sandbox-init";

/// Kept by the linker because [`linked`] reads it and [`crate::Sandbox`] calls that.
#[used]
#[unsafe(link_section = ".init_array")]
static ENTRY: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = at_start;

/// Whether the entry is part of this binary. Reading the static here is what pulls its object file out of the rlib.
pub(crate) fn linked() -> bool {
    // The volatile read keeps the optimiser from replacing the reference with a constant.
    // SAFETY: `ENTRY` is a valid, initialised static.
    let entry = unsafe { std::ptr::read_volatile(&raw const ENTRY) };
    entry as usize != 0
}

extern "C" fn at_start(argc: c_int, argv: *const *const c_char, _envp: *const *const c_char) {
    let arguments = arguments(argc, argv);
    let mut arguments = arguments.iter();
    match (arguments.next().map(Vec::as_slice), arguments.len()) {
        (Some(mark), 0) if mark == MARK.as_bytes() => crate::init::main(),
        (Some(mark), 3) if mark == attack::MARK.as_bytes() => {
            let mut next = || arguments.next().cloned().unwrap_or_default();
            attack::main([next(), next(), next()])
        }
        _ => {}
    }
}

/// As many arguments as any of our starts has.
const MOST: usize = 4;

/// All arguments behind the program's name, where the first one is a mark of ours. glibc passes `argc` and `argv` to init
/// functions.
#[cfg(target_env = "gnu")]
fn arguments(argc: c_int, argv: *const *const c_char) -> Vec<Vec<u8>> {
    let count = usize::try_from(argc).unwrap_or(0);
    if !(2..=MOST + 1).contains(&count) || argv.is_null() {
        return Vec::new();
    }
    let argument = |index: usize| {
        // SAFETY: glibc passes the program's own argument vector, which holds `argc` C strings; `index` is below that.
        unsafe { std::ffi::CStr::from_ptr(*argv.add(index)) }.to_bytes().to_vec()
    };
    if !is_mark(&argument(1)) {
        return Vec::new();
    }
    (1..count).map(argument).collect()
}

/// Other C libraries (musl) pass nothing, so the kernel is asked.
#[cfg(not(target_env = "gnu"))]
fn arguments(_argc: c_int, _argv: *const *const c_char) -> Vec<Vec<u8>> {
    let Ok(line) = std::fs::read("/proc/self/cmdline") else { return Vec::new() };
    let line = line.strip_suffix(b"\0").unwrap_or(&line);
    let all: Vec<Vec<u8>> =
        line.split(|byte| *byte == 0).skip(1).take(MOST + 1).map(<[u8]>::to_vec).collect();
    if all.len() <= MOST && all.first().is_some_and(|first| is_mark(first)) { all } else { Vec::new() }
}

fn is_mark(argument: &[u8]) -> bool {
    argument == MARK.as_bytes() || argument == attack::MARK.as_bytes()
}
