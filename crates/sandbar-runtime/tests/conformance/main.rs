//! What every runtime keeps, checked on every runtime.

mod commands;
mod ended;
mod world;

/// Makes a test of each function for each runtime.
macro_rules! on_every_runtime {
    ($($module:ident: $($name:ident),* $(,)?;)*) => {
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
    commands:
        the_streams_of_a_command_come_separately_and_the_exit_comes_last,
        stdin_is_read_to_its_end,
        a_command_without_stdin_reads_end_of_file_at_once,
        death_by_signal_is_told_and_signals_reach_the_group,
        the_environment_is_exactly_the_defaults_and_what_was_given,
        a_command_starts_in_the_workspace_or_where_it_is_told,
        the_session_s_tree_is_the_root_and_the_rest_of_the_host_is_not_mounted,
        only_three_descriptors_reach_a_command,
        an_unknown_command_is_not_found_and_a_plain_file_is_not_executable,
        a_program_is_searched_inside_the_session_and_a_script_needs_no_interpreter_line,
        a_timeout_ends_the_command_with_its_daemons_and_keeps_its_output,
        background_jobs_survive_their_command_and_die_with_the_sandbox,
        a_timeout_of_one_call_spares_the_background_jobs_of_another,
        output_beyond_the_limit_is_dropped_and_told,
        a_slow_reader_slows_the_command_down_and_loses_nothing,
        dropping_a_command_ends_all_of_it,
        stopping_ends_running_commands_and_refuses_new_ones,
        the_number_of_open_files_is_limited_when_asked,
        what_cannot_be_kept_is_refused_and_named,
        a_new_host_ends_what_an_earlier_one_of_its_name_left_running;
}
