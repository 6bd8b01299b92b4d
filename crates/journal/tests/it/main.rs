//! The store held to its promises, on real files and with real processes.

mod appends;
mod crash;
mod damage;
mod leases;
mod property;
mod space;
mod support;
