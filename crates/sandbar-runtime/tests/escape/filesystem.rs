//! A box cannot change the base below it.

use crate::case::held;

attempts! {
    write_does_not_reach_the_base: held("base-write"),
    emptying_a_file_does_not_reach_the_base: held("base-truncate"),
    appending_does_not_reach_the_base: held("base-append"),
    write_through_a_hard_link_does_not_reach_the_base: held("base-hard-link"),
    rename_over_a_file_does_not_reach_the_base: held("base-replace"),
    deletion_does_not_reach_the_base: held("base-delete"),
    write_through_shared_memory_does_not_reach_the_base: held("base-map"),
    descriptor_opened_again_does_not_reach_the_base: held("base-reopen"),
    change_of_mode_and_times_does_not_reach_the_base: held("base-metadata"),
    attribute_does_not_reach_the_base: held("base-attribute"),
    private_mapping_is_not_written_through: held("base-private-memory"),
    pipe_does_not_write_the_page_cache: held("base-dirty-pipe"),
    box_cannot_make_a_file_immutable: held("file-immutable"),
    box_cannot_lease_a_file: held("file-lease"),
    box_does_not_decide_over_file_accesses: held("watch-mounts"),
}
