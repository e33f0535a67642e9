//! The contract of [`sandbar_environment::ExecutionEnvironment`], case by case, on every
//! implementation.
//!
//! A case is a function over a world with one environment. The macro below generates a test of each
//! case for each implementation. Features of a single implementation are tested in its own module.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod cancellation;
mod capabilities;
mod concurrency;
mod every_tool;
mod files;
mod lifecycle;
mod local;
mod native;
mod ordinary_user;
mod snapshots;
mod tools;
mod world;

macro_rules! conformance {
    ($($module:ident: $($case:ident),* $(,)?;)*) => {
        conformance!(@on local_boxed, LocalBoxed, $($module: $($case),*;)*);
        conformance!(@on local_unboxed, LocalUnboxed, $($module: $($case),*;)*);
        conformance!(@on native, Native, $($module: $($case),*;)*);
    };
    (@on $name:ident, $variant:ident, $($module:ident: $($case:ident),*;)*) => {
        mod $name {
            $($(
                #[test]
                fn $case() {
                    crate::world::World::run(crate::world::Implementation::$variant, crate::$module::$case);
                }
            )*)*
        }
    };
}

mod on {
    conformance! {
        capabilities:
            supported_features_work_and_missing_ones_are_refused,
            required_features_that_are_missing_prevent_creation;
        lifecycle:
            environment_is_created_attached_and_destroyed,
            an_unknown_session_is_not_found,
            a_session_id_is_taken_once_and_free_after_destroy,
            after_destroy_calls_are_refused_and_destroy_succeeds,
            a_paused_environment_runs_no_tools_until_it_is_resumed,
            paused_command_makes_no_progress_until_resumed,
            a_paused_environment_can_be_destroyed;
        concurrency:
            tools_overlap_with_tools,
            tools_overlap_with_pause,
            pause_and_resume_are_serialised,
            running_tools_end_with_their_environment,
            concurrent_destroys_succeed;
        cancellation:
            dropped_tool_call_ends_its_processes,
            dropped_search_ends_and_the_environment_works,
            dropped_write_leaves_no_file;
        tools:
            progress_arrives_while_the_tool_runs,
            a_repeated_call_is_done_once,
            a_call_that_was_cancelled_is_done_again,
            invalid_call_names_the_parameter,
            failed_tool_is_a_result,
            command_is_stopped_at_its_timeout,
            commands_have_the_requested_environment;
        every_tool:
            every_tool_returns_the_same_form;
        files:
            large_file_is_written_and_read_as_a_stream,
            entries_are_listed_by_path_and_depth,
            failed_write_changes_nothing,
            files_and_tools_see_the_same_paths,
            missing_file_is_reported_as_not_found;
        snapshots:
            rollback_brings_the_files_back_and_drops_later_snapshots,
            every_turn_gets_a_snapshot_of_its_own,
            an_unknown_snapshot_is_refused_and_changes_nothing,
            fork_is_independent_of_its_source;
    }
}
