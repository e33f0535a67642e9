//! Conformance suite: the contract of runtimes, checked on every runtime.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot be set up has failed"
)]

mod admission;
mod containers;
mod crowds;
mod death;
mod dial;
#[path = "../support/ended.rs"]
mod ended;
mod environment;
mod exit;
mod freeze;
mod lifetime;
mod limits;
mod listeners;
mod ordinary_user;
mod own_root;
mod prepared;
mod streams;
mod terminal;
mod test_box;
mod trees;
mod users;
mod walls;
mod world;

/// Generates a test of each function for each runtime.
macro_rules! on_every_runtime {
    ($($module:ident: $($name:ident),* $(,)?;)*) => {
        on_every_runtime!(@runtime gvisor, Gvisor, $($module: $($name),*;)*);
        on_every_runtime!(@runtime native, Native, $($module: $($name),*;)*);
        on_every_runtime!(@runtime none, None, $($module: $($name),*;)*);
    };
    (@runtime $runtime:ident, $kind:ident, $($module:ident: $($name:ident),*;)*) => {
        mod $runtime {
            $(mod $module {
                $(#[test]
                fn $name() {
                    crate::$module::$name(sandbar_core::RuntimeKind::$kind);
                })*
            })*
        }
    };
}

on_every_runtime! {
    admission:
        unsupported_request_is_rejected_by_field,
        limits_are_admitted_if_enforceable;
    crowds:
        two_hundred_commands_in_one_box_run_concurrently,
        two_hundred_boxes_run_concurrently,
        concurrent_commands_keep_their_output_apart;
    death:
        box_with_killed_init_is_not_alive,
        box_with_stopped_init_can_be_stopped,
        new_boxes_replace_several_dead_ones,
        dead_box_is_replaced_by_a_new_one,
        killed_host_leaves_no_process_running;
    dial:
        dial_to_server_relays_every_byte_both_ways,
        dial_to_port_without_listener_is_unavailable,
        fifty_connections_stay_open_and_apart,
        dial_reaches_server_on_ipv6_loopback,
        connection_closed_by_server_reads_end_of_file,
        server_writing_to_dropped_connection_gets_an_error,
        server_that_does_not_read_blocks_no_other,
        dial_to_frozen_box_times_out_and_works_after_thaw,
        dials_to_frozen_box_are_bounded,
        stopped_box_closes_its_connections,
        dial_to_dead_or_stopped_box_fails,
        dropped_connections_leave_nothing_in_the_box;
    environment:
        environment_is_exactly_defaults_and_given_variables,
        arguments_arrive_unchanged,
        command_starts_in_workspace_or_given_directory,
        root_is_the_session_tree_without_host_mounts,
        files_of_a_command_belong_to_root_on_disk,
        command_inherits_only_three_descriptors,
        command_starts_with_default_signals_and_umask,
        command_leads_its_own_process_session,
        box_has_the_usual_directories_and_devices,
        invalid_variable_is_rejected_by_field;
    exit:
        every_exit_code_is_reported,
        fatal_signal_is_reported,
        signal_reaches_the_process_group,
        signal_to_ended_command_is_not_found,
        missing_program_is_not_found,
        file_without_program_is_not_executable,
        too_long_arguments_are_rejected_without_side_effect,
        program_is_searched_in_session_and_script_runs_by_shell,
        command_that_failed_to_start_leaves_nothing;
    freeze:
        frozen_box_makes_no_progress_until_thaw,
        freeze_and_thaw_are_idempotent,
        command_started_in_frozen_box_runs_after_thaw,
        frozen_box_can_be_stopped,
        stop_of_frozen_box_releases_pending_starts,
        command_in_frozen_box_can_be_killed,
        signals_to_frozen_box_never_block,
        box_after_a_frozen_one_is_not_frozen;
    lifetime:
        timeout_kills_command_with_daemons_and_keeps_output,
        command_within_its_timeout_is_not_timed_out,
        timeout_spares_background_jobs_of_other_commands,
        dropped_command_is_killed_with_descendants,
        killed_command_ends_with_descendants_and_reports_exit,
        kill_of_ended_command_harms_no_other,
        background_jobs_live_until_the_sandbox_stops,
        background_job_can_write_more_than_a_pipe_holds,
        command_ending_with_output_includes_background_output,
        files_and_tmp_persist_between_commands,
        stopped_sandbox_has_no_processes_and_rejects_commands,
        dropped_sandbox_is_stopped,
        session_can_reopen_a_sandbox_after_stop,
        new_host_kills_leftovers_of_its_predecessor;
    limits:
        fork_bomb_is_contained_in_its_box,
        memory_hog_is_oom_killed_and_spares_others,
        command_limit_applies_to_that_command_only,
        forks_refused_by_command_limit_are_counted,
        cpu_burner_is_held_to_its_limit,
        command_can_have_less_cpu_than_its_session,
        default_memory_limit_kills_the_hog_and_spares_others,
        crowded_box_leaves_another_its_share_of_cpu,
        boxes_are_killed_before_the_machine,
        descriptor_leak_stops_at_its_own_limit,
        stats_of_a_box_are_its_own,
        limit_holds_in_groups_of_an_unlimited_predecessor,
        box_inherits_nothing_from_its_predecessor;
    streams:
        streams_are_separate_and_exit_is_the_last_event,
        both_streams_flow_concurrently,
        every_byte_passes_unchanged_both_ways,
        stdin_is_read_to_its_end,
        large_stdin_arrives_complete,
        command_without_stdin_reads_end_of_file,
        command_that_ignores_stdin_can_end,
        hundred_megabytes_pass_in_bounded_memory,
        output_beyond_limit_is_truncated_and_reported,
        flood_beyond_limit_does_not_block_the_exit,
        slow_reader_applies_back_pressure_without_loss;
    terminal:
        streams_are_a_terminal_of_the_requested_size,
        resize_sends_sigwinch_to_the_command,
        resize_takes_effect_before_later_input,
        resize_without_terminal_is_rejected,
        control_c_interrupts_the_foreground_process,
        interactive_shell_answers_input,
        terminal_output_is_complete_at_exit,
        unread_terminal_blocks_without_loss,
        flooded_terminal_blocks_no_other_command,
        terminal_without_stdin_reads_end_of_file,
        dropped_command_kills_everything_on_its_terminal,
        daemon_on_the_terminal_does_not_delay_exit;
    users:
        command_and_its_files_belong_to_its_user,
        user_has_no_rights_over_others,
        signals_and_kill_reach_commands_of_every_user,
        streams_and_terminal_belong_to_the_user,
        working_directory_denied_to_user_is_rejected,
        user_without_account_never_runs_as_root;
}

/// Generates a test of each function for each runtime that supports egress.
macro_rules! on_every_runtime_with_network {
    ($($name:ident),* $(,)?) => {
        mod gvisor_listeners {
            $(#[test]
            fn $name() {
                crate::listeners::$name(sandbar_core::RuntimeKind::Gvisor);
            })*
        }
        mod native_listeners {
            $(#[test]
            fn $name() {
                crate::listeners::$name(sandbar_core::RuntimeKind::Native);
            })*
        }
    };
}

on_every_runtime_with_network! {
    connections_to_any_address_reach_the_listeners,
    datagrams_and_dns_reach_the_listeners,
    dns_over_tcp_to_loopback_reaches_the_listeners,
    closed_box_reaches_nothing,
    loopback_with_egress_stays_private_and_is_dialed,
    two_boxes_have_separate_listeners,
    box_without_listeners_is_refused_until_reopened,
    udp_ports_change_while_listeners_stay_open,
    box_cannot_change_its_network,
    stopped_box_leaves_no_network,
    certificates_are_mounted_in_dev_and_over_tree_bundles,
    tree_with_symlinks_cannot_redirect_certificates,
}
