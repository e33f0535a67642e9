//! A host on every storage and runtime.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod attach;
mod attach_lossless;
mod audit;
mod bad_input;
mod closed_to_others;
mod commands;
mod default_limits;
mod events;
mod expiry;
mod files;
mod fixture;
mod forks;
mod held_up;
mod hibernate;
mod host_config;
mod lent;
mod network_policy;
mod notes;
mod object_store;
mod pause;
mod process_ports;
mod processes;
mod recovery;
mod saved_bases;
mod sessions;
mod snapshots;
mod tool_calls;
mod tool_commands;
mod tool_git;
mod tools;
mod users;
mod waiting_callers;
mod watch_dir;

/// Makes a test of each case for each pair, called `pair::module::case`. `.config/nextest.toml`
/// says which of them `make test` runs.
macro_rules! on_every_host {
    ($($module:ident: $($case:ident),* $(,)?;)*) => {
        on_every_host!(@host btrfs_gvisor, BtrfsImage, Gvisor, $($module: $($case),*;)*);
        on_every_host!(@host btrfs_native, BtrfsImage, Native, $($module: $($case),*;)*);
        on_every_host!(@host btrfs_none, BtrfsImage, None, $($module: $($case),*;)*);
        on_every_host!(@host local_disk_gvisor, LocalDiskExt4, Gvisor, $($module: $($case),*;)*);
        on_every_host!(@host local_disk_native, LocalDiskExt4, Native, $($module: $($case),*;)*);
        on_every_host!(@host local_disk_none, LocalDiskExt4, None, $($module: $($case),*;)*);
        on_every_host!(@host zfs_gvisor, Zfs, Gvisor, $($module: $($case),*;)*);
        on_every_host!(@host zfs_native, Zfs, Native, $($module: $($case),*;)*);
        on_every_host!(@host zfs_none, Zfs, None, $($module: $($case),*;)*);
    };
    (@host $name:ident, $storage:ident, $runtime:ident, $($module:ident: $($case:ident),*;)*) => {
        mod $name {
            $(mod $module {
                $(#[test]
                fn $case() {
                    let storage = sandbar_testing::Backend::$storage;
                    let runtime = sandbar_core::RuntimeKind::$runtime;
                    crate::fixture::HostFixture::run(storage, runtime, crate::$module::$case);
                })*
            })*
        }
    };
}

on_every_host! {
    sessions:
        session_is_created_listed_and_destroyed,
        host_base_is_imported_on_first_use,
        id_is_unique_and_free_after_destroy,
        listing_is_filtered_and_paged,
        usage_is_returned_on_request,
        at_most_max_sessions_are_created,
        concurrent_destroys_of_one_session_succeed,
        expired_session_is_destroyed;
    commands:
        command_sees_the_volume_as_its_root,
        command_environment_merges_base_session_and_call,
        background_jobs_end_with_the_session,
        quota_stops_a_disk_filler_and_spares_other_sessions,
        command_runs_after_rollback;
    default_limits:
        session_without_limits_has_those_of_the_host,
        default_quota_stops_a_session_at_its_share;
    users:
        command_runs_as_a_user_of_the_session,
        process_runs_as_a_user_over_restarts,
        users_are_looked_up_in_the_session,
        unknown_user_is_refused_and_nothing_runs,
        own_root_rights_allow_chown_and_su,
        root_rights_survive_fork_rollback_and_hibernation,
        session_mounts_on_the_host_are_nosuid;
    snapshots:
        rollback_restores_files_and_drops_later_snapshots,
        rollback_keeps_later_snapshots_if_requested,
        rollback_to_an_unknown_snapshot_changes_nothing,
        turn_numbers_never_repeat,
        named_snapshot_survives_pruning,
        parents_of_snapshots_form_a_tree,
        diff_lists_what_a_command_changed,
        concurrent_turns_get_different_numbers;
    forks:
        forks_share_earlier_files_and_not_later_ones,
        fork_to_an_existing_id_creates_nothing,
        fork_survives_its_source;
    files:
        command_reads_a_written_file,
        owners_are_shown_as_inside_the_session,
        links_do_not_lead_outside_the_session,
        files_created_for_a_user_belong_to_it,
        directories_are_moved_and_removed_even_of_the_base,
        dropped_writer_changes_nothing,
        writer_fails_after_a_rollback,
        exported_tree_can_be_imported,
        unread_tree_export_does_not_block_destroy;
    pause:
        paused_session_makes_no_progress_until_resumed,
        paused_session_is_readable_and_not_writable,
        paused_session_is_rolled_back_forked_and_destroyed,
        pause_waits_for_tools_until_its_timeout,
        idle_session_is_paused_by_the_janitor,
        paused_session_is_still_paused_after_restart,
        quiesced_snapshot_is_consistent,
        session_is_paused_without_memory,
        pause_without_memory_survives_restart_without_freezer;
    expiry:
        expiry_is_extended_shortened_and_cleared,
        expired_session_is_paused_if_requested,
        hibernated_session_that_expires_is_kept_without_expiry,
        expired_session_is_paused_without_memory_if_requested,
        extension_cancels_a_pause_that_still_drains,
        extension_just_before_expiry_applies_or_is_refused;
    saved_bases:
        saved_base_outlives_its_session_and_is_not_listed,
        base_is_saved_from_a_snapshot_and_from_its_own_session,
        sessions_survive_the_deletion_of_their_saved_base,
        sessions_of_a_saved_base_have_its_environment,
        invalid_save_base_is_refused,
        unfinished_save_or_deletion_of_a_base_is_settled;
    notes:
        note_is_stored_and_deleted_with_its_session,
        invalid_note_is_refused;
    hibernate:
        woken_session_is_as_it_was,
        hibernated_session_can_only_be_listed_woken_and_destroyed,
        hibernate_stops_processes_and_keeps_their_files,
        woken_session_has_its_tree_of_snapshots,
        failed_hibernate_or_wake_changes_nothing,
        unfinished_hibernate_is_undone_or_finished_at_start;
    audit:
        audit_log_has_actor_and_outcome_in_order,
        audit_log_outlives_its_session_and_is_continued,
        tool_calls_are_audited_without_secrets,
        actions_of_the_janitor_are_audited,
        metrics_count_verbs_and_tool_calls;
    processes:
        killed_process_reports_its_exit,
        invalid_process_operations_are_refused,
        process_that_is_never_ready_is_stopped,
        logs_are_bounded_and_can_be_followed,
        kill_ends_everything_the_process_started,
        process_restarts_by_its_policy,
        process_reads_its_input,
        rollback_stops_processes,
        pause_freezes_processes,
        processes_of_an_earlier_host_are_reported_as_exited;
    process_ports:
        process_is_running_once_its_probe_passes,
        exposed_port_lives_as_long_as_its_process,
        port_is_dialed_while_its_session_is_active,
        traffic_token_is_per_session_and_survives_restart;
    recovery:
        restarted_host_has_its_sessions,
        unfinished_creates_are_undone_at_start,
        unfinished_deletions_are_finished_at_start,
        session_without_its_volume_is_failed_and_can_be_destroyed;
    tool_commands:
        all_tools_see_the_same_paths,
        shell_command_returns_output_and_exit_code,
        progress_has_whole_characters_and_output_is_bounded,
        jobs_and_temporary_files_outlive_a_call,
        persistent_shell_keeps_its_state,
        code_runs_if_its_interpreter_exists,
        tool_timeout_ends_a_call,
        invalid_calls_are_refused_by_field;
    tool_calls:
        repeated_call_returns_the_stored_response,
        callers_with_one_call_id_share_the_call,
        dropped_call_is_cancelled_and_not_stored,
        destroy_drains_tools_then_cancels_them,
        shutdown_drains_tools_then_cancels_them,
        per_tool_snapshots_follow_every_successful_call;
    network_policy:
        policy_survives_restart_rollback_and_hibernation,
        invalid_policy_is_refused_and_changes_nothing;
    attach:
        attachments_read_write_and_leave_a_process_running,
        attachments_share_a_terminal;
    attach_lossless:
        launch_attached_gets_output_from_the_first_byte,
        process_with_a_stuck_lossless_reader_can_be_killed,
        process_is_found_by_pid_and_tag,
        wall_time_of_a_process_stops_while_paused;
    events:
        watcher_gets_every_change_of_a_session_in_order;
    watch_dir:
        watch_reports_changes_of_commands_and_calls,
        watch_ends_with_its_directory_or_session;
    tool_git:
        git_tools_work_from_clone_to_push,
        hostile_repository_runs_nothing_on_the_host;
}

// Only these runtimes give a session a network of its own, and the storage has no part in that.
on_every_host!(@host own_network_gvisor, BtrfsImage, Gvisor, process_ports:
    two_sessions_listen_on_the_same_port;
);
on_every_host!(@host own_network_native, BtrfsImage, Native, process_ports:
    two_sessions_listen_on_the_same_port;
);

on_every_host!(@host gate_native, BtrfsImage, Native, network_policy:
    secret_values_are_stored_in_the_database_only,
    policy_of_a_running_box_is_opened_and_closed,
    policy_set_while_paused_applies_after_resume,
    change_that_needs_a_new_box_is_refused_while_in_use,
    network_variables_have_the_lowest_precedence,
    egress_decisions_are_audited_and_counted,
    host_without_egress_refuses_sessions_with_a_policy;
);
on_every_host!(@host gate_gvisor, BtrfsImage, Gvisor, network_policy:
    secret_values_are_stored_in_the_database_only,
    closed_box_is_replaced_when_nothing_runs,
    change_that_needs_a_new_box_is_refused_while_in_use,
    network_variables_have_the_lowest_precedence,
    egress_decisions_are_audited_and_counted;
);
on_every_host!(@host gate_none, LocalDiskExt4, None, network_policy:
    runtime_none_reports_policies_as_not_enforced;
);

// Cases that are the same on every pair, or that need processes the host can see.
on_every_host!(@host once, LocalDiskExt4, Native, processes:
    process_restarts_in_a_new_box_after_its_box_died,
    process_does_not_prevent_idle_pause_nor_join_forks,
    oldest_exited_processes_are_forgotten;
    attach:
    slow_attachment_learns_what_it_missed;
    attach_lossless:
    slow_lossless_reader_misses_nothing_in_bounded_memory,
    exited_ephemeral_processes_are_kept_up_to_a_limit,
    ephemeral_process_is_persisted_after_a_second;
    snapshots:
    named_snapshots_of_a_session_are_limited;
    process_ports:
    exposed_ports_of_a_session_are_limited,
    connection_to_a_port_keeps_its_session_active;
);
