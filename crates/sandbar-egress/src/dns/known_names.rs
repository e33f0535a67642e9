//! Names and addresses from the DNS answers of a session.

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    sync::{Mutex, MutexGuard},
};

use sandbar_core::{DomainName, MutexExt as _};

const MAX_ADDRESSES: usize = 4096;
const MAX_NAMES_PER_ADDRESS: usize = 16;

/// Names by address, from the latest DNS answers of a session. They allow connections that do not
/// state a host name, and name them in the audit log.
#[derive(Debug, Default)]
pub(crate) struct KnownNames(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Names of an address, the latest last.
    names: HashMap<IpAddr, Vec<DomainName>>,
    /// Addresses in the order of insertion.
    order: VecDeque<IpAddr>,
}

impl KnownNames {
    /// Remembers that a DNS answer gave these addresses for the name.
    pub(crate) fn learn(&self, name: &DomainName, addresses: impl IntoIterator<Item = IpAddr>) {
        let mut known = self.lock();
        for address in addresses {
            known.learn(name, address.to_canonical());
        }
    }

    /// Returns the names of an address, the latest first.
    pub(crate) fn names_of(&self, address: IpAddr) -> Vec<DomainName> {
        self.lock()
            .names
            .get(&address.to_canonical())
            .into_iter()
            .flatten()
            .rev()
            .cloned()
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock_unpoisoned()
    }
}

impl Known {
    fn learn(&mut self, name: &DomainName, address: IpAddr) {
        if let Some(names) = self.names.get_mut(&address) {
            names.retain(|known| known != name);
            if names.len() == MAX_NAMES_PER_ADDRESS {
                names.remove(0);
            }
            names.push(name.clone());
            // An address that is used again is moved away from the end that is evicted.
            if self.order.len() > MAX_ADDRESSES / 2
                && let Some(index) = self
                    .order
                    .iter()
                    .take(MAX_ADDRESSES / 4)
                    .position(|known| *known == address)
            {
                self.order.remove(index);
                self.order.push_back(address);
            }
            return;
        }
        if self.order.len() == MAX_ADDRESSES
            && let Some(oldest) = self.order.pop_front()
        {
            self.names.remove(&oldest);
        }
        self.names.insert(address, vec![name.clone()]);
        self.order.push_back(address);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn name(text: &str) -> DomainName {
        text.parse().unwrap()
    }

    fn address(number: usize) -> IpAddr {
        Ipv4Addr::from_bits(0x0b00_0000 + u32::try_from(number).unwrap()).into()
    }

    #[test]
    fn latest_name_of_an_address_is_first() {
        let known = KnownNames::default();
        known.learn(&name("a.example"), [address(1), address(2)]);
        known.learn(&name("b.example"), [address(1)]);
        assert_eq!(
            known.names_of(address(1)),
            [name("b.example"), name("a.example")]
        );
        known.learn(&name("a.example"), [address(1)]);
        assert_eq!(
            known.names_of(address(1)),
            [name("a.example"), name("b.example")]
        );
        assert_eq!(known.names_of(address(3)), []);
        assert_eq!(
            known.names_of("::ffff:11.0.0.2".parse().unwrap()),
            [name("a.example")]
        );
    }

    #[test]
    fn known_names_are_bounded_and_used_ones_stay() {
        let known = KnownNames::default();
        for number in 0..MAX_ADDRESSES {
            known.learn(&name("a.example"), [address(number)]);
        }
        known.learn(&name("a.example"), [address(0)]);
        known.learn(&name("b.example"), [address(MAX_ADDRESSES)]);
        assert_eq!(known.names_of(address(0)).len(), 1);
        assert_eq!(known.names_of(address(1)), []);
        for number in 0..2 * MAX_NAMES_PER_ADDRESS {
            known.learn(&name(&format!("n{number}.example")), [address(0)]);
        }
        assert_eq!(known.names_of(address(0)).len(), MAX_NAMES_PER_ADDRESS);
        let kept = known.lock();
        assert_eq!(
            (kept.names.len(), kept.order.len()),
            (MAX_ADDRESSES, MAX_ADDRESSES)
        );
    }
}
