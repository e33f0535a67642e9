//! `sandbar bench`: operations of a host against baselines of the same machine.

mod baseline;
mod report;
mod rounds;
mod subject;

pub(crate) use rounds::MeasureError;
pub(crate) use subject::measure;
