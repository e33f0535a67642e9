//! Calls that act on the whole machine are refused. The kernel log of gVisor is one it makes up.

use crate::case::{contained, held};

attempts! {
    clock_is_not_set: held("clock-set"),
    clock_is_not_set_by_the_old_call: held("clock-set-old"),
    clock_is_not_adjusted: held("clock-adjust"),
    clock_is_not_adjusted_by_the_new_call: held("clock-adjust-new"),
    no_timer_wakes_the_machine: held("clock-wake"),
    host_name_is_not_set: held("host-name"),
    domain_name_is_not_set: held("domain-name"),
    machine_is_not_rebooted: held("reboot"),
    no_swap_space_is_added: held("swap-on"),
    no_swap_space_is_removed: held("swap-off"),
    accounting_is_not_turned_on: held("accounting"),
    quotas_are_not_read: held("quotas"),
    kernel_log_is_not_read: contained("kernel-log", "gVisor"),
    no_terminal_is_hung_up: held("hang-up"),
}
