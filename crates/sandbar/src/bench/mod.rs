//! `sandbar bench`: a host against what this machine does without one, in one run.

mod baseline;
mod report;
mod rounds;
mod subject;

pub(crate) use rounds::Ended;
pub(crate) use subject::measure;
