//! A box cannot raise its limits and priorities. With gVisor the sentry keeps scores and
//! priorities to itself.

use crate::case::{contained, held};

attempts! {
    no_limit_rises_above_its_bound: held("limit-raise"),
    locked_memory_stays_below_its_limit: held("limit-locked-memory"),
    oom_killer_does_not_spare_the_box: contained("limit-oom-score", "oom_score_adj set"),
    box_gets_no_real_time_priority: held("limit-real-time"),
    box_gets_no_deadline_schedule: held("limit-deadline"),
    priority_does_not_rise: contained("limit-priority", "nice value set to -10"),
    box_gets_no_more_terminals_than_its_share: contained("limit-terminals", "terminals"),
    box_gets_no_real_time_disk_priority: held("limit-disk-priority"),
}
