//! Writing and clearing resource limits of one cgroup.

use std::io;

use sandbar_core::Resources;

use super::{
    controllers::{Controller, Hierarchy},
    group::Group,
};

/// Length of the CPU accounting period in microseconds.
const CPU_PERIOD: u64 = 100_000;

/// Writes the limit of one controller. Does nothing if `limits` does not set it.
pub(super) fn set_limit(
    group: &Group,
    controller: Controller,
    hierarchy: Hierarchy,
    limits: &Resources,
) -> io::Result<()> {
    match controller {
        Controller::Cpu => {
            let Some(cpus) = limits.cpus else {
                return Ok(());
            };
            let quota = cpu_quota(cpus);
            match hierarchy {
                Hierarchy::V2 => group.write("cpu.max", format!("{quota} {CPU_PERIOD}")),
                Hierarchy::V1 => {
                    group.write("cpu.cfs_period_us", CPU_PERIOD.to_string())?;
                    group.write("cpu.cfs_quota_us", quota.to_string())
                }
            }
        }
        Controller::Memory => {
            let Some(memory) = limits.memory else {
                return Ok(());
            };
            let bytes = memory.get().to_string();
            match hierarchy {
                Hierarchy::V2 => {
                    group.write("memory.max", &bytes)?;
                    // Swap would only delay the OOM kill. Not every kernel accounts for swap.
                    let _ = group.write("memory.swap.max", "0");
                }
                Hierarchy::V1 => {
                    group.write("memory.limit_in_bytes", &bytes)?;
                    let _ = group.write("memory.memsw.limit_in_bytes", &bytes);
                }
            }
            Ok(())
        }
        Controller::Pids => match limits.pids {
            Some(pids) => group.write("pids.max", pids.to_string()),
            None => Ok(()),
        },
    }
}

/// Removes the limit of one controller and resets its peak usage.
pub(super) fn clear_limit(
    group: &Group,
    controller: Controller,
    hierarchy: Hierarchy,
) -> io::Result<()> {
    match (controller, hierarchy) {
        (Controller::Cpu, Hierarchy::V2) => group.write("cpu.max", "max"),
        (Controller::Cpu, Hierarchy::V1) => group.write("cpu.cfs_quota_us", "-1"),
        (Controller::Pids, _) => group.write("pids.max", "max"),
        (Controller::Memory, Hierarchy::V2) => {
            group.write("memory.max", "max")?;
            let _ = group.write("memory.swap.max", "max");
            let _ = group.write("memory.peak", "0");
            Ok(())
        }
        (Controller::Memory, Hierarchy::V1) => {
            let _ = group.write("memory.memsw.limit_in_bytes", "-1");
            group.write("memory.limit_in_bytes", "-1")?;
            group.write("memory.max_usage_in_bytes", "0")
        }
    }
}

/// Converts a number of CPUs to microseconds per period. The kernel rejects less than 1000.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "clamped first"
)]
fn cpu_quota(cpus: f64) -> u64 {
    (cpus * CPU_PERIOD as f64).clamp(1000.0, 1e12) as u64
}
