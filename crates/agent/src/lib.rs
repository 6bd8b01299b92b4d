//! The driver: context assembly, the loop, the door and recovery.
