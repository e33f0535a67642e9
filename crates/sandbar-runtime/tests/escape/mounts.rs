//! What is mounted in a box stays as it is.

use crate::case::held;

attempts! {
    a_tmpfs_is_not_mounted: held("mount-tmpfs"),
    a_fresh_proc_is_not_mounted: held("mount-proc"),
    a_fresh_sys_is_not_mounted: held("mount-sysfs"),
    the_devices_of_the_host_are_not_mounted: held("mount-devtmpfs"),
    terminals_are_not_mounted: held("mount-devpts"),
    cgroup_v1_is_not_mounted: held("mount-cgroup"),
    cgroup_v2_is_not_mounted: held("mount-cgroup2"),
    debugfs_is_not_mounted: held("mount-debugfs"),
    tracefs_is_not_mounted: held("mount-tracefs"),
    securityfs_is_not_mounted: held("mount-securityfs"),
    bpffs_is_not_mounted: held("mount-bpf"),
    message_queues_are_not_mounted: held("mount-mqueue"),
    the_registry_of_interpreters_is_not_mounted: held("mount-binfmt-misc"),
    an_overlay_is_not_mounted: held("mount-overlay"),
    a_bind_mount_is_refused: held("mount-bind"),
    a_mount_is_not_moved: held("mount-move"),
    no_read_only_mount_becomes_writable: held("mount-remount-writable"),
    mounts_are_not_made_to_travel: held("mount-propagation"),
    nothing_that_masks_is_unmounted: held("mount-unmount"),
    the_root_mount_is_not_cloned: held("mount-open-tree"),
    the_root_mount_of_process_1_is_not_cloned: held("mount-open-tree-of-process-1"),
    the_new_mount_calls_open_no_file_system: held("mount-fsopen"),
    the_root_file_system_is_not_reconfigured: held("mount-fspick"),
    a_mount_is_not_moved_by_the_new_call: held("mount-move-mount"),
    the_attributes_of_a_mount_stay: held("mount-setattr"),
    a_user_namespace_gives_no_right_to_mount: held("mount-in-user-namespace"),
}
