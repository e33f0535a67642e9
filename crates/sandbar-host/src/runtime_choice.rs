//! Choice of the runtime of a host, and a report on each runtime on this machine.
//!
//! `auto` never falls back silently to less isolation: as root it uses a runtime that isolates, or
//! fails with what is missing. Only for an unprivileged user, which cannot isolate, it may choose
//! `none`.

use std::{path::Path, sync::Arc};

use sandbar_core::{Capability, Error, ErrorCode, Result, RuntimeKind};
use sandbar_runtime::{
    GvisorRuntime, GvisorSettings, NativeRuntime, NoneRuntime, Runtime, RuntimeFacts,
};

use crate::{HostConfig, RuntimeChoice};

/// A runtime and its constructor. `name` distinguishes hosts on one machine.
struct Offer {
    kind: RuntimeKind,
    open: fn(config: &HostConfig, name: &str) -> Result<Arc<dyn Runtime>>,
}

const OFFERS: [Offer; 3] = [
    Offer {
        kind: RuntimeKind::Native,
        open: |_, name| Ok(Arc::new(NativeRuntime::open(name)?)),
    },
    Offer {
        kind: RuntimeKind::Gvisor,
        open: |config, name| Ok(Arc::new(GvisorRuntime::open(&gvisor(config, name))?)),
    },
    Offer {
        kind: RuntimeKind::None,
        open: |_, name| Ok(Arc::new(NoneRuntime::open(name)?)),
    },
];

/// Settings of gVisor, with its state below the data directory; below the temporary directory if
/// there is none, as in a doctor run.
fn gvisor(config: &HostConfig, name: &str) -> GvisorSettings {
    let place = if config.data_dir.is_dir() {
        config.data_dir.clone()
    } else {
        std::env::temp_dir()
    };
    GvisorSettings::new(name, place.join(name))
}

/// An opened runtime, and the reason for its choice.
#[derive(Debug)]
pub(crate) struct OpenedRuntime {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) reason: String,
}

/// Report on one runtime on this machine.
#[derive(Debug)]
pub struct RuntimeReport {
    pub kind: RuntimeKind,
    /// Whether a host with this configuration, started by this user, may use it.
    pub eligible: bool,
    /// Its abilities; the error says what is missing and how to get it.
    pub outcome: Result<RuntimeAbilities>,
}

impl RuntimeReport {
    /// Whether a host could start with it.
    pub const fn suffices(&self) -> bool {
        self.eligible && self.outcome.is_ok()
    }
}

/// Abilities of a runtime that works on this machine.
#[derive(Debug)]
pub struct RuntimeAbilities {
    /// Isolation boundary of sessions, as text.
    pub boundary: String,
    pub facts: RuntimeFacts,
    pub checkpoint: Capability,
    pub network: Capability,
}

/// Opens the runtime the configuration asks for.
pub(crate) fn open_runtime(config: &HostConfig) -> Result<OpenedRuntime> {
    let name = group_name(&config.data_dir);
    let (runtime, reason) = choose(config.container_runtime, is_root(), |kind| {
        open(kind, config, &name)
    })?;
    Ok(OpenedRuntime { runtime, reason })
}

/// Tries every runtime on this machine, strongest boundary first. Leaves nothing behind and does
/// not affect a running host. Blocks the thread; must be called inside a tokio runtime.
pub fn runtime_choices(config: &HostConfig) -> Vec<RuntimeReport> {
    // A unique name: opening a runtime kills the processes that one of the same name left.
    let name = format!("sandbar-doctor-{}", std::process::id());
    let eligible = candidates(config.container_runtime, is_root());
    let attempt = |kind| {
        let runtime = open(kind, config, &name)?;
        let abilities = RuntimeAbilities {
            boundary: boundary(&*runtime).to_owned(),
            facts: runtime.facts().clone(),
            checkpoint: runtime.checkpoint().clone(),
            network: runtime.network().clone(),
        };
        runtime.close()?;
        Ok(abilities)
    };
    RuntimeKind::ALL
        .into_iter()
        .map(|kind| RuntimeReport {
            kind,
            eligible: eligible.contains(&kind),
            outcome: attempt(kind),
        })
        .collect()
}

/// Returns the isolation boundary without the name of the runtime.
pub(crate) fn boundary(runtime: &dyn Runtime) -> &str {
    let text = runtime.isolation();
    text.strip_prefix(runtime.kind().as_str())
        .and_then(|rest| rest.strip_prefix(": "))
        .unwrap_or(text)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn open(kind: RuntimeKind, config: &HostConfig, name: &str) -> Result<Arc<dyn Runtime>> {
    match OFFERS.iter().find(|offer| offer.kind == kind) {
        Some(offer) => (offer.open)(config, name),
        None => Err(Error::internal(format!("runtime `{kind}` is not offered"))),
    }
}

/// Lists the runtimes to try, in order.
fn candidates(choice: RuntimeChoice, root: bool) -> Vec<RuntimeKind> {
    match choice {
        RuntimeChoice::Named(kind) => vec![kind],
        RuntimeChoice::Auto if root => vec![RuntimeKind::Native, RuntimeKind::Gvisor],
        RuntimeChoice::Auto => vec![RuntimeKind::Native, RuntimeKind::Gvisor, RuntimeKind::None],
    }
}

/// Opens the first candidate that works; returns it with the reason.
fn choose<T>(
    choice: RuntimeChoice,
    root: bool,
    mut open: impl FnMut(RuntimeKind) -> Result<T>,
) -> Result<(T, String)> {
    let mut refused = Vec::new();
    for kind in candidates(choice, root) {
        match open(kind) {
            Ok(opened) => return Ok((opened, why(choice, kind, &refused))),
            Err(error) => refused.push((kind, error)),
        }
    }
    Err(match choice {
        RuntimeChoice::Named(kind) => unusable(kind, refused.pop().map(|(_, error)| error)),
        RuntimeChoice::Auto => nothing_isolates(&refused),
    })
}

fn why(choice: RuntimeChoice, taken: RuntimeKind, refused: &[(RuntimeKind, Error)]) -> String {
    match (choice, taken) {
        (RuntimeChoice::Named(_), _) => "named in the configuration".to_owned(),
        (RuntimeChoice::Auto, RuntimeKind::None) => {
            format!(
                "no runtime that isolates works for an unprivileged user here: {}",
                list(refused)
            )
        }
        (RuntimeChoice::Auto, _) if refused.is_empty() => "it works here".to_owned(),
        (RuntimeChoice::Auto, _) => list(refused),
    }
}

/// Returns the error for a named runtime that does not work. It is never replaced by another.
fn unusable(kind: RuntimeKind, cause: Option<Error>) -> Error {
    let code = cause.as_ref().map_or(ErrorCode::InvalidState, Error::code);
    let hint = cause
        .as_ref()
        .and_then(Error::hint)
        .unwrap_or("`sandbar doctor` shows what works here")
        .to_owned();
    let error = Error::new(code, format!("runtime `{kind}` cannot be used here"))
        .with_field("container_runtime")
        .with_hint(hint);
    match cause {
        Some(cause) => error.with_source(cause),
        None => error,
    }
}

fn nothing_isolates(refused: &[(RuntimeKind, Error)]) -> Error {
    Error::new(
        ErrorCode::InvalidState,
        format!(
            "no runtime that isolates commands works here: {}",
            list(refused)
        ),
    )
    .with_field("container_runtime")
    .with_hint("install what is missing, or use `--runtime none` to run commands without isolation")
}

/// Returns `native: reason (hint); gvisor: …`.
fn list(refused: &[(RuntimeKind, Error)]) -> String {
    let entry = |(kind, error): &(RuntimeKind, Error)| match error.hint() {
        Some(hint) => format!("{kind}: {} ({hint})", error.chain()),
        None => format!("{kind}: {}", error.chain()),
    };
    refused.iter().map(entry).collect::<Vec<_>>().join("; ")
}

/// Returns the cgroup name of this host, derived from its data directory, which no other host
/// shares.
fn group_name(data_dir: &Path) -> String {
    let place = data_dir
        .canonicalize()
        .unwrap_or_else(|_| data_dir.to_owned());
    let hash = blake3::hash(place.as_os_str().as_encoded_bytes());
    format!("sandbar-{}", &hash.to_hex()[..16])
}

#[cfg(test)]
mod tests {
    use RuntimeKind::{Gvisor, Native, None as Unisolated};

    use super::*;

    /// Returns the choice and its reason on a machine where only `working` can be opened.
    fn choose_among(
        working: &[RuntimeKind],
        choice: RuntimeChoice,
        root: bool,
    ) -> Result<(RuntimeKind, String)> {
        choose(choice, root, |kind| {
            if working.contains(&kind) {
                return Ok(kind);
            }
            Err(
                Error::new(ErrorCode::PermissionDenied, format!("{kind} lacks a part"))
                    .with_hint("install the part"),
            )
        })
    }

    #[test]
    fn auto_prefers_native_and_reports_why_others_failed() {
        for root in [true, false] {
            let (taken, why) =
                choose_among(&[Native, Gvisor, Unisolated], RuntimeChoice::Auto, root).unwrap();
            assert_eq!((taken, why.as_str()), (Native, "it works here"));
            let (taken, why) =
                choose_among(&[Gvisor, Unisolated], RuntimeChoice::Auto, root).unwrap();
            assert_eq!(
                (taken, why.as_str()),
                (Gvisor, "native: native lacks a part (install the part)")
            );
        }
    }

    #[test]
    fn auto_as_root_never_runs_without_isolation() {
        let error = choose_among(&[Unisolated], RuntimeChoice::Auto, true).unwrap_err();
        assert_eq!(error.field(), Some("container_runtime"));
        for part in [
            "native: native lacks a part",
            "gvisor: gvisor lacks a part",
            "install the part",
        ] {
            assert!(error.message().contains(part), "{part:?} is not in {error}");
        }
        assert!(error.hint().unwrap().contains("--runtime none"));
    }

    #[test]
    fn auto_as_unprivileged_user_may_choose_none() {
        let (taken, why) = choose_among(&[Unisolated], RuntimeChoice::Auto, false).unwrap();
        assert_eq!(taken, Unisolated);
        assert!(
            why.contains("no runtime that isolates") && why.contains("gvisor lacks a part"),
            "{why}"
        );
    }

    #[test]
    fn named_runtime_is_used_or_refused_never_replaced() {
        for root in [true, false] {
            let (taken, why) = choose_among(
                &[Native, Unisolated],
                RuntimeChoice::Named(Unisolated),
                root,
            )
            .unwrap();
            assert_eq!(
                (taken, why.as_str()),
                (Unisolated, "named in the configuration")
            );
            let error = choose_among(&[Native, Unisolated], RuntimeChoice::Named(Gvisor), root)
                .unwrap_err();
            assert_eq!(
                (error.code(), error.field()),
                (ErrorCode::PermissionDenied, Some("container_runtime"))
            );
            assert_eq!(
                error.chain(),
                "runtime `gvisor` cannot be used here: gvisor lacks a part"
            );
            assert_eq!(error.hint(), Some("install the part"));
        }
    }

    #[test]
    fn every_runtime_is_reported_and_none_always_works() {
        let config = HostConfig {
            container_runtime: RuntimeChoice::Named(Unisolated),
            ..HostConfig::default()
        };
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .worker_threads(1)
            .build()
            .unwrap();
        let _inside = tokio.enter();
        let reports = runtime_choices(&config);
        assert_eq!(
            reports.iter().map(|report| report.kind).collect::<Vec<_>>(),
            RuntimeKind::ALL
        );
        let eligible: Vec<_> = reports.iter().filter(|report| report.eligible).collect();
        assert_eq!(eligible.len(), 1);
        assert!(
            eligible[0]
                .outcome
                .as_ref()
                .unwrap()
                .boundary
                .starts_with("commands ")
        );
    }
}
