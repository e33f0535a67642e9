//! The box's root has no privileges and gains none. With gVisor the sentry is the filter. A root
//! with rights of its own has those over files and users of its box, and no others.

use crate::case::{contained, held};

attempts! {
    box_has_no_capabilities: held("capabilities").but_for_own_root("permitted set is 0xfb"),
    bounding_set_is_empty: held("capabilities-bounding").but_for_own_root("0xfb").but_for_own_user("0xfb"),
    capabilities_are_limited_to_files_and_users: held("capabilities-beyond"),
    set_user_id_program_is_limited_to_files_and_users: held("set-user-id-beyond"),
    own_set_user_id_program_is_limited_to_files_and_users: held("set-user-id-own"),
    programs_gain_no_privileges: held("no-new-privileges").but_for_own_root("no_new_privs is not set").but_for_own_user("no_new_privs is not set"),
    system_calls_are_filtered: contained("seccomp-filter", "seccomp mode 0"),
    box_cannot_raise_a_capability: held("capabilities-raise"),
    box_cannot_make_a_capability_ambient: held("capabilities-ambient"),
    secure_bits_stay: held("secure-bits"),
    box_cannot_become_another_user: held("user-change").but_for_own_root("changed its uid"),
    box_cannot_drop_its_groups: held("groups-change").but_for_own_root("dropped its groups"),
    box_cannot_give_a_file_away: held("owner-change").but_for_own_root("changed the owner"),
    box_cannot_become_a_user_of_the_host: held("user-beyond"),
    box_cannot_give_a_file_to_a_user_of_the_host: held("owner-beyond"),
    set_user_id_bit_has_no_effect: held("set-user-id").but_for_own_root("started program has uids 0 1234").but_for_own_user("started program has uids 1000 1234"),
    set_user_id_program_of_root_gains_nothing: held("set-user-id-root").but_for_own_user("started program has uids 1000 0 0 0 and gids 1000"),
    file_gets_no_capabilities: held("file-capabilities"),
    file_gets_no_namespaced_capabilities: held("file-capabilities-namespaced"),
    program_in_memory_gains_nothing: held("program-in-memory"),
    trusted_attributes_are_refused: held("attribute-trusted"),
    directory_is_not_made_opaque: held("attribute-overlay-opaque"),
    directory_is_not_redirected: held("attribute-overlay-redirect"),
    file_does_not_take_its_content_from_another_layer: held("attribute-overlay-metacopy"),
    security_attributes_are_refused: held("attribute-security"),
}
