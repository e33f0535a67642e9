//! A box cannot administer its network, nor create sockets that could.

use sandbar_runtime::BoxNetwork;

use crate::{
    case::{Case, Subject, held},
    world::World,
};

attempts! {
    box_gets_no_raw_socket: held("network-raw"),
    box_gets_no_raw_socket_for_ipv6: held("network-raw-6"),
    box_gets_no_packet_socket: held("network-packet"),
    box_gets_no_socket_to_the_hypervisor: held("network-vsock"),
    box_gets_no_socket_to_the_cryptography_of_the_kernel: held("network-crypto"),
    box_gets_no_socket_of_a_rare_family: held("network-rare-families"),
    interfaces_are_not_removed: held("network-routes"),
    interface_flags_stay: held("network-interface-call"),
    packet_filter_does_not_answer: held("network-filter"),
    there_is_no_interface_but_loopback: held("network-interfaces"),
}

/// Makes the attempts in one box with netns listeners.
fn check_with_listeners<'a>(subject: Subject, cases: impl IntoIterator<Item = &'a Case>) {
    let mut world = World::open_with(subject, BoxNetwork::Egress);
    let gate = world.open_listeners();
    for case in cases {
        case.check_in(&mut world, subject);
    }
    drop(gate);
}

#[test]
fn native_box_with_listeners_cannot_escape() {
    check_with_listeners(Subject::Native, CASES);
}

#[test]
fn own_root_with_listeners_cannot_escape() {
    check_with_listeners(Subject::NativeOwnRoot, CASES);
}

#[test]
fn gvisor_box_with_listeners_cannot_escape() {
    check_with_listeners(
        Subject::Gvisor,
        CASES
            .iter()
            .filter(|case| case.attempt != "network-interfaces"),
    );
}
