//! The `bash` tool.
//!
//! Every call starts a new shell. State that survives between calls is in the sandbox: files,
//! `/tmp` and background processes. The *persistent shell* is a file there, too: a call restores
//! variables, functions, options and directory from it, runs the command, and writes them back. So
//! the state is rolled back with the session, survives a restart of the host, and is unchanged by a
//! call that is killed.

mod tool;

pub(crate) use tool::Bash;
