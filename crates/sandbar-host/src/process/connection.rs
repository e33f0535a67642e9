//! A connection into a box.

use std::{sync::Arc, time::Duration};

use sandbar_core::{Error, Result};
use sandbar_runtime::{DialedStream, Sandbox};

use crate::host::blocking;

/// Connects to a port of a box.
pub(super) async fn connect(sandbox: Arc<dyn Sandbox>, port: u16, patience: Duration) -> Result<DialedStream> {
    let dialed = blocking(move || sandbox.dial(port, patience)).await?;
    dialed.into_stream().map_err(|error| Error::io("use a connection into a sandbox", error))
}
