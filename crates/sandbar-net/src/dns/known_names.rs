//! What a session was told about names.

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use sandbar_core::DomainName;

const MOST_ADDRESSES: usize = 4096;
const MOST_NAMES: usize = 16;

/// The names that DNS has given a session for addresses. The latest of them are kept.
#[derive(Debug, Default)]
pub(crate) struct KnownNames(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The names of an address, the latest last.
    names: HashMap<IpAddr, Vec<DomainName>>,
    /// In the order they were first learned.
    order: VecDeque<IpAddr>,
}

impl KnownNames {
    /// The session was told that the name leads to these addresses.
    pub(crate) fn learn(&self, name: &DomainName, addresses: impl IntoIterator<Item = IpAddr>) {
        let mut known = self.lock();
        for address in addresses {
            known.learn(name, address.to_canonical());
        }
    }

    /// The names the session was given this address for, the latest first.
    pub(crate) fn names_of(&self, address: IpAddr) -> Vec<DomainName> {
        self.lock().names.get(&address.to_canonical()).into_iter().flatten().rev().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn learn(&mut self, name: &DomainName, address: IpAddr) {
        if let Some(names) = self.names.get_mut(&address) {
            names.retain(|known| known != name);
            if names.len() == MOST_NAMES {
                names.remove(0);
            }
            names.push(name.clone());
            // An address that is asked for again is not the next to be forgotten.
            if self.order.len() > MOST_ADDRESSES / 2
                && let Some(place) = self.order.iter().take(MOST_ADDRESSES / 4).position(|known| *known == address)
            {
                self.order.remove(place);
                self.order.push_back(address);
            }
            return;
        }
        if self.order.len() == MOST_ADDRESSES
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
    fn the_latest_name_of_an_address_comes_first() {
        let known = KnownNames::default();
        known.learn(&name("a.example"), [address(1), address(2)]);
        known.learn(&name("b.example"), [address(1)]);
        assert_eq!(known.names_of(address(1)), [name("b.example"), name("a.example")]);
        known.learn(&name("a.example"), [address(1)]);
        assert_eq!(known.names_of(address(1)), [name("a.example"), name("b.example")]);
        assert_eq!(known.names_of(address(3)), []);
        assert_eq!(known.names_of("::ffff:11.0.0.2".parse().unwrap()), [name("a.example")]);
    }

    #[test]
    fn what_is_kept_is_bounded_and_what_is_used_stays() {
        let known = KnownNames::default();
        for number in 0..MOST_ADDRESSES {
            known.learn(&name("a.example"), [address(number)]);
        }
        known.learn(&name("a.example"), [address(0)]);
        known.learn(&name("b.example"), [address(MOST_ADDRESSES)]);
        assert_eq!(known.names_of(address(0)).len(), 1);
        assert_eq!(known.names_of(address(1)), []);
        for number in 0..2 * MOST_NAMES {
            known.learn(&name(&format!("n{number}.example")), [address(0)]);
        }
        assert_eq!(known.names_of(address(0)).len(), MOST_NAMES);
        let kept = known.lock();
        assert_eq!((kept.names.len(), kept.order.len()), (MOST_ADDRESSES, MOST_ADDRESSES));
    }
}
