//! A box cannot reach listeners on the host.

use crate::case::held;

attempts! {
    abstract_socket_of_the_host_does_not_answer: held("socket-abstract"),
    control_socket_of_a_runtime_does_not_answer: held("socket-control"),
    no_listed_control_socket_answers: held("socket-control-listed"),
    socket_of_the_host_is_not_found_by_path: held("socket-path"),
    no_descriptor_arrives_from_the_host: held("socket-take-descriptor"),
    datagram_does_not_reach_the_host: held("socket-datagram"),
    loopback_of_the_host_does_not_answer: held("socket-loopback"),
    socket_of_the_host_is_not_listed: held("socket-listed"),
    port_of_the_host_is_not_listed: held("socket-port-listed"),
    socket_of_the_host_is_not_listed_by_netlink: held("socket-listed-by-netlink"),
}
