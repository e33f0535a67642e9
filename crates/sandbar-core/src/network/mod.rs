//! Network policy of a session, and the record of its decisions.

mod address_range;
mod decision;
mod destination;
mod domain;
mod policy;
mod secret;
mod status;

pub use address_range::AddressRange;
pub use decision::{NetworkDecision, NetworkProtocol, NetworkTraffic, NetworkVerdict};
pub use destination::{Destination, PortRange, Target, Transport};
pub use domain::{DomainName, DomainPattern};
pub use policy::{NetworkLimits, NetworkPolicy};
pub use secret::{HeaderRule, SecretInfo, SecretName, SecretValue};
pub use status::NetworkStatus;
