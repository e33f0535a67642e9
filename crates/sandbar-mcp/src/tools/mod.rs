//! The tools: those of the host, each with a `sandbox` to work in, and those that are about sandboxes themselves.

mod advice;
mod answer;
mod call;
mod catalogue;
mod definition;
mod hints;
mod history;
mod host_tool;
mod output;
mod own;
mod process;
mod sandbox;

pub(crate) use call::Call;
pub(crate) use catalogue::Catalogue;
