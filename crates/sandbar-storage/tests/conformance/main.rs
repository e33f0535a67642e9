//! The contract of [`sandbar_storage::Storage`], case by case, on every backend.
//!
//! A case is a function over an open storage. The macro below makes one test of each case for each
//! backend, so a new backend is one line and a new case is one line. A test is called
//! `backend::module::case`; `.config/nextest.toml` says which of them `make test` runs.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod bases;
mod closed;
mod content;
mod difference;
mod forks;
mod limits;
mod owners;
mod recovery;
mod rollback;
mod snapshots;
mod volumes;

macro_rules! conformance {
    ($($module:ident: $($case:ident),* $(,)?;)*) => {
        conformance!(@backend btrfs_image, BtrfsImage, $($module: $($case),*;)*);
        conformance!(@backend btrfs_directory, BtrfsDirectory, $($module: $($case),*;)*);
        conformance!(@backend local_disk_xfs, LocalDiskXfs, $($module: $($case),*;)*);
        conformance!(@backend local_disk_ext4, LocalDiskExt4, $($module: $($case),*;)*);
        conformance!(@backend zfs, Zfs, $($module: $($case),*;)*);
    };
    (@backend $backend:ident, $variant:ident, $($module:ident: $($case:ident),*;)*) => {
        mod $backend {
            $(mod $module {
                $(#[test]
                fn $case() {
                    crate::$module::$case(sandbar_testing::Backend::$variant);
                })*
            })*
        }
    };
}

conformance! {
    bases:
        a_base_is_listed_and_read_back,
        a_base_is_invisible_until_it_is_committed,
        a_dropped_stage_leaves_nothing,
        a_base_name_is_taken_once,
        an_unknown_base_is_refused_and_the_known_ones_are_named,
        a_base_in_use_is_not_deleted,
        a_deleted_base_is_gone_and_its_name_is_free,
        a_session_never_changes_its_base;
    volumes:
        a_new_volume_shows_its_base,
        a_volume_id_is_taken_once,
        volumes_are_listed,
        a_deleted_volume_is_gone_and_its_id_is_free,
        deleting_a_volume_twice_is_fine,
        mounting_twice_gives_the_same_root,
        content_survives_unmount_and_mount,
        writes_of_two_volumes_are_isolated,
        usage_grows_with_writes,
        deleted_volumes_free_their_space,
        many_volumes_at_once;
    content:
        everything_survives_snapshot_change_everything_rollback,
        a_deep_tree_survives_snapshot_and_rollback,
        tree_deeper_than_path_max_is_snapshotted_and_deleted,
        a_deleted_base_directory_comes_back,
        a_base_directory_replaced_by_a_file_comes_back,
        recreated_base_directory_does_not_show_old_files,
        a_renamed_file_of_the_base_moves,
        an_appended_base_file_keeps_its_mode_and_owner;
    snapshots:
        snapshots_are_listed_oldest_first,
        a_snapshot_name_is_taken_once,
        a_snapshot_does_not_change_with_the_volume,
        an_unknown_snapshot_is_refused_and_the_known_ones_are_named,
        a_deleted_snapshot_is_gone_and_its_name_is_free,
        deleting_a_snapshot_twice_is_fine,
        a_snapshot_of_an_unknown_volume_is_refused,
        snapshot_of_a_mounted_volume_has_recent_writes,
        a_hundred_snapshots_of_one_volume;
    rollback:
        rollback_drops_later_snapshots,
        rollback_keeps_later_snapshots_when_asked,
        rollback_goes_forward_again_to_a_kept_snapshot,
        rollback_to_an_unknown_snapshot_changes_nothing,
        rollback_twice_gives_the_same_tree,
        rollback_does_not_touch_forks,
        snapshots_continue_after_rollback,
        snapshots_dropped_by_rollback_stay_dropped;
    forks:
        fork_of_now_has_the_current_content,
        fork_of_a_snapshot_has_the_content_of_the_snapshot,
        siblings_never_see_each_others_writes,
        a_fork_survives_its_source,
        a_fork_survives_the_snapshot_it_came_from,
        a_fork_of_a_fork_of_a_fork,
        a_fork_has_no_snapshots_of_its_source,
        a_fork_to_a_taken_id_is_refused;
    difference:
        nothing_differs_after_a_snapshot,
        diff_reports_added_modified_and_deleted,
        a_deleted_directory_is_listed_entry_by_entry,
        diff_reports_a_type_change,
        diff_reports_attributes_owner_and_mode,
        a_rewrite_with_equal_size_and_time_is_found,
        a_snapshot_differs_from_a_later_one,
        diff_against_the_base_reports_the_writes,
        diff_equals_a_brute_force_comparison_for_random_histories;
    limits:
        a_quota_stops_the_writer_and_nothing_else,
        a_lifted_quota_lets_the_writer_go_on,
        a_quota_survives_rollback,
        a_full_pool_is_storage_full_and_deleting_works,
        space_is_reported;
    owners:
        owners_on_disk_are_those_inside_whatever_the_map,
        a_pack_has_the_owners_on_disk,
        a_base_file_changed_by_a_sandbox_keeps_its_owner,
        a_tree_is_the_same_under_every_map,
        an_archive_read_and_unpacked_through_maps_keeps_every_owner,
        mount_with_other_owners_replaces_the_old_mount,
        host_root_creates_files_only_as_mapped_owner,
        lent_directories_are_id_mapped_nosuid_and_nodev,
        lent_files_only_root_may_read_are_closed,
        device_nodes_and_setuid_bits_do_nothing;
    closed:
        other_users_have_no_access_whatever_modes_existed,
        directory_opened_meanwhile_opens_no_tree,
        directory_of_another_user_is_refused_on_open;
    recovery:
        reopened_storage_lists_everything,
        incomplete_objects_are_removed_on_open,
        volume_in_use_is_deleted;
}
