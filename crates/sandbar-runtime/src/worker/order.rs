//! Order of the host to start a job.

use std::{ffi::CString, io, os::fd::BorrowedFd, time::Duration};

use sandbar_core::ByteCount;

use crate::protocol::{Reader, Writer};

/// Job to start, with what it may use.
#[derive(Debug)]
pub struct JobOrder<'a> {
    /// Directories that the job gets as open descriptors and may read everything below.
    pub directories: Vec<BorrowedFd<'a>>,
    /// Further descriptors for the job.
    pub descriptors: Vec<BorrowedFd<'a>>,
    /// Paths that the job may read everything below, in the host's mount namespace.
    pub readable: Vec<CString>,
    /// Address space limit, beyond what the program itself takes.
    pub memory: ByteCount,
    /// Limit of the running time, and of the CPU time.
    pub time: Duration,
}

/// [`JobOrder`] as the worker server receives it. The socket of the job, the directories and the
/// other descriptors come with the frame, in this order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WireOrder {
    pub(super) directories: u64,
    pub(super) descriptors: u64,
    pub(super) readable: Vec<CString>,
    pub(super) memory: u64,
    pub(super) milliseconds: u64,
}

impl WireOrder {
    pub(super) fn of(order: &JobOrder<'_>) -> Self {
        Self {
            directories: order.directories.len() as u64,
            descriptors: order.descriptors.len() as u64,
            readable: order.readable.clone(),
            memory: order.memory.get(),
            milliseconds: u64::try_from(order.time.as_millis()).unwrap_or(u64::MAX),
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.number(self.directories);
        writer.number(self.descriptors);
        writer.texts(&self.readable);
        writer.number(self.memory);
        writer.number(self.milliseconds);
        writer.finish()
    }

    pub(super) fn decode(body: &[u8]) -> io::Result<Self> {
        let mut reader = Reader::new(body);
        Ok(Self {
            directories: reader.number()?,
            descriptors: reader.number()?,
            readable: reader.texts()?,
            memory: reader.number()?,
            milliseconds: reader.number()?,
        })
    }
}

/// Answer of the worker server to an order. The process descriptor of the job comes with `Started`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OrderAnswer {
    Started,
    Failed { errno: i32 },
}

impl OrderAnswer {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Started => writer.signed(0),
            Self::Failed { errno } => writer.signed(*errno),
        }
        writer.finish()
    }

    pub(super) fn decode(body: &[u8]) -> io::Result<Self> {
        Ok(match Reader::new(body).signed()? {
            0 => Self::Started,
            errno => Self::Failed { errno },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_survives_a_round_trip() {
        let order = WireOrder {
            directories: 1,
            descriptors: 2,
            readable: vec![c"/a".into(), c"/b c".into()],
            memory: 1 << 28,
            milliseconds: 1500,
        };
        assert_eq!(WireOrder::decode(&order.encode()).unwrap(), order);
        for answer in [OrderAnswer::Started, OrderAnswer::Failed { errno: 11 }] {
            assert_eq!(OrderAnswer::decode(&answer.encode()).unwrap(), answer);
        }
        assert!(WireOrder::decode(&order.encode()[..20]).is_err());
    }
}
