//! What the host makes of a storage and a runtime that fail, hang or lie: every operation is done or undone, nothing is
//! lost, nobody else notices.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod crowds;
mod faulty_runtime;
mod faulty_storage;
mod fixture;
mod operation;
mod pressure;
mod start;
mod sweep;
mod switchboard;
mod undo;

macro_rules! swept {
    ($($name:ident $operation:ident,)*) => {
        /// Everything that is called, on what is quickest.
        mod every_call {
            $(
                #[test]
                fn $name() {
                    let (backend, runtime) = (sandbar_testing::Backend::LocalDiskExt4, sandbar_core::RuntimeKind::None);
                    crate::sweep::sweep(backend, runtime, crate::operation::Operation::$operation, |_| true);
                }
            )*
        }
        /// What is called of a runtime with real boxes.
        mod every_call_of_a_boxing_runtime {
            $(
                #[test]
                fn $name() {
                    let (backend, runtime) = (sandbar_testing::Backend::BtrfsImage, sandbar_core::RuntimeKind::Native);
                    let concerns = |call: &str| call.starts_with("runtime ") || call.starts_with("sandbox ");
                    crate::sweep::sweep(backend, runtime, crate::operation::Operation::$operation, concerns);
                }
            )*
        }
    };
}

swept! {
    may_go_wrong_in_create Create,
    may_go_wrong_in_fork Fork,
    may_go_wrong_in_fork_of_a_snapshot ForkOfSnapshot,
    may_go_wrong_in_snapshot Snapshot,
    may_go_wrong_in_turn Turn,
    may_go_wrong_in_delete_snapshot DeleteSnapshot,
    may_go_wrong_in_rollback RollbackDrop,
    may_go_wrong_in_rollback_that_keeps RollbackKeep,
    may_go_wrong_in_diff Diff,
    may_go_wrong_in_the_first_command FirstExec,
    may_go_wrong_in_a_command Exec,
    may_go_wrong_in_a_tool_call Tool,
    may_go_wrong_in_a_file_that_is_written WriteFile,
    may_go_wrong_in_pause Pause,
    may_go_wrong_in_a_pause_that_keeps_files PauseKeepingFiles,
    may_go_wrong_in_resume Resume,
    may_go_wrong_in_a_base_that_is_saved SaveBase,
    may_go_wrong_in_create_from_a_saved_base CreateFromSaved,
    may_go_wrong_in_the_end_of_a_saved_base DeleteSaved,
    may_go_wrong_in_a_change_of_the_network SetNetwork,
    may_go_wrong_in_destroy Destroy,
}
