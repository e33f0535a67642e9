//! Keys are neither shared nor kept.

use crate::case::held;

attempts! {
    no_key_is_added: held("key-add"),
    a_key_of_the_host_is_not_read: held("key-read"),
    a_key_of_the_host_is_not_found_by_name: held("key-request"),
    no_keyring_holds_a_key_of_the_host: held("key-search"),
    no_session_keyring_is_made: held("key-session"),
    a_key_of_the_host_is_not_listed: held("key-list"),
}
