//! A host on every storage and runtime: what it does, what it refuses, what it remembers.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod attach;
mod attach_closely;
mod audit;
mod bad_input;
mod closed_to_others;
mod commands;
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
mod watch_dir;

/// Makes a test of each case for each pair, called `pair::module::case`. `.config/nextest.toml` says which of them
/// `make test` runs.
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
        a_session_is_made_listed_and_destroyed,
        the_host_base_is_made_when_first_asked_for,
        an_id_is_taken_once_and_free_after_destroy,
        a_listing_is_filtered_and_paged,
        what_a_session_uses_is_told_when_asked,
        at_most_max_sessions_are_made,
        two_callers_may_destroy_one_session,
        a_session_past_its_time_is_destroyed;
    commands:
        a_command_sees_the_session_as_its_root,
        a_command_has_the_environment_of_base_session_and_call,
        background_jobs_end_with_the_session,
        a_disk_filler_is_held_by_its_quota_and_its_neighbour_goes_on,
        a_command_runs_after_rollback;
    users:
        a_command_runs_as_a_user_of_the_session,
        a_process_runs_as_a_user_of_the_session_also_when_it_starts_again,
        users_are_those_of_the_session_s_own_files,
        a_user_that_is_not_there_is_refused_and_nothing_runs,
        root_with_rights_of_its_own_changes_owners_and_users,
        rights_of_root_stay_with_a_session_whatever_becomes_of_it,
        no_mount_of_the_host_lets_a_session_s_programs_set_the_user_id;
    snapshots:
        rollback_restores_files_and_drops_later_snapshots,
        rollback_keeps_later_snapshots_when_asked,
        a_mistyped_snapshot_leaves_the_session_as_it_was,
        turn_numbers_never_repeat,
        a_named_snapshot_survives_pruning,
        the_lineage_of_snapshots_is_a_tree,
        diff_tells_what_a_command_changed,
        turns_from_two_callers_get_different_numbers;
    forks:
        forks_share_the_past_and_not_the_future,
        a_fork_to_a_taken_id_makes_nothing,
        a_fork_survives_its_source;
    files:
        a_written_file_is_what_a_command_reads,
        owners_are_those_inside_the_session,
        links_lead_nowhere_outside,
        what_is_made_for_a_user_belongs_to_the_user,
        directories_are_moved_and_removed_those_of_the_base_too,
        a_dropped_writer_changes_nothing,
        a_writer_notices_a_rollback,
        a_tree_goes_out_and_comes_back,
        a_tree_nobody_reads_does_not_hold_up_the_end_of_its_session;
    pause:
        a_paused_session_makes_no_progress_and_goes_on_when_resumed,
        a_paused_session_can_be_looked_at_and_not_changed,
        a_paused_session_is_rolled_back_forked_and_destroyed,
        a_pause_waits_for_tools_and_gives_up_in_the_end,
        an_idle_session_is_paused_by_itself,
        a_paused_session_is_still_paused_after_a_restart,
        a_quiesced_snapshot_is_one_moment,
        a_session_is_paused_with_its_files_only,
        a_pause_without_memory_survives_a_restart_and_needs_no_freezer;
    expiry:
        a_session_is_given_more_time_less_time_and_no_end,
        a_session_whose_time_is_up_is_paused_when_asked,
        a_session_that_is_away_when_its_time_is_up_stays_and_has_no_end_any_more,
        a_session_whose_time_is_up_is_paused_without_what_runs_when_asked,
        more_time_counts_as_long_as_a_pause_waits_for_tools,
        more_time_just_before_the_end_counts_or_is_refused;
    saved_bases:
        a_saved_base_outlives_its_session_and_is_no_session,
        a_base_is_saved_from_a_snapshot_and_again_from_a_session_made_from_it,
        sessions_stay_when_their_saved_base_goes,
        sessions_of_a_saved_base_have_its_environment,
        what_cannot_be_saved_is_refused,
        a_base_that_was_half_saved_or_half_removed_is_neither_after_a_restart;
    notes:
        a_note_is_kept_with_its_session_and_goes_with_it,
        what_cannot_be_a_note_is_refused;
    hibernate:
        a_hibernated_session_comes_back_as_it_was,
        a_hibernated_session_can_only_be_listed_woken_and_destroyed,
        what_runs_is_ended_and_the_files_it_wrote_are_kept,
        branches_of_the_past_come_back,
        a_failure_on_the_way_changes_nothing,
        what_was_half_put_away_is_undone_or_finished_at_start;
    audit:
        what_happened_is_in_the_log_in_order_with_who_and_outcome,
        the_log_survives_the_session_and_its_successor_goes_on,
        tool_calls_are_in_the_log_and_no_secret_is,
        what_the_host_does_by_itself_is_in_the_log,
        metrics_count_what_was_done;
    processes:
        a_process_runs_until_it_is_killed_and_says_how_it_ended,
        what_cannot_be_done_with_processes_is_refused,
        a_process_that_is_never_ready_is_stopped_and_says_so,
        logs_are_kept_bounded_and_followed,
        a_kill_takes_everything_the_process_started,
        a_process_is_started_again_as_its_policy_says,
        a_process_is_typed_to,
        a_rollback_stops_processes,
        a_paused_session_freezes_its_processes,
        a_host_says_what_became_of_processes_when_it_was_away;
    process_ports:
        a_process_is_running_only_when_its_probe_passes,
        an_exposed_port_lives_as_long_as_its_process,
        a_port_is_dialed_while_its_session_is_active,
        a_traffic_token_is_of_one_session_and_outlives_the_host;
    recovery:
        a_restarted_host_knows_its_sessions,
        what_was_half_made_is_undone_at_start,
        what_was_half_removed_is_finished_at_start,
        a_session_without_its_volume_has_failed_and_can_be_destroyed;
    tool_commands:
        every_tool_sees_the_same_paths,
        a_shell_command_tells_what_it_says_and_how_it_ended,
        progress_is_whole_characters_and_output_is_bounded,
        jobs_and_temporary_files_outlive_a_call,
        a_persistent_shell_goes_on_where_it_ended,
        code_runs_where_its_interpreter_is,
        no_call_takes_longer_than_the_host_allows,
        bad_calls_are_refused_and_the_field_is_named;
    tool_calls:
        a_repeated_call_is_answered_and_not_done_again,
        callers_of_one_call_share_it,
        a_call_nobody_waits_for_is_ended_and_forgotten,
        a_session_with_a_tool_at_work_is_drained_first_and_destroyed_in_the_end,
        a_stopping_host_waits_for_tools_and_then_ends_them,
        every_successful_call_leaves_a_snapshot_when_asked;
    network_policy:
        a_policy_is_remembered_whatever_becomes_of_the_session,
        a_policy_that_cannot_be_is_refused_and_changes_nothing;
    attach:
        several_talk_with_a_process_and_leave_it_running,
        a_terminal_is_shared_by_those_who_are_attached;
    attach_closely:
        who_launches_attached_sees_everything_from_the_first_byte,
        a_process_whose_reader_is_stuck_is_ended_all_the_same,
        a_process_is_found_by_its_pid_and_its_tag,
        the_time_of_a_process_stands_still_while_its_session_does;
    events:
        everything_that_happens_to_a_session_is_told_in_order;
    watch_dir:
        changes_are_told_whoever_makes_them,
        a_watch_ends_with_what_it_watches;
    tool_git:
        a_repository_is_worked_with_from_clone_to_push,
        nothing_of_a_hostile_repository_runs_on_the_host;
}

// Only these runtimes give a session a network of its own, and the storage has no part in that.
on_every_host!(@host own_network_gvisor, BtrfsImage, Gvisor, process_ports:
    two_sessions_listen_on_one_port_and_are_reached_apart;
);
on_every_host!(@host own_network_native, BtrfsImage, Native, process_ports:
    two_sessions_listen_on_one_port_and_are_reached_apart;
);

on_every_host!(@host gate_native, BtrfsImage, Native, network_policy:
    no_secret_is_anywhere_but_in_its_place,
    a_closed_session_is_opened_and_closed_while_it_runs,
    a_paused_session_gets_its_new_network_when_it_goes_on,
    a_change_that_needs_a_new_box_waits_until_nothing_runs,
    what_the_host_tells_is_below_what_others_say,
    decisions_are_recorded_before_the_end_and_counted,
    a_session_is_not_let_out_by_a_host_with_fewer_walls;
);
on_every_host!(@host gate_gvisor, BtrfsImage, Gvisor, network_policy:
    no_secret_is_anywhere_but_in_its_place,
    a_box_that_was_made_closed_is_replaced_when_nothing_runs,
    a_change_that_needs_a_new_box_waits_until_nothing_runs,
    what_the_host_tells_is_below_what_others_say,
    decisions_are_recorded_before_the_end_and_counted;
);
on_every_host!(@host gate_none, LocalDiskExt4, None, network_policy:
    a_host_without_walls_says_that_nothing_is_kept;
);

// What is the same everywhere, or needs processes the host can see.
on_every_host!(@host once, LocalDiskExt4, Native, processes:
    a_process_comes_back_in_a_new_box_when_its_box_has_died,
    a_process_keeps_no_session_awake_and_is_in_no_fork,
    the_oldest_processes_are_forgotten_in_the_end;
    attach:
    who_is_slow_is_told_what_was_missed;
    attach_closely:
    a_slow_close_reader_misses_nothing_and_the_host_stays_small,
    processes_that_come_and_go_are_kept_for_a_while,
    a_process_that_has_lived_a_while_is_known_after_a_restart;
    process_ports:
    a_connection_to_a_port_keeps_its_session_awake;
);
