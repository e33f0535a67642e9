//! Which runtimes work here: each is opened for real under a name of its own.

use sandbar_core::{Capability, Error, Result};
use sandbar_host::{HostConfig, RuntimeReport, runtime_choices};

use super::{Finding, finding::abilities, scratch::in_private_mounts};

/// Tries every runtime.
pub(crate) fn try_all(config: &HostConfig) -> Result<Vec<RuntimeReport>> {
    // A runtime may have tasks of its own; they need a thread beside the one that waits for them.
    let tasks = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Error::io("could not start the async runtime", error))?;
    let attempt = || {
        let _inside = tasks.enter();
        runtime_choices(config)
    };
    // As in a host. Who may not have private mounts may still have a runtime; it then says what that costs.
    Ok(in_private_mounts(|| Ok(attempt())).unwrap_or_else(|_| attempt()))
}

/// A runtime as a line of the report.
pub(crate) fn finding(report: RuntimeReport) -> Finding {
    let name = report.kind.as_str();
    match report.outcome {
        Ok(able) => {
            let facts = &able.facts;
            let offers = [
                ("limits", &facts.limits),
                ("pause", &facts.pause),
                ("checkpoint", &able.checkpoint),
                ("network", &able.network),
            ];
            Finding::ok(name, abilities(&able.boundary, offers))
        }
        Err(error) => {
            let fix = error.hint().unwrap_or("see what the host says with SANDBAR_LOG=debug").to_owned();
            Finding::missing(name, error.chain(), fix)
        }
    }
}

/// Whether sessions can have a network here, in one of the runtimes a host may take.
pub(crate) fn egress(reports: &[RuntimeReport]) -> Finding {
    const NAME: &str = "egress";
    let (mut able, mut reasons) = (Vec::new(), Vec::new());
    for report in reports.iter().filter(|report| report.suffices()) {
        match report.outcome.as_ref().map(|abilities| &abilities.network) {
            Ok(Capability::Yes) => able.push(report.kind.as_str()),
            Ok(Capability::No(reason)) => reasons.push(reason.as_str()),
            Err(_) => {}
        }
    }
    if !able.is_empty() {
        return Finding::ok(NAME, format!("boxes were given a gate ({}): networks open by name", able.join(", ")));
    }
    let why = if reasons.is_empty() { "no runtime works".to_owned() } else { reasons.join("; ") };
    Finding::missing(
        NAME,
        format!("sessions are kept off the network, or share the host's: {why}"),
        "use the runtime `native` or `gvisor` on a kernel with nftables and its `tproxy` and `socket` expressions",
    )
}
