//! The box's root has no privileges and gains none. With gVisor the sentry is the filter. A root with rights of its own has
//! those over files and users of its box, and no others.

use crate::case::{contained, held};

attempts! {
    it_has_no_capabilities: held("capabilities").but_for_own_root("permitted 0xfb"),
    its_bounding_set_is_empty: held("capabilities-bounding").but_for_own_root("0xfb").but_for_own_user("0xfb"),
    nothing_it_may_goes_beyond_files_and_users: held("capabilities-beyond"),
    nothing_a_program_may_goes_beyond_files_and_users: held("set-user-id-beyond"),
    nothing_a_program_of_its_own_may_goes_beyond_files_and_users: held("set-user-id-own"),
    programs_give_it_nothing_new: held("no-new-privileges").but_for_own_root("they may").but_for_own_user("they may"),
    its_system_calls_are_filtered: contained("seccomp-filter", "mode 0"),
    it_cannot_raise_a_capability: held("capabilities-raise"),
    it_cannot_make_a_capability_ambient: held("capabilities-ambient"),
    its_secure_bits_stay: held("secure-bits"),
    it_cannot_become_another_user: held("user-change").but_for_own_root("became another user"),
    it_cannot_give_up_its_groups: held("groups-change").but_for_own_root("gave them up"),
    it_cannot_give_a_file_away: held("owner-change").but_for_own_root("gave it away"),
    it_cannot_become_a_user_of_the_host: held("user-beyond"),
    it_cannot_give_a_file_to_a_user_of_the_host: held("owner-beyond"),
    the_set_user_id_bit_means_nothing: held("set-user-id").but_for_own_root("it runs as 0 1234").but_for_own_user("it runs as 1000 1234"),
    a_set_user_id_program_of_root_gains_nothing: held("set-user-id-root").but_for_own_user("it runs as 1000 0 0 0 1000"),
    a_file_gets_no_capabilities: held("file-capabilities"),
    a_file_gets_no_namespaced_capabilities: held("file-capabilities-namespaced"),
    a_program_in_memory_gains_nothing: held("program-in-memory"),
    trusted_attributes_are_refused: held("attribute-trusted"),
    a_directory_is_not_made_opaque: held("attribute-overlay-opaque"),
    a_directory_is_not_redirected: held("attribute-overlay-redirect"),
    a_file_does_not_take_its_content_from_another_layer: held("attribute-overlay-metacopy"),
    security_attributes_are_refused: held("attribute-security"),
}
