//! Kernel settings are read-only and kernel secrets are hidden. The settings of gVisor are the
//! sentry's own.

use crate::case::{contained, held};

attempts! {
    core_pattern_is_not_writable: held("knob-core-pattern"),
    path_of_modprobe_is_not_writable: held("knob-modprobe"),
    power_off_command_is_not_writable: held("knob-power-off"),
    panic_switch_is_not_writable: held("knob-panic"),
    host_name_file_is_not_writable: held("knob-host-name"),
    last_process_number_is_not_writable: held("knob-last-pid"),
    address_randomisation_is_not_writable: held("knob-randomize"),
    memory_overcommitment_is_not_writable: held("knob-overcommit"),
    packet_forwarding_is_not_writable: held("knob-forwarding"),
    registry_of_interpreters_is_not_writable: held("knob-interpreters"),
    sysrq_switch_is_not_writable: held("knob-sysrq"),
    sysrq_trigger_is_not_writable: held("knob-sysrq-trigger"),
    interrupt_affinity_is_not_writable: held("knob-interrupts"),
    memory_type_registers_are_not_writable: held("knob-memory-types"),
    uevent_helper_is_not_writable: held("knob-uevent-helper"),
    power_state_is_not_writable: held("knob-power-state"),
    nothing_below_proc_sys_is_writable: contained("knob-any-sysctl", "/proc/sys"),
    nothing_below_sys_is_writable: held("knob-any-sys"),
    nothing_right_below_proc_is_writable: held("knob-any-proc"),
    memory_of_the_kernel_is_not_readable: held("tell-core"),
    addresses_of_symbols_are_hidden: held("tell-symbols"),
    addresses_of_memory_are_hidden: held("tell-memory-map"),
    addresses_of_allocations_are_hidden: held("tell-allocations"),
    timers_are_hidden: held("tell-timers"),
    slabs_are_hidden: held("tell-slabs"),
    kernel_log_file_does_not_open: held("tell-log"),
    firmware_is_hidden: held("tell-firmware"),
    debugfs_is_hidden: held("tell-debug"),
    tracefs_is_hidden: held("tell-tracing"),
    securityfs_is_hidden: held("tell-security"),
    pinned_bpf_objects_are_hidden: held("tell-pinned"),
}
