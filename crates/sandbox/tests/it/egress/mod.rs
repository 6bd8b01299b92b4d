//! A network of named hosts: real clients in the sandbox, real servers on the host's loopback, names looked up by a table
//! of the test's own.

mod bounds;
mod brokered;
mod clients;
mod fixture;
mod parsers;
mod refusals;
mod requests;
mod resolver;
mod tools;
