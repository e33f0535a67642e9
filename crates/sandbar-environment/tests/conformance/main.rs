//! The contract of [`sandbar_environment::ExecutionEnvironment`], case by case, on every implementation.
//!
//! A case is a function over a world with one environment in it. The macro below makes one test of each case for each
//! implementation, so a new implementation is one line and a new case is one line. What only one implementation has is
//! tested in the module of its name.

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
            what_is_there_works_and_what_is_not_is_refused_and_does_nothing,
            what_is_there_may_be_required_and_what_is_not_makes_no_session;
        lifecycle:
            an_environment_is_made_attached_to_and_destroyed,
            an_unknown_session_is_not_found,
            a_session_id_is_taken_once_and_free_after_destroy,
            after_destroy_everything_is_not_active_and_destroy_succeeds_again,
            a_paused_environment_runs_no_tools_until_it_is_resumed,
            what_is_paused_makes_no_progress_and_goes_on_later,
            a_paused_environment_can_be_destroyed;
        concurrency:
            tools_overlap_with_tools,
            tools_overlap_with_pause,
            pause_and_resume_come_one_after_the_other,
            tools_under_way_end_with_their_environment,
            many_callers_may_destroy_at_once;
        cancellation:
            a_dropped_tool_call_ends_what_it_started,
            a_dropped_search_ends_and_the_environment_goes_on,
            a_dropped_write_leaves_nothing;
        tools:
            progress_comes_while_the_tool_works,
            a_repeated_call_is_done_once,
            a_call_that_was_cancelled_is_done_again,
            a_call_that_cannot_be_made_names_the_parameter,
            a_tool_that_fails_is_an_answer,
            a_command_whose_time_is_up_is_stopped,
            commands_have_the_environment_that_was_asked_for;
        every_tool:
            every_tool_answers_in_the_same_shape;
        files:
            a_large_file_goes_in_and_out_as_a_stream,
            entries_are_listed_by_path_and_depth,
            a_write_that_fails_changes_nothing,
            files_and_tools_see_the_same_paths,
            a_file_that_is_not_there_is_said_to_be_missing;
        snapshots:
            rollback_brings_the_files_back_and_drops_later_snapshots,
            every_turn_gets_a_snapshot_of_its_own,
            an_unknown_snapshot_is_refused_and_changes_nothing,
            a_fork_shares_the_past_and_not_the_future;
    }
}
