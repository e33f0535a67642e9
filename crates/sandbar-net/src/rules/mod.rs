//! What a policy says about names and addresses.
//!
//! Everything here is a function of the policy and of what the session asks for: no I/O, nothing remembered.

mod special_ranges;
mod verdict;

use std::net::IpAddr;

use sandbar_core::{AddressRange, Destination, DomainName, NetworkPolicy, Target, Transport};

use special_ranges::{Special, carried, special};
pub(crate) use verdict::Verdict;

/// A policy, ready to be asked.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    policy: NetworkPolicy,
    /// Some entry of the deny list is a name, so that names matter also where addresses are open.
    denies_names: bool,
}

impl Rules {
    pub(crate) fn new(policy: NetworkPolicy) -> Self {
        let denies_names = policy.deny_list.iter().any(|entry| matches!(entry.target, Target::Domain(_)));
        Self { policy, denies_names }
    }

    pub(crate) const fn policy(&self) -> &NetworkPolicy {
        &self.policy
    }

    /// About a host somebody named: by DNS, SNI, `Host` or `CONNECT`. Where it leads is another question.
    pub(crate) fn name(&self, transport: Transport, name: &DomainName, port: u16) -> Verdict {
        let denied = self.denial(transport, |entry, transport| entry.matches_name(transport, name, port));
        denied.unwrap_or_else(|| self.permission(transport, |entry| entry.matches_name(transport, name, port)))
    }

    /// Whether the deny list names this host, so that an open address does not help it.
    pub(crate) fn denies_name(&self, name: &DomainName, port: u16) -> bool {
        self.denial(Transport::Tcp, |entry, transport| entry.matches_name(transport, name, port)).is_some()
    }

    /// About a host somebody asks the address of: whether it may be reached at any port at all.
    pub(crate) fn lookup(&self, name: &DomainName) -> Verdict {
        let at_some_port =
            |entry: &Destination| matches!(&entry.target, Target::Domain(pattern) if pattern.matches(name));
        let whole_host = |entry: &Destination| at_some_port(entry) && entry.ports.is_none();
        if let Some(entry) = self.policy.deny_list.iter().find(|entry| whole_host(entry)) {
            return Verdict::denied(format!("denied by `{entry}`"));
        }
        if self.policy.allow_outbound {
            return Verdict::allowed("open".to_owned());
        }
        match self.policy.allow_list.iter().find(|entry| at_some_port(entry)) {
            Some(entry) => Verdict::allowed(format!("allowed by `{entry}`")),
            None => Verdict::denied("not in the allow list".to_owned()),
        }
    }

    /// About an address nobody has a name for. `own` are the host's addresses.
    pub(crate) fn address(&self, transport: Transport, address: IpAddr, port: u16, own: &[IpAddr]) -> Verdict {
        let matches = |entry: &Destination| entry.matches_address(transport, address, port);
        let verdict =
            self.denied_address(transport, address, port).unwrap_or_else(|| self.permission(transport, matches));
        match guarded(address, own) {
            Some(Guard { what, is_nobodys: true }) => Verdict::denied(format!("{what} cannot be reached")),
            Some(Guard { what, .. }) if verdict.is_allowed() && !self.names(matches, address) => {
                Verdict::denied(format!("{what} is not open unless the allow list names it"))
            }
            _ => verdict,
        }
    }

    /// About an address a name led to, which itself was allowed.
    pub(crate) fn resolved(&self, transport: Transport, address: IpAddr, port: u16, own: &[IpAddr]) -> Verdict {
        if let Some(denied) = self.denied_address(transport, address, port) {
            return denied;
        }
        let matches = |entry: &Destination| entry.matches_address(transport, address, port);
        let led = |range: &AddressRange| range.contains(address) && is_meant(range, address);
        match guarded(address, own) {
            Some(Guard { what, is_nobodys: true }) => Verdict::denied(format!("the name leads to {what}")),
            Some(Guard { what, .. })
                if !self.names(matches, address) && !self.policy.private_ranges.iter().any(led) =>
            {
                Verdict::denied(format!("the name leads to {what}, which is not named"))
            }
            _ => Verdict::allowed("its address is open".to_owned()),
        }
    }

    /// About an address that a session is told when it asks where a name leads: whether it may go there at any port at all.
    pub(crate) fn led_to(&self, name: &DomainName, address: IpAddr, own: &[IpAddr]) -> Verdict {
        let concerns = |entry: &&Destination| match &entry.target {
            Target::Domain(pattern) => pattern.matches(name),
            Target::Addresses(range) => range.contains(address),
        };
        let entries = || self.policy.allow_list.iter().chain(&self.policy.deny_list).filter(concerns);
        // What the entries say changes only where the ports of one begin, and behind its last.
        let edges = entries().filter_map(|entry| entry.ports).flat_map(|range| {
            let ports = range.ports();
            [Some(*ports.start()), ports.end().checked_add(1)].into_iter().flatten()
        });
        let mut denied = None;
        for port in [443, 1].into_iter().chain(edges) {
            for transport in [Transport::Tcp, Transport::Udp] {
                if self.name(transport, name, port).is_allowed() {
                    let verdict = self.resolved(transport, address, port, own);
                    if verdict.is_allowed() {
                        return verdict;
                    }
                    denied = Some(verdict);
                }
            }
        }
        denied.unwrap_or_else(|| Verdict::denied("not in the allow list".to_owned()))
    }

    /// Whether an entry of the allow list means just this guarded address, and not half the world with it in it.
    fn names(&self, matches: impl Fn(&Destination) -> bool, address: IpAddr) -> bool {
        self.policy.allow_list.iter().any(|entry| match &entry.target {
            Target::Addresses(range) => matches(entry) && is_meant(range, address),
            Target::Domain(_) => false,
        })
    }

    /// Whether what a connection says about names matters although its address is open.
    pub(crate) const fn looks_at_names(&self) -> bool {
        self.denies_names || self.policy.inspect_tls || !self.policy.secrets.is_empty()
    }

    /// Whether TLS to this host is looked into.
    pub(crate) fn intercepts(&self, name: &DomainName, port: u16) -> bool {
        self.policy.inspect_tls || self.policy.headers_for(name, port).next().is_some()
    }

    /// What the deny list says. An entry that does not say UDP means everything at these ports.
    fn denial(&self, transport: Transport, matches: impl Fn(&Destination, Transport) -> bool) -> Option<Verdict> {
        let denies = |entry: &&Destination| matches(entry, transport) || matches(entry, Transport::Tcp);
        let entry = self.policy.deny_list.iter().find(denies)?;
        Some(Verdict::denied(format!("denied by `{entry}`")))
    }

    /// What the deny list says about an address, and about the one it carries.
    fn denied_address(&self, transport: Transport, address: IpAddr, port: u16) -> Option<Verdict> {
        let of = |address| self.denial(transport, |entry, transport| entry.matches_address(transport, address, port));
        of(address).or_else(|| carried(address).and_then(of))
    }

    /// Allow list, and the rest of the world; UDP is never open by itself.
    fn permission(&self, transport: Transport, matches: impl Fn(&Destination) -> bool) -> Verdict {
        if let Some(entry) = self.policy.allow_list.iter().find(|entry| matches(entry)) {
            return Verdict::allowed(format!("allowed by `{entry}`"));
        }
        if self.policy.allow_outbound && transport == Transport::Tcp {
            return Verdict::allowed("open".to_owned());
        }
        Verdict::denied("not in the allow list".to_owned())
    }
}

/// An address that is not open by itself.
struct Guard {
    what: &'static str,
    is_nobodys: bool,
}

fn guarded(address: IpAddr, own: &[IpAddr]) -> Option<Guard> {
    match special(address) {
        Some(Special::Never(what)) => Some(Guard { what, is_nobodys: true }),
        Some(Special::Private(what)) => Some(Guard { what, is_nobodys: false }),
        None if own.contains(&address.to_canonical()) => {
            Some(Guard { what: "an address of the host itself", is_nobodys: false })
        }
        None => None,
    }
}

/// A range means a guarded address when it begins among others of its kind, or is nothing but that address. `0.0.0.0/0`
/// opens neither the private networks nor the metadata service.
fn is_meant(range: &AddressRange, address: IpAddr) -> bool {
    range.is_single() || special(address).is_some_and(|kind| special(range.first()) == Some(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_closed_policy_allows_nothing() {
        let closed = rules("none");
        assert!(!closed.name(Transport::Tcp, &name("example.com"), 443).is_allowed());
        assert!(!closed.lookup(&name("example.com")).is_allowed());
        assert!(!address(&closed, "203.0.113.7").is_allowed());
    }

    #[test]
    fn an_open_policy_allows_what_is_public_and_only_tcp() {
        let open = rules("full");
        assert!(open.name(Transport::Tcp, &name("example.com"), 443).is_allowed());
        assert!(address(&open, "203.0.113.7").is_allowed());
        assert!(!open.address(Transport::Udp, "203.0.113.7".parse().unwrap(), 443, &[]).is_allowed());
        for private in
            ["10.0.0.1", "127.0.0.1", "169.254.169.254", "::1", "fd00::1", "fe80::1", "::ffff:10.0.0.1", "0.0.0.0"]
        {
            assert!(!address(&open, private).is_allowed(), "{private}");
            let led = open.resolved(Transport::Tcp, private.parse().unwrap(), 443, &[]);
            assert!(!led.is_allowed(), "{private}");
        }
        let own = ["203.0.113.7".parse().unwrap()];
        assert!(!open.address(Transport::Tcp, own[0], 443, &own).is_allowed());
        assert!(!open.resolved(Transport::Tcp, own[0], 443, &own).is_allowed());
    }

    #[test]
    fn what_is_denied_is_denied_whatever_is_allowed() {
        let mut policy = NetworkPolicy::allowing(["*.example.com".parse().unwrap()]);
        policy.deny_list = vec!["secret.example.com".parse().unwrap(), "203.0.113.0/24".parse().unwrap()];
        let rules = Rules::new(policy);
        assert!(rules.name(Transport::Tcp, &name("a.example.com"), 443).is_allowed());
        assert!(!rules.name(Transport::Tcp, &name("secret.example.com"), 443).is_allowed());
        assert!(!rules.resolved(Transport::Tcp, "203.0.113.7".parse().unwrap(), 443, &[]).is_allowed());
        assert!(rules.looks_at_names());
        let both = rules_of(&["udp://192.0.2.0/24:53", "udp://a.example:53"], &["192.0.2.7", "a.example"]);
        assert!(!both.address(Transport::Udp, "192.0.2.7".parse().unwrap(), 53, &[]).is_allowed());
        assert!(both.address(Transport::Udp, "192.0.2.8".parse().unwrap(), 53, &[]).is_allowed());
        assert!(!both.name(Transport::Udp, &name("a.example"), 53).is_allowed());
        let carried = Rules::new("deny=203.0.113.0/24".parse().unwrap());
        assert!(
            !address(&carried, "64:ff9b::cb00:7107").is_allowed() && address(&carried, "64:ff9b::808:808").is_allowed()
        );
    }

    fn rules_of(allow: &[&str], deny: &[&str]) -> Rules {
        let list = |entries: &[&str]| entries.iter().map(|entry| entry.parse().unwrap()).collect();
        Rules::new(NetworkPolicy { allow_list: list(allow), deny_list: list(deny), ..NetworkPolicy::default() })
    }

    #[test]
    fn private_addresses_are_open_when_they_are_named_and_for_names_when_that_is_said() {
        let named = rules("allow=10.0.0.0/8:443,intern.example");
        assert!(address(&named, "10.1.2.3").is_allowed());
        assert!(!address(&named, "192.168.1.1").is_allowed());
        assert!(named.resolved(Transport::Tcp, "10.1.2.3".parse().unwrap(), 443, &[]).is_allowed());
        let mut policy = NetworkPolicy::allowing(["intern.example".parse().unwrap()]);
        policy.private_ranges = vec!["10.0.0.0/8".parse().unwrap()];
        let led = Rules::new(policy);
        assert!(led.resolved(Transport::Tcp, "10.1.2.3".parse().unwrap(), 443, &[]).is_allowed());
        assert!(!address(&led, "10.1.2.3").is_allowed());
    }

    #[test]
    fn a_range_that_is_half_the_world_names_nothing_private_in_it() {
        let mut policy = rules("allow=0.0.0.0/0,::/0").policy().clone();
        policy.private_ranges = vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()];
        let wide = Rules::new(policy);
        assert!(address(&wide, "203.0.113.7").is_allowed() && address(&wide, "2001:db8::1").is_allowed());
        for guarded in ["10.0.0.1", "127.0.0.1", "169.254.169.254", "fd00::1", "0.0.0.0", "::", "224.0.0.1", "ff02::1"]
        {
            assert!(!address(&wide, guarded).is_allowed(), "{guarded}");
            assert!(!wide.resolved(Transport::Tcp, guarded.parse().unwrap(), 443, &[]).is_allowed(), "{guarded}");
        }
        let own: [IpAddr; 1] = ["203.0.113.7".parse().unwrap()];
        assert!(!wide.address(Transport::Tcp, own[0], 443, &own).is_allowed());
        let neighbours = rules("allow=192.0.0.0/8,169.254.0.0/16");
        assert!(
            !address(&neighbours, "192.168.1.1").is_allowed() && !address(&neighbours, "169.254.169.254").is_allowed()
        );
        assert!(address(&neighbours, "169.254.1.1").is_allowed());
        let named = rules("allow=203.0.113.7,127.0.0.1:443,169.254.169.254");
        assert!(named.address(Transport::Tcp, own[0], 443, &own).is_allowed());
        assert!(address(&named, "127.0.0.1").is_allowed() && address(&named, "169.254.169.254").is_allowed());
    }

    #[test]
    fn nothing_opens_addresses_that_are_nobodys() {
        let named = rules("allow=0.0.0.0,224.0.0.1,255.255.255.255,ff02::1");
        for never in ["0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "ff02::1"] {
            assert!(!address(&named, never).is_allowed(), "{never}");
        }
    }

    #[test]
    fn an_address_is_told_when_some_port_of_the_name_is_open_there() {
        let mut policy = rules("allow=git.example:22,web.example,10.0.0.0/8:22,udp://ntp.example:123").policy().clone();
        policy.deny_list = vec!["198.51.100.1:1-22".parse().unwrap(), "198.51.100.2".parse().unwrap()];
        let rules = Rules::new(policy);
        for (host, address, is_told) in [
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
            let verdict = rules.led_to(&name(host), address.parse().unwrap(), &[]);
            assert_eq!(verdict.is_allowed(), is_told, "{host} {address}: {}", verdict.reason());
        }
    }

    #[test]
    fn a_port_of_a_name_is_that_port_only() {
        let rules = rules("allow=git.example:22");
        assert!(rules.lookup(&name("git.example")).is_allowed());
        assert!(rules.name(Transport::Tcp, &name("git.example"), 22).is_allowed());
        assert!(!rules.name(Transport::Tcp, &name("git.example"), 443).is_allowed());
    }
}
