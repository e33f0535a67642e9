//! Sessions with an open network, in a small internet: what they reach, and that they reach nothing
//! else.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod bypass_addresses;
mod bypass_http;
mod bypass_inside;
mod bypass_names;
mod bypass_proxy;
mod bypass_tls;
#[path = "../host/fixture.rs"]
#[expect(dead_code, reason = "the tests of a host do more with it")]
mod fixture;
mod guest;
#[path = "../host/host_config.rs"]
mod host_config;
mod policies;
mod programs;
mod search;
mod secrets;
mod unguarded;
mod world;

/// Every case on every runtime that gives a session a network of its own. The storage has no part
/// in it.
macro_rules! on_every_runtime {
    ($($module:ident: $($case:ident),* $(,)?;)*) => {
        on_every_runtime!(@on native, Native, $($module: $($case),*;)*);
        on_every_runtime!(@on gvisor, Gvisor, $($module: $($case),*;)*);
    };
    (@on $name:ident, $runtime:ident, $($module:ident: $($case:ident),*;)*) => {
        mod $name {
            $(
                mod $module {
                    $(
                        #[test]
                        fn $case() {
                            crate::world::run(sandbar_core::RuntimeKind::$runtime, crate::$module::$case);
                        }
                    )*
                }
            )*
        }
    };
}

on_every_runtime! {
    programs:
        environment_names_the_proxy,
        curl_reaches_only_allowed_hosts,
        large_bodies_are_complete_both_ways,
        git_clones_only_from_allowed_hosts,
        pip_installs_only_from_allowed_hosts,
        python_reaches_only_allowed_hosts,
        node_reaches_only_allowed_hosts,
        programs_trust_the_session_ca,
        http_upgrade_to_an_allowed_host_works;
    policies:
        full_policy_opens_public_addresses,
        deny_overrides_allow,
        wildcard_opens_subdomains,
        ports_are_opened_one_by_one_and_in_ranges,
        address_range_opens_plain_addresses,
        named_private_network_is_open,
        names_resolve_to_a_private_network_if_allowed,
        server_speaks_first_protocol_works,
        udp_is_open_on_named_ports,
        ipv6_works_like_ipv4,
        policy_change_applies_at_once_to_new_connections,
        closed_session_is_opened_while_it_runs,
        many_connections_are_open_at_once,
        concurrent_connections_are_limited,
        connection_rate_is_limited,
        bandwidth_is_limited,
        traffic_is_counted,
        every_decision_is_audited_and_counted,
        policy_lives_as_long_as_its_session;
    bypass_addresses:
        plain_address_is_refused,
        plain_ipv6_address_is_refused,
        denied_server_that_speaks_first_is_refused,
        tcp_fast_open_data_is_not_sent,
        ipv4_mapped_address_is_treated_as_ipv4,
        nat64_and_6to4_addresses_are_decoded,
        metadata_service_is_refused,
        private_networks_are_refused,
        host_loopback_is_unreachable,
        public_address_of_the_host_is_refused,
        gateway_address_serves_only_dns_and_proxy,
        udp_is_closed_to_allowed_hosts,
        udp_port_is_open_at_its_address_only,
        broadcast_and_multicast_are_dropped,
        icmp_echo_is_dropped,
        raw_ip_packets_are_refused,
        packet_sockets_are_refused,
        other_ip_protocols_are_refused,
        spoofed_source_address_is_refused,
        socket_marks_and_interfaces_are_refused;
    bypass_tls:
        denied_sni_at_an_allowed_address,
        allowed_sni_is_dialed_at_its_own_address,
        client_hello_without_sni,
        client_hello_in_many_segments,
        client_hello_in_many_records,
        client_hello_with_an_encrypted_name,
        client_hello_with_two_names,
        client_hello_with_an_invalid_name,
        denied_sni_in_another_spelling,
        client_hello_that_never_ends,
        client_hello_after_a_delay,
        other_tls_record_before_client_hello,
        denied_host_in_an_inspected_connection,
        denied_authority_in_inspected_http2;
    bypass_http:
        denied_host_header_at_an_allowed_address,
        allowed_host_is_dialed_at_its_own_address,
        second_request_for_a_denied_host,
        request_with_two_hosts,
        request_smuggled_in_another,
        malformed_request_to_a_denied_host,
        request_after_a_delay,
        http2_without_tls,
        upgrade_to_another_http_version,
        connect_through_an_allowed_server,
        redirect_to_a_denied_host,
        redirect_to_a_private_address;
    bypass_names:
        other_dns_server_is_unreachable,
        other_dns_server_is_unreachable_by_tcp,
        other_dns_server_is_unreachable_by_dot_and_doh,
        dns_queries_exfiltrate_nothing,
        dns_rebinding_to_a_private_address,
        dns_rebinding_after_the_first_query,
        name_of_a_private_address,
        alias_of_a_private_address,
        name_of_a_private_and_a_public_address,
        resolved_address_opens_no_other,
        denied_host_by_its_address;
    bypass_proxy:
        connect_to_another_port,
        connect_to_a_denied_host,
        connect_to_an_address,
        connect_to_the_host_loopback,
        denied_sni_inside_connect,
        proxy_request_for_a_denied_host,
        connect_by_way_of_another_address;
    bypass_inside:
        routes_and_addresses_cannot_be_changed,
        packet_filter_cannot_be_changed,
        other_namespaces_give_no_access,
        kernel_settings_cannot_be_changed,
        ports_of_the_netns_listeners_cannot_be_taken,
        sibling_session_cannot_be_reached,
        closed_session_reaches_nothing,
        reclosed_session_reaches_nothing;
    secrets:
        gateway_injects_a_secret_the_session_lacks,
        secret_is_nowhere_in_the_session,
        header_of_the_session_is_replaced_by_the_secret,
        other_hosts_do_not_get_the_secret,
        redirect_to_another_host_drops_the_secret,
        plain_http_does_not_carry_the_secret,
        unverified_server_does_not_get_the_secret,
        changed_secret_applies_to_the_next_request,
        secret_echoed_in_headers_is_removed,
        secret_rule_can_be_added_later;
}
