//! Objects without a path are not shared with the host.

use crate::case::held;

attempts! {
    a_memory_segment_of_the_host_is_not_attached: held("ipc-shared-memory"),
    a_memory_segment_of_the_host_is_not_listed: held("ipc-shared-memory-list"),
    a_message_queue_of_the_host_does_not_open: held("ipc-message-queue"),
    a_shared_memory_file_of_the_host_is_not_there: held("ipc-shared-file"),
}
