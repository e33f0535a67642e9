//! A box cannot change its mounts.

use crate::case::held;

attempts! {
    tmpfs_is_not_mounted: held("mount-tmpfs"),
    fresh_proc_is_not_mounted: held("mount-proc"),
    fresh_sys_is_not_mounted: held("mount-sysfs"),
    devices_of_the_host_are_not_mounted: held("mount-devtmpfs"),
    terminals_are_not_mounted: held("mount-devpts"),
    cgroup_v1_is_not_mounted: held("mount-cgroup"),
    cgroup_v2_is_not_mounted: held("mount-cgroup2"),
    debugfs_is_not_mounted: held("mount-debugfs"),
    tracefs_is_not_mounted: held("mount-tracefs"),
    securityfs_is_not_mounted: held("mount-securityfs"),
    bpffs_is_not_mounted: held("mount-bpf"),
    message_queues_are_not_mounted: held("mount-mqueue"),
    registry_of_interpreters_is_not_mounted: held("mount-binfmt-misc"),
    overlay_is_not_mounted: held("mount-overlay"),
    bind_mount_is_refused: held("mount-bind"),
    mount_is_not_moved: held("mount-move"),
    no_read_only_mount_becomes_writable: held("mount-remount-writable"),
    mount_propagation_is_not_changed: held("mount-propagation"),
    nothing_that_masks_is_unmounted: held("mount-unmount"),
    root_mount_is_not_cloned: held("mount-open-tree"),
    root_mount_of_process_1_is_not_cloned: held("mount-open-tree-of-process-1"),
    new_mount_calls_open_no_file_system: held("mount-fsopen"),
    root_file_system_is_not_reconfigured: held("mount-fspick"),
    mount_is_not_moved_by_the_new_call: held("mount-move-mount"),
    attributes_of_a_mount_stay: held("mount-setattr"),
    user_namespace_gives_no_right_to_mount: held("mount-in-user-namespace"),
}
