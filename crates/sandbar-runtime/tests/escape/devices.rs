//! Devices of the host are neither made nor opened. The sentry of gVisor lets nodes be made: it
//! knows a handful of devices, all of them its own.

use crate::case::{contained, held};

attempts! {
    no_node_for_memory_is_created: contained("node-memory", "does not open"),
    no_node_for_the_kernel_log_is_created: contained("node-kernel-log", "does not open"),
    no_node_for_the_null_device_is_created: contained("node-null", "1:3"),
    no_node_for_fuse_is_created: contained("node-fuse", "10:229"),
    no_node_for_a_disk_is_created: contained("node-disk", "does not open"),
    no_node_for_a_virtual_disk_is_created: contained("node-virtual-disk", "does not open"),
    no_node_for_a_loop_device_is_created: contained("node-loop", "does not open"),
    no_node_is_made_through_a_link: contained("node-through-link", "created a node in /dev"),
    no_whiteout_is_created: held("node-whiteout"),
    memory_device_is_out_of_reach: held("device-mem"),
    port_device_is_out_of_reach: held("device-port"),
    kernel_log_device_is_out_of_reach: held("device-kmsg"),
    disks_are_out_of_reach: held("device-disks"),
    loop_devices_are_out_of_reach: held("device-loop"),
    device_mapper_is_out_of_reach: held("device-mapper"),
    fuse_is_out_of_reach: contained("device-fuse", "/dev/fuse"),
    kvm_is_out_of_reach: held("device-kvm"),
    tunnels_are_out_of_reach: contained("device-tun", "/dev/net/tun"),
    vhost_is_out_of_reach: held("device-vhost"),
    page_fault_device_is_out_of_reach: held("device-userfaultfd"),
    input_devices_are_out_of_reach: held("device-input"),
    processor_registers_are_out_of_reach: held("device-registers"),
    consoles_of_the_host_are_out_of_reach: held("device-console"),
    terminals_of_others_are_out_of_reach: held("terminal-of-another"),
    no_input_is_pushed_into_a_terminal: held("terminal-push-input"),
    nothing_is_pasted_into_the_console: held("terminal-console-calls"),
}
