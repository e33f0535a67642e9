//! The base below a box stays as it is.

use crate::case::held;

attempts! {
    a_write_does_not_reach_the_base: held("base-write"),
    emptying_a_file_does_not_reach_the_base: held("base-truncate"),
    appending_does_not_reach_the_base: held("base-append"),
    a_write_through_a_hard_link_does_not_reach_the_base: held("base-hard-link"),
    a_rename_over_a_file_does_not_reach_the_base: held("base-replace"),
    a_deletion_does_not_reach_the_base: held("base-delete"),
    a_write_through_shared_memory_does_not_reach_the_base: held("base-map"),
    a_descriptor_opened_again_does_not_reach_the_base: held("base-reopen"),
    a_change_of_mode_and_times_does_not_reach_the_base: held("base-metadata"),
    an_attribute_does_not_reach_the_base: held("base-attribute"),
    a_private_mapping_is_not_written_through: held("base-private-memory"),
    a_pipe_does_not_write_the_page_cache: held("base-dirty-pipe"),
    it_cannot_make_a_file_immutable: held("file-immutable"),
    it_cannot_lease_a_file: held("file-lease"),
    it_does_not_decide_over_accesses_of_others: held("watch-mounts"),
}
