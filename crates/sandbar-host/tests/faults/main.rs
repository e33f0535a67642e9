//! A host on a storage and a runtime that fail, hang or return wrong results: every operation is
//! complete or undone, nothing is lost, and other sessions are unaffected.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod crowds;
mod faulty_runtime;
mod faulty_storage;
mod fixture;
mod operation;
mod pressure;
mod start;
mod stuck;
mod sweep;
mod switchboard;
mod undo;

macro_rules! swept {
    ($($name:ident $operation:ident,)*) => {
        /// Every call, on the fastest pair.
        mod every_call {
            $(
                #[test]
                fn $name() {
                    let (backend, runtime) = (sandbar_testing::Backend::LocalDiskExt4, sandbar_core::RuntimeKind::None);
                    crate::sweep::sweep(backend, runtime, crate::operation::Operation::$operation, |_| true);
                }
            )*
        }
        /// The calls to a runtime with real boxes.
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
    create_survives_any_fault Create,
    fork_survives_any_fault Fork,
    fork_of_a_snapshot_survives_any_fault ForkOfSnapshot,
    snapshot_survives_any_fault Snapshot,
    turn_survives_any_fault Turn,
    delete_snapshot_survives_any_fault DeleteSnapshot,
    rollback_survives_any_fault RollbackDrop,
    rollback_with_keep_later_survives_any_fault RollbackKeep,
    diff_survives_any_fault Diff,
    first_exec_survives_any_fault FirstExec,
    exec_survives_any_fault Exec,
    tool_call_survives_any_fault Tool,
    write_file_survives_any_fault WriteFile,
    pause_survives_any_fault Pause,
    pause_without_memory_survives_any_fault PauseKeepingFiles,
    resume_survives_any_fault Resume,
    save_base_survives_any_fault SaveBase,
    create_from_a_saved_base_survives_any_fault CreateFromSaved,
    delete_saved_base_survives_any_fault DeleteSaved,
    set_network_survives_any_fault SetNetwork,
    destroy_survives_any_fault Destroy,
}
