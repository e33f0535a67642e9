//! Sessions with an open network, in a small internet: what they reach, and that they reach nothing else.

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

/// Every case on every runtime that gives a session a network of its own. The storage has no part in it.
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
        the_environment_names_the_proxy,
        curl_reaches_what_is_allowed_and_nothing_else,
        large_bodies_come_and_go_whole,
        git_clones_what_is_allowed_and_nothing_else,
        pip_installs_from_what_is_allowed_and_nothing_else,
        python_reaches_what_is_allowed_and_nothing_else,
        node_reaches_what_is_allowed_and_nothing_else,
        programs_trust_the_host_where_it_looks_into_tls,
        a_connection_may_become_something_else;
    policies:
        full_opens_what_is_public,
        what_is_denied_is_denied_whatever_is_open,
        a_star_opens_what_is_below_a_name,
        ports_are_opened_one_by_one_and_in_ranges,
        ranges_open_addresses_without_a_name,
        a_private_network_is_open_when_it_is_named,
        names_lead_to_a_private_network_when_that_is_said,
        a_server_that_speaks_first_is_heard,
        udp_is_open_where_it_is_named,
        ipv6_is_as_good_as_ipv4,
        a_change_counts_at_once_and_open_connections_go_on,
        a_closed_session_is_opened_while_it_runs,
        many_connections_are_open_at_once,
        connections_at_once_are_limited,
        new_connections_are_limited,
        bytes_per_second_are_limited,
        what_went_through_is_counted,
        every_decision_is_written_down_and_counted,
        a_policy_lives_as_long_as_its_session;
    bypass_addresses:
        an_address_alone_opens_nothing,
        an_address_of_ipv6_opens_nothing,
        a_server_that_speaks_first_is_not_heard,
        words_in_the_first_packet_go_nowhere,
        an_ipv4_address_in_an_ipv6_one_is_what_it_is,
        addresses_of_translators_and_tunnels_are_seen_through,
        the_metadata_service_is_not_public,
        private_networks_are_not_public,
        the_loopback_of_the_host_is_not_the_sessions,
        the_host_is_not_public_at_its_public_address,
        the_gateway_serves_nothing_but_names_and_the_proxy,
        udp_is_closed_also_to_hosts_that_are_open,
        an_open_port_of_udp_is_open_at_its_address_only,
        broadcasts_and_multicasts_reach_nobody,
        echo_requests_go_nowhere,
        packets_with_a_header_of_their_own_go_nowhere,
        frames_cannot_be_made,
        other_protocols_go_nowhere,
        an_address_of_somebody_else_helps_nobody,
        marks_and_interfaces_help_nobody;
    bypass_tls:
        another_name_at_an_allowed_address,
        an_allowed_name_at_another_address_leads_to_its_own,
        a_greeting_without_a_name,
        a_greeting_in_many_segments,
        a_greeting_in_many_records,
        a_greeting_with_an_encrypted_name,
        a_greeting_with_two_names,
        a_greeting_with_a_name_that_is_none,
        another_name_written_in_another_way,
        a_greeting_that_never_ends,
        a_greeting_after_a_silence,
        something_else_of_tls_before_the_greeting,
        another_host_inside_an_inspected_connection,
        another_authority_inside_inspected_http2;
    bypass_http:
        another_host_at_an_allowed_address,
        an_allowed_host_at_another_address_leads_to_its_own,
        a_second_request_for_another_host,
        a_request_that_names_two_hosts,
        a_request_hidden_in_another,
        a_request_that_does_not_look_like_one,
        a_request_after_a_silence,
        http2_without_tls,
        a_connection_that_goes_on_as_http_of_another_kind,
        a_tunnel_through_a_server,
        a_redirect_to_another_host,
        a_redirect_to_something_private;
    bypass_names:
        another_server_is_not_asked,
        another_server_is_not_asked_by_tcp,
        another_server_is_not_asked_by_tls_or_https,
        questions_carry_nothing_out,
        a_name_that_turns_private,
        a_name_that_is_public_for_the_first_who_asks,
        a_name_of_something_private,
        an_alias_of_something_private,
        a_name_of_something_private_and_something_public,
        what_dns_said_about_one_address_opens_no_other,
        a_denied_host_without_its_name;
    bypass_proxy:
        a_tunnel_to_another_port,
        a_tunnel_to_another_host,
        a_tunnel_to_an_address,
        a_tunnel_to_the_loopback_of_the_host,
        another_name_inside_a_tunnel,
        a_request_for_another_host,
        a_tunnel_by_way_of_another_address;
    bypass_inside:
        routes_and_addresses_cannot_be_changed,
        the_packet_filter_cannot_be_changed,
        other_namespaces_lead_nowhere,
        the_kernels_settings_cannot_be_changed,
        the_places_of_the_gate_cannot_be_taken,
        a_sibling_cannot_be_reached,
        a_closed_session_reaches_nothing,
        a_session_that_is_closed_again_reaches_nothing;
    secrets:
        programs_use_a_secret_they_do_not_have,
        a_secret_is_nowhere_in_the_session,
        what_the_session_sends_under_that_name_is_replaced,
        other_hosts_do_not_get_it,
        a_redirect_to_another_host_loses_it,
        plain_http_does_not_carry_it,
        a_server_that_cannot_prove_its_name_does_not_get_it,
        a_changed_secret_counts_for_the_next_request,
        a_server_that_sends_it_back_in_headers_does_not_give_it_away,
        a_rule_may_come_later;
}
