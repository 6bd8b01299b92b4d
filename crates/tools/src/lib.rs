//! The door's other side: files, search, patch, commands, git and the workspace.
