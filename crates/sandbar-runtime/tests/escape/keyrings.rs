//! Keyrings are neither shared with the host nor usable.

use crate::case::held;

attempts! {
    no_key_is_added: held("key-add"),
    key_of_the_host_is_not_read: held("key-read"),
    key_of_the_host_is_not_found_by_name: held("key-request"),
    no_keyring_holds_a_key_of_the_host: held("key-search"),
    no_session_keyring_is_created: held("key-session"),
    key_of_the_host_is_not_listed: held("key-list"),
}
