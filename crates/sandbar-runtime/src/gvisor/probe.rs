//! Finding out, by trying, what the `runsc` of this machine can do.

use std::{
    ffi::OsStr,
    fs, io,
    os::{fd::AsFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    time::Duration,
};

use sandbar_core::{Capability, Error, ErrorCode, Resources, Result, SessionId};

use super::container::{Container, Workshop};
use crate::{
    BoxNetwork,
    boxed::wait_until_ready,
    protocol::{Connection, Event, Request, send_frame},
};

/// What the names of directories begin with that are made to try something.
const PREFIX: &str = "probe-";

/// How long a box that was started from an image may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts a container, since nothing else shows that it can be done, and finds out whether it can have its tree late.
pub(super) fn late_trees(workshop: &Workshop) -> Result<bool> {
    let unavailable = |error: Error| {
        Error::new(ErrorCode::Unavailable, "gVisor containers cannot be started here")
            .with_field("container_runtime")
            .with_hint("see the message, or choose another runtime")
            .with_source(error)
    };
    let tree = ProbeTree::make(workshop).map_err(|error| Error::io("make a tree to try", error))?;
    let mut container = workshop.start(None, BoxNetwork::Closed).map_err(unavailable)?;
    let late = container.attach(&tree.path).map_err(|error| Error::io("attach a tree", error));
    match late.and_then(|()| stand(&mut container)) {
        Ok(_) => Ok(true),
        Err(error) => {
            tracing::info!(error = error.chain(), "containers cannot get their tree late");
            let mut container = workshop.start(Some(&tree.path), BoxNetwork::Closed).map_err(unavailable)?;
            stand(&mut container).map_err(unavailable)?;
            Ok(false)
        }
    }
}

/// Writes a container to disk and starts it from there.
pub(super) fn checkpoints(workshop: &Workshop) -> Capability {
    match try_checkpoint(workshop) {
        Ok(()) => Capability::Yes,
        Err(error) => Capability::no(format!(
            "runsc {} could not do it when it was tried: {}",
            workshop.runsc.version,
            error.chain()
        )),
    }
}

fn try_checkpoint(workshop: &Workshop) -> Result<()> {
    let failed = |error: io::Error| Error::io("try a checkpoint", error);
    let tree = ProbeTree::make(workshop).map_err(failed)?;
    let image = ProbeTree::make(workshop).map_err(failed)?;
    let mut container = workshop.start(Some(&tree.path), BoxNetwork::Closed)?;
    let before = stand(&mut container)?;
    container.save(&workshop.runsc, &image.path)?;
    drop(before);
    let sockets = container.restore(&workshop.runsc, &image.path, &tree.path)?;
    is_answered(&sockets).map_err(failed)
}

/// Opens the gate of a container.
pub(super) fn networks(workshop: &Workshop) -> Capability {
    if !rustix::process::geteuid().is_root() {
        return Capability::no("containers of an ordinary user cannot be put into a network of their own");
    }
    match try_gate(workshop) {
        Ok(()) => Capability::Yes,
        Err(error) => Capability::no(format!("a container with a gate could not be started: {}", error.chain())),
    }
}

fn try_gate(workshop: &Workshop) -> Result<()> {
    let failed = |error: io::Error| Error::io("try a gate", error);
    let tree = ProbeTree::make(workshop).map_err(failed)?;
    let mut container = workshop.start(Some(&tree.path), BoxNetwork::Gated)?;
    stand(&mut container)?;
    let network = container.take_network().ok_or_else(|| Error::internal("a gated container has no network"))?;
    sandbar_netns::in_namespace(&network.gate, || sandbar_netns::open_linked_gate(&[])).map(drop).map_err(failed)
}

/// Has a container enter its tree.
fn stand(container: &mut Container) -> Result<[UnixStream; 2]> {
    let sockets = container.enter(&Resources::default(), "probe", None)?;
    wait_until_ready(&sockets)?;
    Ok(sockets)
}

fn is_answered([_, events]: &[UnixStream; 2]) -> io::Result<()> {
    events.set_read_timeout(Some(PATIENCE))?;
    send_frame(events.as_fd(), &Request::Report.encode(), &[])?;
    let answer = Connection::new(events.try_clone()?.into()).wait()?.ok_or(io::ErrorKind::UnexpectedEof)?;
    match Event::decode(&answer)? {
        Event::Report { .. } => Ok(()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// An empty directory for a moment. A container makes its mount points in it, `runsc` an image.
struct ProbeTree {
    path: PathBuf,
}

impl ProbeTree {
    fn make(workshop: &Workshop) -> io::Result<Self> {
        let path = workshop.directory.join(format!("{PREFIX}{}", SessionId::random()));
        fs::create_dir(&path)?;
        Ok(Self { path })
    }
}

impl Drop for ProbeTree {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.path) {
            tracing::warn!(directory = %self.path.display(), %error, "could not remove what was made to try something");
        }
    }
}

/// Whether a directory was made here, perhaps by an earlier host.
pub(super) fn is_ours(path: &Path) -> bool {
    path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(PREFIX))
}

/// Removes the names we know, and nothing through a mount.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    for name in ["proc", "dev", "tmp"] {
        let _ = fs::remove_dir(path.join(name));
    }
    let _ = fs::remove_file(path.join("checkpoint.img"));
    fs::remove_dir(path)
}
