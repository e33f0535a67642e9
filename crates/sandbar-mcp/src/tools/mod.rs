//! Tools: those of the host with an additional parameter `sandbox`, and our own, which manage
//! sandboxes.

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
