//! A box administers no network and makes no sockets that would.

use sandbar_runtime::BoxNetwork;

use crate::{
    case::{Case, Subject, held},
    world::World,
};

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

/// Makes them in one box, whose network is open.
fn check_behind_a_gate<'a>(subject: Subject, cases: impl IntoIterator<Item = &'a Case>) {
    let mut world = World::open_with(subject, BoxNetwork::Gated);
    let gate = world.open_gate();
    for case in cases {
        case.check_in(&mut world, subject);
    }
    drop(gate);
}

#[test]
fn an_open_gate_changes_none_of_it_in_a_native_box() {
    check_behind_a_gate(Subject::Native, CASES);
}

#[test]
fn an_open_gate_changes_none_of_it_where_root_has_rights() {
    check_behind_a_gate(Subject::NativeOwnRoot, CASES);
}

#[test]
fn an_open_gate_changes_none_of_it_in_a_gvisor_box_but_for_the_interface_to_it() {
    check_behind_a_gate(Subject::Gvisor, CASES.iter().filter(|case| case.attempt != "network-interfaces"));
}
