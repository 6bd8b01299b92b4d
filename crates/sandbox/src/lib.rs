//! Containment of a process tree: rungs, probe, supervisor and exit records.
