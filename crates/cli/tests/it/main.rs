//! The command line from outside: the binary, its output, its exit codes, what it leaves on the disk.

mod support;

mod bad_input;
mod cases;
mod crash;
mod demo;
mod durable;
mod evidence;
mod kill;
mod leak;
mod policy;
mod provider;
