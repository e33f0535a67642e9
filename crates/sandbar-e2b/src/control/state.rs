//! State of the control API.

use std::sync::Arc;

use sandbar_host::Host;
use sandbar_interpreter::Interpreters;

use super::sampler::Samples;
use crate::{sandboxes::Sandboxes, templates::Templates};

/// Shared state of the handlers of the control API.
#[derive(Debug)]
pub(crate) struct Control {
    pub(super) host: Arc<Host>,
    pub(super) sandboxes: Arc<Sandboxes>,
    pub(super) templates: Arc<Templates>,
    pub(super) interpreters: Interpreters,
    pub(super) samples: Samples,
}

impl Control {
    pub(crate) fn new(
        host: Arc<Host>,
        sandboxes: Arc<Sandboxes>,
        templates: Arc<Templates>,
        interpreters: Interpreters,
    ) -> Self {
        Self {
            host,
            sandboxes,
            templates,
            interpreters,
            samples: Samples::default(),
        }
    }
}
