//! Processes of the host, and process 1, are out of reach. With gVisor process 1 is on the inside
//! like everything else: what it shows is not the host's.

use crate::case::{contained, held};

attempts! {
    host_process_is_not_visible: held("host-pid-visible"),
    host_process_is_not_signalled: held("host-pid-signal"),
    host_thread_is_not_signalled: held("host-pid-signal-thread"),
    host_process_gives_no_handle: held("host-pid-handle"),
    host_process_is_not_traced: held("host-pid-trace"),
    memory_of_a_host_process_is_not_read: held("host-pid-read-memory"),
    limits_of_a_host_process_are_not_read: held("host-pid-limits"),
    priority_of_a_host_process_is_not_read: held("host-pid-priority"),
    no_visible_process_has_the_environment_of_the_host: held("host-pid-environment"),
    process_1_has_nothing_of_the_environment_of_the_host: held("process-1-environment"),
    process_1_is_not_traced: held("process-1-trace"),
    memory_of_process_1_is_not_read: held("process-1-read-memory"),
    memory_of_process_1_is_not_written: held("process-1-write-memory"),
    memory_file_of_process_1_does_not_open: held("process-1-memory-file"),
    memory_map_of_process_1_is_hidden: contained("process-1-maps", "read /proc/1/maps"),
    auxiliary_vector_of_process_1_is_hidden: contained("process-1-vectors", "read /proc/1/auxv"),
    descriptors_of_process_1_are_hidden: contained("process-1-descriptors", "/proc/1/fd/"),
    no_descriptor_is_taken_from_process_1: held("process-1-take-descriptor"),
    program_of_process_1_is_not_overwritten: held("process-1-overwrite-program"),
    no_program_of_another_process_is_overwritten: held("every-process-overwrite-program"),
    process_1_is_not_compared: held("process-1-compare"),
    pages_of_process_1_are_not_moved: held("process-1-move-pages"),
    pages_of_process_1_are_not_migrated: held("process-1-migrate-pages"),
    process_1_cannot_be_advised: held("process-1-advise"),
    robust_list_of_process_1_is_hidden: contained("process-1-robust-list", "address of the robust list"),
}
