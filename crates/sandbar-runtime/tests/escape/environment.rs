//! A command starts with nothing of the host's.

use crate::case::held;

attempts! {
    the_environment_holds_no_secret_of_the_host: held("environment-secret"),
    the_environment_holds_no_variable_of_the_host: held("environment-variables"),
    only_the_standard_streams_are_open: held("descriptors-inherited"),
    no_descriptor_is_a_socket: held("descriptors-sockets"),
    no_descriptor_is_a_directory: held("descriptors-directories"),
    no_descriptor_is_a_file_it_could_write: held("descriptors-files"),
    its_process_session_began_in_the_box: held("session-of-the-host"),
    it_starts_below_its_root: held("working-directory-outside"),
}
