//! A box administers no network and makes no sockets that would.

use crate::case::held;

attempts! {
    it_gets_no_raw_socket: held("network-raw"),
    it_gets_no_raw_socket_for_ipv6: held("network-raw-6"),
    it_gets_no_packet_socket: held("network-packet"),
    it_gets_no_socket_to_the_hypervisor: held("network-vsock"),
    it_gets_no_socket_to_the_cryptography_of_the_kernel: held("network-crypto"),
    it_gets_no_socket_of_a_rare_family: held("network-rare-families"),
    interfaces_are_not_removed: held("network-routes"),
    interface_flags_stay: held("network-interface-call"),
    the_packet_filter_does_not_answer: held("network-filter"),
    there_is_no_interface_but_loopback: held("network-interfaces"),
}
