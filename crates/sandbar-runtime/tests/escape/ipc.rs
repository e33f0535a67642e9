//! IPC objects are not shared with the host.

use crate::case::held;

attempts! {
    memory_segment_of_the_host_is_not_attached: held("ipc-shared-memory"),
    memory_segment_of_the_host_is_not_listed: held("ipc-shared-memory-list"),
    message_queue_of_the_host_does_not_open: held("ipc-message-queue"),
    shared_memory_file_of_the_host_is_not_there: held("ipc-shared-file"),
}
