//! Any system call with any number. Only the processes that attack call it, each once or twice in a short life.

use std::ffi::CStr;
use std::io;

/// One argument of a system call.
pub(super) enum Arg<'a> {
    Number(i64),
    Text(&'a CStr),
    Bytes(&'a [u8]),
    Out(&'a mut [u8]),
}

impl From<i64> for Arg<'_> {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<i32> for Arg<'_> {
    fn from(number: i32) -> Self {
        Self::Number(number.into())
    }
}

impl<'a> From<&'a CStr> for Arg<'a> {
    fn from(text: &'a CStr) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a [u8]> for Arg<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a> From<&'a mut [u8]> for Arg<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        Self::Out(bytes)
    }
}

/// Calls the kernel; what it returns when that is not an error.
pub(super) fn call<const N: usize>(number: i64, arguments: [Arg<'_>; N]) -> io::Result<i64> {
    let mut words = [0usize; 6];
    for (word, argument) in words.iter_mut().zip(arguments) {
        *word = match argument {
            Arg::Number(number) => number as usize,
            Arg::Text(text) => text.as_ptr() as usize,
            Arg::Bytes(bytes) => bytes.as_ptr() as usize,
            Arg::Out(bytes) => bytes.as_mut_ptr() as usize,
        };
    }
    let [a, b, c, d, e, f] = words;
    // SAFETY: pointers come from slices and strings that outlive the call, and the attacks name lengths that they have.
    // No attack unmaps or remaps memory of this process.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A structure for the kernel: `size` zero bytes with these values at these offsets, in this machine's byte order.
pub(super) fn structure<const N: usize>(values: &[(usize, u64, usize)]) -> [u8; N] {
    let mut bytes = [0; N];
    for (offset, value, size) in values {
        bytes[*offset..offset + size].copy_from_slice(&value.to_le_bytes()[..*size]);
    }
    bytes
}
