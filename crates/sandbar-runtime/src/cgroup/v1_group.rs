//! The group of a session in a v1 hierarchy.

use std::{
    io,
    sync::{Arc, OnceLock},
};

use super::{controllers::Controller, group::Group};

/// Group of a session in the v1 hierarchy of one controller, created on first use.
#[derive(Debug)]
pub(super) struct V1Group {
    pub(super) controller: Controller,
    /// The host's group in this hierarchy.
    host: Arc<Group>,
    name: String,
    created: OnceLock<Group>,
}

impl V1Group {
    pub(super) fn new(controller: Controller, host: &Arc<Group>, name: &str) -> Self {
        Self {
            controller,
            host: Arc::clone(host),
            name: name.to_owned(),
            created: OnceLock::new(),
        }
    }

    /// Returns the group, creating it if needed.
    pub(super) fn get_or_create(&self) -> io::Result<&Group> {
        if let Some(group) = self.created.get() {
            return Ok(group);
        }
        let group = self.host.child(&self.name)?;
        Ok(self.created.get_or_init(|| group))
    }

    /// Returns the group if it was created.
    pub(super) fn get(&self) -> Option<&Group> {
        self.created.get()
    }
}
