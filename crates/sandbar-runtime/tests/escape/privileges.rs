//! The box's root has no privileges and gains none. With gVisor the sentry is the filter.

use crate::case::{contained, held};

attempts! {
    it_has_no_capabilities: held("capabilities"),
    its_bounding_set_is_empty: held("capabilities-bounding"),
    programs_give_it_nothing_new: held("no-new-privileges"),
    its_system_calls_are_filtered: contained("seccomp-filter", "mode 0"),
    it_cannot_raise_a_capability: held("capabilities-raise"),
    it_cannot_make_a_capability_ambient: held("capabilities-ambient"),
    its_secure_bits_stay: held("secure-bits"),
    it_cannot_become_another_user: held("user-change"),
    it_cannot_give_up_its_groups: held("groups-change"),
    it_cannot_give_a_file_away: held("owner-change"),
    the_set_user_id_bit_means_nothing: held("set-user-id"),
    a_set_user_id_program_of_root_gains_nothing: held("set-user-id-root"),
    a_file_gets_no_capabilities: held("file-capabilities"),
    a_file_gets_no_namespaced_capabilities: held("file-capabilities-namespaced"),
    a_program_in_memory_gains_nothing: held("program-in-memory"),
    trusted_attributes_are_refused: held("attribute-trusted"),
    a_directory_is_not_made_opaque: held("attribute-overlay-opaque"),
    a_directory_is_not_redirected: held("attribute-overlay-redirect"),
    a_file_does_not_take_its_content_from_another_layer: held("attribute-overlay-metacopy"),
    security_attributes_are_refused: held("attribute-security"),
}
