//! A box gets no better standing than it was given. With gVisor the sentry keeps scores and priorities to itself.

use crate::case::{contained, held};

attempts! {
    no_limit_rises_above_its_bound: held("limit-raise"),
    locked_memory_stays_below_its_limit: held("limit-locked-memory"),
    the_kernel_does_not_spare_it: contained("limit-oom-score", "others first"),
    it_gets_no_real_time_priority: held("limit-real-time"),
    it_gets_no_deadline_schedule: held("limit-deadline"),
    its_priority_does_not_rise: contained("limit-priority", "nice -10"),
    it_gets_no_more_terminals_than_its_share: contained("limit-terminals", "terminals"),
    it_gets_no_real_time_disk_priority: held("limit-disk-priority"),
}
