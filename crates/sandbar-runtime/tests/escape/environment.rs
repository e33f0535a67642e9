//! A command inherits nothing from the host.

use crate::case::held;

attempts! {
    environment_holds_no_secret_of_the_host: held("environment-secret"),
    environment_holds_no_variable_of_the_host: held("environment-variables"),
    only_the_standard_streams_are_open: held("descriptors-inherited"),
    no_descriptor_is_a_socket: held("descriptors-sockets"),
    no_descriptor_is_a_directory: held("descriptors-directories"),
    no_descriptor_is_a_file_it_could_write: held("descriptors-files"),
    process_session_began_in_the_box: held("session-of-the-host"),
    working_directory_is_below_the_root: held("working-directory-outside"),
}
