//! OOM score adjustment of this process: the kernel kills sandboxes before their host.

use std::{fs, io};

use crate::terminal::output;

const PLACE: &str = "/proc/self/oom_score_adj";

/// Adjustment of a host. Sandboxes have 100 to 500.
const HOST: i32 = -900;

/// Lowers the adjustment of this process, and says so if that is not permitted.
pub(crate) fn lower() {
    if let Err(error) = try_lower() {
        output::say(format_args!(
            "note: the kernel may kill this host when the machine runs out of memory, after the \
             sandboxes: oom_score_adj could not be lowered ({error}); run it as root with CAP_SYS_RESOURCE"
        ));
    }
}

/// Lowers the adjustment, unless it is lower already.
pub(crate) fn try_lower() -> io::Result<()> {
    let current: i32 = fs::read_to_string(PLACE)?.trim().parse().unwrap_or(0);
    if current <= HOST {
        return Ok(());
    }
    fs::write(PLACE, HOST.to_string())
}
