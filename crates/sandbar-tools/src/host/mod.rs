//! Tools that work on the files of a session, in this process.

mod content;
mod edit_file;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod glob;
#[cfg(test)]
mod glob_tests;
mod grep;
#[cfg(test)]
mod grep_tests;
mod list_dir;
mod nearest;
mod read_file;
mod search;
#[cfg(test)]
mod testing;
mod write_file;

pub(crate) use edit_file::EditFile;
pub(crate) use glob::Glob;
pub(crate) use grep::Grep;
pub(crate) use list_dir::ListDir;
pub(crate) use read_file::ReadFile;
pub(crate) use write_file::WriteFile;
