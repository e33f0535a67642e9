//! What every runtime keeps, checked on every runtime.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot be set up has failed")]

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
mod gates;
mod lifetime;
mod limits;
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

/// Makes a test of each function for each runtime.
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
        what_cannot_be_kept_is_refused_and_named,
        limits_are_taken_where_they_can_be_kept;
    crowds:
        two_hundred_commands_run_at_once_in_one_box,
        two_hundred_boxes_stand_at_once,
        commands_of_many_callers_do_not_mix;
    death:
        a_box_whose_init_was_killed_is_not_alive_and_says_so,
        new_boxes_work_in_the_place_of_several_old_ones,
        a_box_that_died_is_replaced_by_a_new_one,
        nothing_goes_on_running_when_the_host_is_killed;
    dial:
        a_server_in_the_box_is_reached_and_every_byte_passes_both_ways,
        nobody_listening_is_told,
        fifty_connections_stand_at_once_and_do_not_mix,
        a_server_on_the_newer_loopback_is_reached,
        what_the_server_ends_is_at_its_end,
        a_server_that_talks_on_is_told_that_nobody_listens,
        a_server_that_does_not_read_holds_nobody_up,
        a_frozen_box_is_given_up_and_works_again_once_it_is_thawed,
        a_frozen_box_is_asked_no_more_often_than_it_can_hear,
        stopping_the_box_ends_its_connections,
        a_box_that_died_or_was_stopped_is_told,
        connections_that_are_dropped_leave_nothing;
    environment:
        the_environment_is_exactly_the_defaults_and_what_was_given,
        arguments_arrive_as_they_were_given,
        a_command_starts_in_the_workspace_or_where_it_is_told,
        the_session_s_tree_is_the_root_and_the_rest_of_the_host_is_not_mounted,
        what_a_command_writes_belongs_to_root_on_disk,
        only_three_descriptors_reach_a_command,
        no_signal_is_blocked_or_ignored_and_the_mask_of_new_files_is_the_usual_one,
        a_command_leads_a_session_of_its_own,
        the_usual_places_are_there,
        unusable_variables_are_refused_and_named;
    exit:
        every_exit_code_is_told,
        death_by_signal_is_told,
        signals_reach_the_group_of_a_command,
        a_command_that_has_ended_takes_no_signal,
        what_is_not_there_is_not_found,
        what_is_no_program_is_not_executable,
        arguments_that_are_too_long_are_refused_and_harm_nothing,
        a_program_is_searched_inside_the_session_and_a_script_needs_no_interpreter_line,
        a_command_that_did_not_start_leaves_nothing;
    freeze:
        a_frozen_box_makes_no_progress_and_goes_on_after,
        freezing_and_thawing_twice_is_fine,
        a_command_started_in_a_frozen_box_runs_once_it_is_thawed,
        a_frozen_box_can_be_stopped,
        stopping_a_frozen_box_lets_go_of_those_who_wait_for_a_start,
        a_command_in_a_frozen_box_can_be_killed,
        a_box_after_a_frozen_one_is_not_frozen;
    lifetime:
        a_timeout_ends_the_command_with_its_daemons_and_keeps_its_output,
        a_command_that_is_in_time_is_not_timed_out,
        a_timeout_of_one_call_spares_the_background_jobs_of_another,
        dropping_a_command_ends_all_of_it,
        killing_a_command_ends_all_of_it_and_its_end_is_told,
        killing_a_command_that_has_ended_harms_no_other,
        background_jobs_survive_their_command_and_die_with_the_sandbox,
        a_background_job_may_write_more_than_a_pipe_holds,
        a_command_that_ends_with_its_output_tells_what_it_left_running_wrote,
        files_and_tmp_survive_between_calls,
        stopping_ends_everything_and_refuses_new_commands,
        a_sandbox_that_is_dropped_is_stopped,
        a_session_can_have_a_new_sandbox_after_its_old_one,
        a_new_host_ends_what_an_earlier_one_of_its_name_left_running;
    limits:
        a_fork_bomb_is_held_inside_its_box,
        a_memory_hog_is_killed_told_and_nobody_else_suffers,
        a_limit_of_a_call_is_its_own,
        forks_the_limit_of_a_call_refused_are_counted,
        a_cpu_burner_gets_its_share_and_no_more,
        a_call_may_have_less_cpu_than_its_session,
        a_descriptor_leak_ends_at_its_own_limit,
        the_figures_of_a_box_are_its_own,
        a_limit_holds_where_a_box_without_one_was_before,
        a_box_inherits_nothing_of_the_one_before_it;
    streams:
        the_streams_of_a_command_come_separately_and_the_exit_comes_last,
        both_streams_flow_at_once,
        every_byte_passes_unchanged_both_ways,
        stdin_is_read_to_its_end,
        a_large_stdin_arrives_whole,
        a_command_without_stdin_reads_end_of_file_at_once,
        a_command_that_does_not_read_its_stdin_ends_all_the_same,
        a_hundred_megabytes_pass_in_bounded_memory,
        output_beyond_the_limit_is_dropped_and_told,
        a_flood_beyond_the_limit_neither_blocks_the_command_nor_hides_its_end,
        a_slow_reader_slows_the_command_down_and_loses_nothing;
    terminal:
        all_three_streams_are_a_terminal_of_the_size_asked_for,
        a_new_size_is_told_to_the_command,
        a_new_size_is_there_before_what_is_typed_next,
        a_command_without_a_terminal_has_no_size,
        control_c_interrupts_what_runs_in_the_foreground,
        a_shell_can_be_talked_to,
        nothing_of_what_was_shown_is_lost_at_the_end,
        a_terminal_nobody_looks_at_waits_and_loses_nothing,
        a_command_that_floods_its_terminal_holds_nobody_up,
        without_stdin_a_terminal_is_at_its_end_at_once,
        dropping_a_command_ends_everything_on_its_terminal,
        a_daemon_on_the_terminal_does_not_hold_up_the_end;
    users:
        a_command_is_who_it_runs_as_and_so_is_what_it_makes,
        a_user_has_no_rights_beyond_its_own,
        signals_and_the_end_reach_commands_of_every_user,
        streams_and_terminals_belong_to_the_user,
        a_directory_its_user_may_not_enter_is_refused,
        a_user_nobody_has_looked_up_is_never_root;
}

/// Makes a test of each function for each runtime with a network of its own to give.
macro_rules! on_every_gated_runtime {
    ($($name:ident),* $(,)?) => {
        mod gvisor_gates {
            $(#[test]
            fn $name() {
                crate::gates::$name(sandbar_core::RuntimeKind::Gvisor);
            })*
        }
        mod native_gates {
            $(#[test]
            fn $name() {
                crate::gates::$name(sandbar_core::RuntimeKind::Native);
            })*
        }
    };
}

on_every_gated_runtime! {
    connections_to_anywhere_arrive_at_the_gate,
    datagrams_and_questions_for_names_arrive_at_the_gate,
    names_are_asked_for_over_connections_to_the_loopback_too,
    a_closed_box_reaches_nothing,
    the_loopback_of_a_gated_box_is_its_own_and_is_dialed,
    two_boxes_have_two_gates,
    who_has_lost_his_gate_is_told_at_once_and_it_can_be_opened_again,
    udp_ports_change_while_the_gate_stays_open,
    a_box_cannot_change_its_network,
    nothing_of_a_network_is_left_when_its_box_was_stopped,
    certificates_are_shown_beside_the_tree_and_in_the_place_of_its_own,
    a_tree_cannot_choose_where_certificates_are_shown,
}
