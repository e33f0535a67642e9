//! Probes of the runtimes: each is opened for real.

use sandbar_core::{Capability, Error, Result};
use sandbar_host::{DefaultLimits, HostConfig, RuntimeReport, runtime_choices};

use super::{Finding, finding::abilities, scratch::in_private_mounts};

/// Tries every runtime.
pub(crate) fn try_all(config: &HostConfig) -> Result<Vec<RuntimeReport>> {
    // Tasks of a runtime need a thread beside the one that waits for them.
    let tasks = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Error::io("could not start the async runtime", error))?;
    let attempt = || {
        let _inside = tasks.enter();
        runtime_choices(config)
    };
    // In a private mount namespace, as in a host. Without the privilege for one, the runtime is
    // still probed and reports its own errors.
    Ok(in_private_mounts(|| Ok(attempt())).unwrap_or_else(|_| attempt()))
}

/// Returns the finding for a runtime.
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
            let fix = error
                .hint()
                .unwrap_or("start the host with SANDBAR_LOG=debug and read its log")
                .to_owned();
            Finding::missing(name, error.chain(), fix)
        }
    }
}

/// Returns the limits of sandboxes that request none. Quotas are a matter of the storage, which
/// says whether it has them.
pub(crate) fn default_limits(reports: &[RuntimeReport], config: &HostConfig) -> Finding {
    const NAME: &str = "default";
    let limits = reports
        .iter()
        .filter(|report| report.suffices())
        .find_map(|report| Some(report.outcome.as_ref().ok()?.facts.limits.clone()))
        .unwrap_or_else(|| Capability::no("no runtime works"));
    let defaults = DefaultLimits::new(config, &limits, &Capability::Yes);
    let summary = format!(
        "{} for each sandbox; disk where the storage has quotas",
        defaults.summary(&limits)
    );
    if defaults.missing.is_empty() {
        return Finding::ok(NAME, summary);
    }
    Finding::missing(
        NAME,
        format!("{summary}; not limited: {}", defaults.missing.join("; ")),
        "run as root on a machine with cgroups, and set `default_resources` and `default_session_quota`",
    )
}

/// Returns whether a usable runtime supports filtered egress.
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
        return Finding::ok(
            NAME,
            format!(
                "boxes can have filtered network access ({})",
                able.join(", ")
            ),
        );
    }
    let why = if reasons.is_empty() {
        "no runtime works".to_owned()
    } else {
        reasons.join("; ")
    };
    Finding::missing(
        NAME,
        format!("sessions have no network, or that of the host: {why}"),
        "use the runtime `native` or `gvisor` on a kernel with nftables and its `tproxy` and `socket` expressions",
    )
}
