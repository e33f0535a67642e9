use std::net::IpAddr;

use sandbar_core::{DomainName, NetworkPolicy, Transport};

use super::{Rules, Verdict};

fn rules(text: &str) -> Rules {
    Rules::new(text.parse().unwrap())
}

fn name(text: &str) -> DomainName {
    text.parse().unwrap()
}

fn address(rules: &Rules, text: &str) -> Verdict {
    rules.address(Transport::Tcp, text.parse().unwrap(), 443, &[])
}

#[test]
fn closed_policy_allows_nothing() {
    let closed = rules("none");
    assert!(
        !closed
            .name(Transport::Tcp, &name("example.com"), 443)
            .is_allowed()
    );
    assert!(!closed.lookup(&name("example.com")).is_allowed());
    assert!(!address(&closed, "203.0.113.7").is_allowed());
}

#[test]
fn open_policy_allows_public_addresses_over_tcp_only() {
    let open = rules("full");
    assert!(
        open.name(Transport::Tcp, &name("example.com"), 443)
            .is_allowed()
    );
    assert!(address(&open, "203.0.113.7").is_allowed());
    assert!(
        !open
            .address(Transport::Udp, "203.0.113.7".parse().unwrap(), 443, &[])
            .is_allowed()
    );
    for private in [
        "10.0.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "::1",
        "fd00::1",
        "fe80::1",
        "::ffff:10.0.0.1",
        "0.0.0.0",
    ] {
        assert!(!address(&open, private).is_allowed(), "{private}");
        let resolved = open.resolved(Transport::Tcp, private.parse().unwrap(), 443, &[]);
        assert!(!resolved.is_allowed(), "{private}");
    }
    let own = ["203.0.113.7".parse().unwrap()];
    assert!(!open.address(Transport::Tcp, own[0], 443, &own).is_allowed());
    assert!(
        !open
            .resolved(Transport::Tcp, own[0], 443, &own)
            .is_allowed()
    );
}

#[test]
fn deny_list_wins_over_allow_list() {
    let mut policy = NetworkPolicy::allowing(["*.example.com".parse().unwrap()]);
    policy.deny_list = vec![
        "secret.example.com".parse().unwrap(),
        "203.0.113.0/24".parse().unwrap(),
    ];
    let rules = Rules::new(policy);
    assert!(
        rules
            .name(Transport::Tcp, &name("a.example.com"), 443)
            .is_allowed()
    );
    assert!(
        !rules
            .name(Transport::Tcp, &name("secret.example.com"), 443)
            .is_allowed()
    );
    assert!(
        !rules
            .resolved(Transport::Tcp, "203.0.113.7".parse().unwrap(), 443, &[])
            .is_allowed()
    );
    assert!(rules.depends_on_names());
    let both = rules_of(
        &["udp://192.0.2.0/24:53", "udp://a.example:53"],
        &["192.0.2.7", "a.example"],
    );
    assert!(
        !both
            .address(Transport::Udp, "192.0.2.7".parse().unwrap(), 53, &[])
            .is_allowed()
    );
    assert!(
        both.address(Transport::Udp, "192.0.2.8".parse().unwrap(), 53, &[])
            .is_allowed()
    );
    assert!(
        !both
            .name(Transport::Udp, &name("a.example"), 53)
            .is_allowed()
    );
    let carried = Rules::new("deny=203.0.113.0/24".parse().unwrap());
    assert!(
        !address(&carried, "64:ff9b::cb00:7107").is_allowed()
            && address(&carried, "64:ff9b::808:808").is_allowed()
    );
}

fn rules_of(allow: &[&str], deny: &[&str]) -> Rules {
    let list = |entries: &[&str]| entries.iter().map(|entry| entry.parse().unwrap()).collect();
    Rules::new(NetworkPolicy {
        allow_list: list(allow),
        deny_list: list(deny),
        ..NetworkPolicy::default()
    })
}

#[test]
fn private_address_is_open_when_listed_or_in_private_ranges() {
    let named = rules("allow=10.0.0.0/8:443,intern.example");
    assert!(address(&named, "10.1.2.3").is_allowed());
    assert!(!address(&named, "192.168.1.1").is_allowed());
    assert!(
        named
            .resolved(Transport::Tcp, "10.1.2.3".parse().unwrap(), 443, &[])
            .is_allowed()
    );
    let mut policy = NetworkPolicy::allowing(["intern.example".parse().unwrap()]);
    policy.private_ranges = vec!["10.0.0.0/8".parse().unwrap()];
    let private = Rules::new(policy);
    assert!(
        private
            .resolved(Transport::Tcp, "10.1.2.3".parse().unwrap(), 443, &[])
            .is_allowed()
    );
    assert!(!address(&private, "10.1.2.3").is_allowed());
}

#[test]
fn wide_range_does_not_open_special_addresses() {
    let mut policy = rules("allow=0.0.0.0/0,::/0").policy().clone();
    policy.private_ranges = vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()];
    let wide = Rules::new(policy);
    assert!(
        address(&wide, "203.0.113.7").is_allowed() && address(&wide, "2001:db8::1").is_allowed()
    );
    for special in [
        "10.0.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "fd00::1",
        "0.0.0.0",
        "::",
        "224.0.0.1",
        "ff02::1",
    ] {
        assert!(!address(&wide, special).is_allowed(), "{special}");
        assert!(
            !wide
                .resolved(Transport::Tcp, special.parse().unwrap(), 443, &[])
                .is_allowed(),
            "{special}"
        );
    }
    let own: [IpAddr; 1] = ["203.0.113.7".parse().unwrap()];
    assert!(!wide.address(Transport::Tcp, own[0], 443, &own).is_allowed());
    let wide = rules("allow=192.0.0.0/8,169.254.0.0/16");
    assert!(
        !address(&wide, "192.168.1.1").is_allowed()
            && !address(&wide, "169.254.169.254").is_allowed()
    );
    assert!(address(&wide, "169.254.1.1").is_allowed());
    let named = rules("allow=203.0.113.7,127.0.0.1:443,169.254.169.254");
    assert!(
        named
            .address(Transport::Tcp, own[0], 443, &own)
            .is_allowed()
    );
    assert!(
        address(&named, "127.0.0.1").is_allowed()
            && address(&named, "169.254.169.254").is_allowed()
    );
}

#[test]
fn unroutable_address_is_never_open() {
    let named = rules("allow=0.0.0.0,224.0.0.1,255.255.255.255,ff02::1");
    for never in ["0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "ff02::1"] {
        assert!(!address(&named, never).is_allowed(), "{never}");
    }
}

#[test]
fn lookup_returns_address_open_at_some_port() {
    let mut policy = rules("allow=git.example:22,web.example,10.0.0.0/8:22,udp://ntp.example:123")
        .policy()
        .clone();
    policy.deny_list = vec![
        "198.51.100.1:1-22".parse().unwrap(),
        "198.51.100.2".parse().unwrap(),
    ];
    let rules = Rules::new(policy);
    for (host, address, is_open) in [
        ("git.example", "203.0.113.7", true),
        ("git.example", "10.0.0.1", true),
        ("git.example", "192.168.0.1", false),
        ("git.example", "198.51.100.1", false),
        ("web.example", "198.51.100.1", true),
        ("web.example", "198.51.100.2", false),
        ("ntp.example", "198.51.100.3", true),
        ("ntp.example", "127.0.0.1", false),
        ("evil.example", "203.0.113.7", false),
    ] {
        let verdict = rules.resolved_at_any_port(&name(host), address.parse().unwrap(), &[]);
        assert_eq!(
            verdict.is_allowed(),
            is_open,
            "{host} {address}: {}",
            verdict.reason()
        );
    }
}

#[test]
fn port_of_a_name_opens_only_that_port() {
    let rules = rules("allow=git.example:22");
    assert!(rules.lookup(&name("git.example")).is_allowed());
    assert!(
        rules
            .name(Transport::Tcp, &name("git.example"), 22)
            .is_allowed()
    );
    assert!(
        !rules
            .name(Transport::Tcp, &name("git.example"), 443)
            .is_allowed()
    );
}
