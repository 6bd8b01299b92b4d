//! The store held to its promises, on real files and with real processes.

mod appends;
mod crash;
mod damage;
mod leases;
mod letters;
mod many;
mod property;
mod retention;
mod space;
mod support;
mod torn;
mod versions;
