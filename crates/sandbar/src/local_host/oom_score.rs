//! OOM score adjustment of this process: the kernel kills sandboxes before their host.

use std::{fs, io};

const PLACE: &str = "/proc/self/oom_score_adj";

/// Adjustment of a host. Sandboxes have 100 to 500.
const HOST: i32 = -900;

/// Lowers the adjustment of this process, unless it is lower already.
pub(crate) fn lower() -> io::Result<()> {
    let current: i32 = fs::read_to_string(PLACE)?.trim().parse().unwrap_or(0);
    if current <= HOST {
        return Ok(());
    }
    fs::write(PLACE, HOST.to_string())
}
