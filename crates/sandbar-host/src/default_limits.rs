//! Limits of sessions that request none.

use sandbar_core::{ByteCount, Capability, Resources};
use sandbar_runtime::default_memory;

use crate::HostConfig;

/// Disk quota of sessions that request none, where the storage has quotas.
const DEFAULT_QUOTA: ByteCount = ByteCount::gib(10);

/// Limits of sessions that request none.
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultLimits {
    /// Limits of a sandbox, and of each of its commands, without memory.
    pub resources: Resources,
    /// Memory of a sandbox. `None`: unlimited.
    pub memory: Option<ByteCount>,
    /// Disk quota of a session. `None`: unlimited.
    pub quota: Option<ByteCount>,
    /// Why limits are not applied on this machine, each beginning with what is not limited.
    pub missing: Vec<String>,
}

impl DefaultLimits {
    /// Returns the limits of the configuration, and the built-in ones for keys that are not set. A
    /// value of zero means no limit.
    pub fn new(config: &HostConfig, limits: &Capability, quotas: &Capability) -> Self {
        let built_in = Resources {
            memory: default_memory(),
            ..HostConfig::default().default_resources
        };
        let resources = without_zeros(&config.default_resources.clone().or(&built_in));
        let quota = match config.default_session_quota {
            // Refused by the storage if it has no quotas.
            Some(quota) => Some(quota).filter(|quota| *quota != ByteCount(0)),
            None => quotas.is_yes().then_some(DEFAULT_QUOTA),
        };
        let mut missing = Vec::new();
        if let Some(reason) = limits.reason() {
            missing.push(format!("CPU, memory and processes: {reason}"));
        } else {
            for (name, is_off) in [
                ("memory", resources.memory.is_none()),
                ("processes", resources.pids.is_none()),
            ] {
                if is_off {
                    missing.push(format!("{name}: turned off by `default_resources`"));
                }
            }
        }
        match (quota, quotas.reason()) {
            (Some(_), None) => {}
            (None, None) => {
                missing.push("disk: turned off by `default_session_quota`".to_owned());
            }
            (_, Some(reason)) => missing.push(format!("disk: {reason}")),
        }
        Self {
            memory: resources.memory,
            resources: Resources {
                memory: None,
                ..resources
            },
            quota,
            missing,
        }
    }

    /// Returns the quota that a recorded session can have here. A default quota does not bind a
    /// session to storages with quotas.
    pub(crate) fn quota_on(quota: Option<ByteCount>, quotas: &Capability) -> Option<ByteCount> {
        quota.filter(|quota| quotas.is_yes() || *quota != DEFAULT_QUOTA)
    }

    /// Describes the limits in effect, such as `memory 8 GiB, 1024 processes`.
    pub fn summary(&self, limits: &Capability) -> String {
        let mut parts = Vec::new();
        if limits.is_yes() {
            parts.extend(self.memory.map(|memory| format!("{memory} memory")));
            parts.push(match self.resources.cpus {
                Some(cpus) => format!("{cpus} CPUs"),
                None => "equal shares of CPU time".to_owned(),
            });
            let pids = self.resources.pids;
            parts.extend(pids.map(|pids| format!("{pids} processes")));
        }
        parts.extend(self.quota.map(|quota| format!("{quota} disk")));
        if parts.is_empty() {
            parts.push("none".to_owned());
        }
        parts.join(", ")
    }
}

/// Removes limits of zero, which mean no limit in the configuration.
pub(crate) fn without_zeros(resources: &Resources) -> Resources {
    Resources {
        cpus: resources.cpus.filter(|cpus| *cpus != 0.0),
        memory: resources.memory.filter(|memory| *memory != ByteCount(0)),
        pids: resources.pids.filter(|pids| *pids != 0),
        open_files: resources.open_files.filter(|files| *files != 0),
        output: resources.output,
        wall_time: resources.wall_time.filter(|time| !time.is_zero()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(json: &str, limits: &Capability, quotas: &Capability) -> DefaultLimits {
        let config: HostConfig = serde_json::from_str(json).unwrap();
        config.validate().unwrap();
        DefaultLimits::new(&config, limits, quotas)
    }

    #[test]
    fn defaults_bound_memory_processes_and_disk() {
        let found = limits("{}", &Capability::Yes, &Capability::Yes);
        assert_eq!(found.memory, default_memory());
        assert!(found.memory >= Some(ByteCount::mib(512)));
        assert_eq!(found.resources.pids, Some(1024));
        assert_eq!(found.resources.memory, None);
        assert_eq!(found.quota, Some(ByteCount::gib(10)));
        assert_eq!(found.missing, Vec::<String>::new());
    }

    #[test]
    fn one_key_of_default_resources_keeps_the_other_defaults() {
        let found = limits(
            r#"{"default_resources": {"memory": "2G"}, "default_session_quota": "1G"}"#,
            &Capability::Yes,
            &Capability::Yes,
        );
        assert_eq!(
            (found.memory, found.resources.pids, found.quota),
            (Some(ByteCount::gib(2)), Some(1024), Some(ByteCount::gib(1)))
        );
    }

    #[test]
    fn zero_turns_a_limit_off_and_is_reported() {
        let found = limits(
            r#"{"default_resources": {"memory": 0, "pids": 0, "cpus": 0}, "default_session_quota": 0}"#,
            &Capability::Yes,
            &Capability::Yes,
        );
        assert_eq!(
            (found.memory, found.resources.pids, found.quota),
            (None, None, None)
        );
        assert_eq!(
            found.missing,
            [
                "memory: turned off by `default_resources`",
                "processes: turned off by `default_resources`",
                "disk: turned off by `default_session_quota`"
            ]
        );
        assert_eq!(found.summary(&Capability::Yes), "equal shares of CPU time");
    }

    #[test]
    fn limits_the_machine_cannot_apply_are_reported() {
        let no = |reason: &str| Capability::no(reason);
        let found = limits("{}", &no("no cgroups"), &no("no project quotas"));
        assert_eq!(found.quota, None);
        assert_eq!(
            found.missing,
            [
                "CPU, memory and processes: no cgroups",
                "disk: no project quotas"
            ]
        );
        // An explicit quota is kept, so that the storage refuses it.
        let found = limits(
            r#"{"default_session_quota": "1G"}"#,
            &Capability::Yes,
            &no("no project quotas"),
        );
        assert_eq!(found.quota, Some(ByteCount::gib(1)));
    }
}
