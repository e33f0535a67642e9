//! Failures of a build.

use sandbar_core::Error;

use crate::{rest::ApiError, templates::catalogue::BuildFailure};

/// Message of a failure, and the part of the build that failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) step: Part,
    pub(super) message: String,
}

/// A part of a build, as SDKs name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Base,
    /// Counted from 1.
    Step(usize),
    Finalize,
}

impl Part {
    pub(super) fn name(self) -> String {
        match self {
            Self::Base => "base".into(),
            Self::Step(number) => number.to_string(),
            Self::Finalize => "finalize".into(),
        }
    }

    pub(super) fn failed(self, message: impl Into<String>) -> Failure {
        Failure {
            step: self,
            message: message.into(),
        }
    }

    pub(super) fn because(self, error: &Error) -> Failure {
        let hint = error
            .hint()
            .map(|hint| format!(" ({hint})"))
            .unwrap_or_default();
        self.failed(format!("{}{hint}", error.chain()))
    }

    pub(super) fn refused(self, error: &ApiError) -> Failure {
        self.failed(error.message())
    }
}

impl From<Failure> for BuildFailure {
    fn from(failure: Failure) -> Self {
        Self {
            step: Some(failure.step.name()),
            message: failure.message,
        }
    }
}
