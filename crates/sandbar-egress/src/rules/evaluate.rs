//! Decides whether a name or an address may be reached.

use std::net::IpAddr;

use sandbar_core::{
    AddressRange, Destination, DomainName, DomainPattern, NetworkPolicy, Target, Transport,
};

use super::{
    Verdict,
    special_ranges::{Special, embedded_ipv4, special},
};

/// Evaluates one network policy.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    policy: NetworkPolicy,
    /// The deny list has a name: names must be checked even where the address is open.
    denies_names: bool,
}

impl Rules {
    pub(crate) fn new(policy: NetworkPolicy) -> Self {
        let denies_names = policy
            .deny_list
            .iter()
            .any(|entry| matches!(entry.target, Target::Domain(_)));
        Self {
            policy,
            denies_names,
        }
    }

    pub(crate) const fn policy(&self) -> &NetworkPolicy {
        &self.policy
    }

    /// Judges a host name from DNS, SNI, `Host` or `CONNECT`. The addresses it resolves to are
    /// judged separately, by [`resolved`](Self::resolved).
    pub(crate) fn name(&self, transport: Transport, name: &DomainName, port: u16) -> Verdict {
        let denied = self.denial(transport, |entry, transport| {
            entry.matches_name(transport, name, port)
        });
        denied.unwrap_or_else(|| {
            self.permission(transport, |entry| entry.matches_name(transport, name, port))
        })
    }

    /// Whether the deny list has this host. It is then denied even at an address that is open.
    pub(crate) fn denies_name(&self, name: &DomainName, port: u16) -> bool {
        self.denial(Transport::Tcp, |entry, transport| {
            entry.matches_name(transport, name, port)
        })
        .is_some()
    }

    /// Iterates over the exact host names that the deny list has for this port.
    pub(crate) fn denied_hosts(&self, port: u16) -> impl Iterator<Item = &DomainName> {
        self.policy
            .deny_list
            .iter()
            .filter_map(move |entry| match &entry.target {
                Target::Domain(DomainPattern::Exact(name))
                    if entry.ports.is_none_or(|ports| ports.contains(port)) =>
                {
                    Some(name)
                }
                _ => None,
            })
    }

    /// Judges a DNS lookup: whether the host may be reached at any port.
    pub(crate) fn lookup(&self, name: &DomainName) -> Verdict {
        let at_some_port = |entry: &Destination| matches!(&entry.target, Target::Domain(pattern) if pattern.matches(name));
        let whole_host = |entry: &Destination| at_some_port(entry) && entry.ports.is_none();
        if let Some(entry) = self.policy.deny_list.iter().find(|entry| whole_host(entry)) {
            return Verdict::denied(format!("denied by `{entry}`"));
        }
        if self.policy.allow_outbound {
            return Verdict::allowed("open".to_owned());
        }
        match self
            .policy
            .allow_list
            .iter()
            .find(|entry| at_some_port(entry))
        {
            Some(entry) => Verdict::allowed(format!("allowed by `{entry}`")),
            None => Verdict::denied("not in the allow list".to_owned()),
        }
    }

    /// Judges a connection to a bare address. `own` are the addresses of the host.
    pub(crate) fn address(
        &self,
        transport: Transport,
        address: IpAddr,
        port: u16,
        own: &[IpAddr],
    ) -> Verdict {
        let matches = |entry: &Destination| entry.matches_address(transport, address, port);
        let verdict = self
            .denied_address(transport, address, port)
            .unwrap_or_else(|| self.permission(transport, matches));
        match guard(address, own) {
            Some(Guard {
                what,
                is_unreachable: true,
            }) => Verdict::denied(format!("{what} cannot be reached")),
            Some(Guard { what, .. }) if verdict.is_allowed() && !self.lists(matches, address) => {
                Verdict::denied(format!("{what} is not open unless the allow list names it"))
            }
            _ => verdict,
        }
    }

    /// Judges an address that an allowed name resolved to. This is the defence against DNS
    /// rebinding: a name cannot open private addresses, unless the policy lists them.
    pub(crate) fn resolved(
        &self,
        transport: Transport,
        address: IpAddr,
        port: u16,
        own: &[IpAddr],
    ) -> Verdict {
        if let Some(denied) = self.denied_address(transport, address, port) {
            return denied;
        }
        let matches = |entry: &Destination| entry.matches_address(transport, address, port);
        let is_private = |range: &AddressRange| range.contains(address) && is_meant(range, address);
        match guard(address, own) {
            Some(Guard {
                what,
                is_unreachable: true,
            }) => Verdict::denied(format!("the name leads to {what}")),
            Some(Guard { what, .. })
                if !self.lists(matches, address)
                    && !self.policy.private_ranges.iter().any(is_private) =>
            {
                Verdict::denied(format!("the name leads to {what}, which is not named"))
            }
            _ => Verdict::allowed("its address is open".to_owned()),
        }
    }

    /// Judges an address for a DNS answer: whether the session may connect to it by this name at
    /// any port.
    pub(crate) fn resolved_at_any_port(
        &self,
        name: &DomainName,
        address: IpAddr,
        own: &[IpAddr],
    ) -> Verdict {
        let concerns = |entry: &&Destination| match &entry.target {
            Target::Domain(pattern) => pattern.matches(name),
            Target::Addresses(range) => range.contains(address),
        };
        let entries = || {
            self.policy
                .allow_list
                .iter()
                .chain(&self.policy.deny_list)
                .filter(concerns)
        };
        // The verdict can only change at the first port of a range and after its last one.
        let edges = entries().filter_map(|entry| entry.ports).flat_map(|range| {
            let ports = range.ports();
            [Some(*ports.start()), ports.end().checked_add(1)]
                .into_iter()
                .flatten()
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

    /// Whether an entry of the allow list lists this special address on purpose, rather than as
    /// part of a wide range.
    fn lists(&self, matches: impl Fn(&Destination) -> bool, address: IpAddr) -> bool {
        self.policy
            .allow_list
            .iter()
            .any(|entry| match &entry.target {
                Target::Addresses(range) => matches(entry) && is_meant(range, address),
                Target::Domain(_) => false,
            })
    }

    /// Whether the host name of a connection must be known even if its address is open.
    pub(crate) const fn depends_on_names(&self) -> bool {
        self.denies_names || self.policy.inspect_tls || !self.policy.secrets.is_empty()
    }

    /// Whether TLS to this host is terminated and inspected.
    pub(crate) fn intercepts(&self, name: &DomainName, port: u16) -> bool {
        self.policy.inspect_tls || self.policy.headers_for(name, port).next().is_some()
    }

    /// Returns the denial by the first matching entry of the deny list. An entry without `udp://`
    /// denies both transports.
    fn denial(
        &self,
        transport: Transport,
        matches: impl Fn(&Destination, Transport) -> bool,
    ) -> Option<Verdict> {
        let denies =
            |entry: &&Destination| matches(entry, transport) || matches(entry, Transport::Tcp);
        let entry = self.policy.deny_list.iter().find(denies)?;
        Some(Verdict::denied(format!("denied by `{entry}`")))
    }

    /// Returns the denial of an address, or of the IPv4 address embedded in it.
    fn denied_address(&self, transport: Transport, address: IpAddr, port: u16) -> Option<Verdict> {
        let of = |address| {
            self.denial(transport, |entry, transport| {
                entry.matches_address(transport, address, port)
            })
        };
        of(address).or_else(|| embedded_ipv4(address).and_then(of))
    }

    /// Judges by the allow list, then by `allow_outbound`, which opens TCP only.
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

/// An address that `allow_outbound` does not open.
struct Guard {
    what: &'static str,
    /// No policy can open it.
    is_unreachable: bool,
}

fn guard(address: IpAddr, own: &[IpAddr]) -> Option<Guard> {
    match special(address) {
        Some(Special::Never(what)) => Some(Guard {
            what,
            is_unreachable: true,
        }),
        Some(Special::Private(what)) => Some(Guard {
            what,
            is_unreachable: false,
        }),
        None if own.contains(&address.to_canonical()) => Some(Guard {
            what: "an address of the host itself",
            is_unreachable: false,
        }),
        None => None,
    }
}

/// Whether a range lists a special address on purpose: it starts inside the same special range, or
/// is this one address. `0.0.0.0/0` opens neither private networks nor the metadata service.
fn is_meant(range: &AddressRange, address: IpAddr) -> bool {
    range.is_single() || special(address).is_some_and(|kind| special(range.first()) == Some(kind))
}
