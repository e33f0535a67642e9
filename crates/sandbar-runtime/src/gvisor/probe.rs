//! Probes of what the `runsc` of this machine can do.

use std::{
    ffi::OsStr,
    fs, io,
    os::{fd::AsFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    time::Duration,
};

use sandbar_core::{Capability, Error, ErrorCode, Resources, Result, SessionId};

use super::container::{Container, ContainerFactory};
use crate::{
    BoxNetwork,
    protocol::{Connection, Event, Request, send_frame},
    sandbox::wait_until_ready,
};

/// Name prefix of the directories of probes.
const PREFIX: &str = "probe-";

/// Limits how long a restored container may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Starts a container, and returns whether its tree can be mounted after the start. Fails if no
/// container can be started.
pub(super) fn late_trees(factory: &ContainerFactory) -> Result<bool> {
    let unavailable = |error: Error| {
        Error::new(
            ErrorCode::Unavailable,
            "gVisor containers cannot be started",
        )
        .with_field("container_runtime")
        .with_hint("see the cause, or choose another runtime")
        .with_source(error)
    };
    let tree = ProbeDirectory::create(factory)
        .map_err(|error| Error::io("create a tree for a probe", error))?;
    let mut container = factory
        .start(None, BoxNetwork::Closed)
        .map_err(unavailable)?;
    let late = container
        .attach(&tree.path)
        .map_err(|error| Error::io("attach a tree", error));
    match late.and_then(|()| enter(&mut container)) {
        Ok(_) => Ok(true),
        Err(error) => {
            tracing::info!(
                error = error.chain(),
                "trees cannot be mounted in running containers"
            );
            let mut container = factory
                .start(Some(&tree.path), BoxNetwork::Closed)
                .map_err(unavailable)?;
            enter(&mut container).map_err(unavailable)?;
            Ok(false)
        }
    }
}

/// Returns whether checkpoints work, by writing a container to disk and restoring it.
pub(super) fn checkpoints(factory: &ContainerFactory) -> Capability {
    match try_checkpoint(factory) {
        Ok(()) => Capability::Yes,
        Err(error) => Capability::no(format!(
            "a checkpoint with runsc {} failed: {}",
            factory.runsc.version,
            error.chain()
        )),
    }
}

fn try_checkpoint(factory: &ContainerFactory) -> Result<()> {
    let failed = |error: io::Error| Error::io("probe a checkpoint", error);
    let tree = ProbeDirectory::create(factory).map_err(failed)?;
    let image = ProbeDirectory::create(factory).map_err(failed)?;
    let mut container = factory.start(Some(&tree.path), BoxNetwork::Closed)?;
    let before = enter(&mut container)?;
    container.save(&factory.runsc, &image.path)?;
    drop(before);
    let sockets = container.restore(&factory.runsc, &image.path, &tree.path)?;
    is_answered(&sockets).map_err(failed)
}

/// Returns whether containers can have egress, by opening the netns listeners of one.
pub(super) fn networks(factory: &ContainerFactory) -> Capability {
    if !rustix::process::geteuid().is_root() {
        return Capability::no(
            "containers of an unprivileged host cannot have a network namespace of their own",
        );
    }
    match probe_listeners(factory) {
        Ok(()) => Capability::Yes,
        Err(error) => Capability::no(format!(
            "a container with egress could not be started: {}",
            error.chain()
        )),
    }
}

fn probe_listeners(factory: &ContainerFactory) -> Result<()> {
    let failed = |error: io::Error| Error::io("probe netns listeners", error);
    let tree = ProbeDirectory::create(factory).map_err(failed)?;
    let mut container = factory.start(Some(&tree.path), BoxNetwork::Egress)?;
    enter(&mut container)?;
    let network = container
        .take_network()
        .ok_or_else(|| Error::internal("container with egress has no network"))?;
    sandbar_netns::in_namespace(&network.host_side, || {
        sandbar_netns::open_linked_listeners(&[])
    })
    .map(drop)
    .map_err(failed)
}

/// Orders init to enter its tree and waits until it is ready.
fn enter(container: &mut Container) -> Result<[UnixStream; 2]> {
    let sockets = container.enter(&Resources::default(), "probe", None)?;
    wait_until_ready(&sockets)?;
    Ok(sockets)
}

fn is_answered([_, events]: &[UnixStream; 2]) -> io::Result<()> {
    events.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    send_frame(events.as_fd(), &Request::Report.encode(), &[])?;
    let answer = Connection::new(events.try_clone()?.into())
        .wait()?
        .ok_or(io::ErrorKind::UnexpectedEof)?;
    match Event::decode(&answer)? {
        Event::Report { .. } => Ok(()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Temporary directory, used as tree of a container or for an image.
struct ProbeDirectory {
    path: PathBuf,
}

impl ProbeDirectory {
    fn create(factory: &ContainerFactory) -> io::Result<Self> {
        let path = factory
            .directory
            .join(format!("{PREFIX}{}", SessionId::random()));
        fs::create_dir(&path)?;
        Ok(Self { path })
    }
}

impl Drop for ProbeDirectory {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.path) {
            tracing::warn!(directory = %self.path.display(), %error, "could not remove the directory of a probe");
        }
    }
}

/// Returns whether a directory belongs to a probe, perhaps of an earlier host.
pub(super) fn is_probe_directory(path: &Path) -> bool {
    path.file_name()
        .and_then(OsStr::to_str)
        .is_some_and(|name| name.starts_with(PREFIX))
}

/// Removes known names only, so never files below a mount.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    for name in ["proc", "dev", "tmp"] {
        let _ = fs::remove_dir(path.join(name));
    }
    let _ = fs::remove_file(path.join("checkpoint.img"));
    fs::remove_dir(path)
}
