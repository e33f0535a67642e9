//! Checks that reject what a runtime cannot provide on this machine.

use sandbar_core::{
    Capability, Error, ErrorCode, NetworkPolicy, Resources, Result, RootRights, RuntimeKind,
};

/// Reason why sandboxes of an unprivileged host have no users but root.
pub(crate) const ONLY_ROOT: &str =
    "the host does not run as root, so its sandboxes have no user but root";

/// Returns whether commands can run as other users than root.
pub(crate) fn users() -> Capability {
    if rustix::process::geteuid().is_root() {
        Capability::Yes
    } else {
        Capability::no(ONLY_ROOT)
    }
}

/// Rejects rights of root that cannot be given.
pub(crate) fn admit_rights(rights: RootRights, available: &Capability) -> Result<()> {
    match (rights, available) {
        (RootRights::Own, Capability::No(reason)) => Err(Error::invalid(
            "root_rights",
            format!("root rights `own` are not available: {reason}"),
        )
        .with_hint("leave out `root_rights`, or use `bare`")),
        _ => Ok(()),
    }
}

/// Rejects a network policy other than `none` if the runtime cannot provide a network.
pub(crate) fn admit_network(
    runtime: RuntimeKind,
    network: &Capability,
    policy: Option<&NetworkPolicy>,
) -> Result<()> {
    match (network, policy) {
        (Capability::No(reason), Some(policy)) if !policy.is_closed() => Err(Error::invalid(
            "network",
            format!("runtime `{runtime}` cannot give sessions a network here: {reason}"),
        )
        .with_hint("leave out `network`, or use `none`")),
        _ => Ok(()),
    }
}

/// Rejects limits that cannot be enforced.
pub(crate) fn admit_limits(
    runtime: RuntimeKind,
    limits: &Capability,
    requested: &Resources,
) -> Result<()> {
    let Capability::No(reason) = limits else {
        return Ok(());
    };
    let fields = [
        ("resources.cpus", "CPU time", requested.cpus.is_some()),
        ("resources.memory", "memory", requested.memory.is_some()),
        (
            "resources.pids",
            "the number of processes",
            requested.pids.is_some(),
        ),
    ];
    match fields.into_iter().find(|(_, _, is_set)| *is_set) {
        Some((field, what, _)) => Err(Error::invalid(
            field,
            format!("runtime `{runtime}` cannot limit {what} here: {reason}"),
        )
        .with_hint("leave it out, or run the host as root on a machine with cgroups")),
        None => Ok(()),
    }
}

/// Error for a sandbox without a network namespace of its own.
pub(crate) fn no_network() -> Error {
    Error::new(
        ErrorCode::InvalidState,
        "sandbox has no network namespace of its own",
    )
}

/// Error for a runtime without checkpoints.
pub(crate) fn cannot_checkpoint() -> Error {
    Error::new(
        ErrorCode::InvalidState,
        "runtime cannot write running processes to disk",
    )
    .with_hint("see the capability `checkpoint`")
}
