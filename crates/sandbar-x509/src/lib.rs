//! Certificate authorities and server certificates with P-256 keys, made by rcgen.
//!
//! An [`Authority`] signs certificates of servers: in the gateway one for each session, on the
//! API's port one for the machine. [`valid_until`] reads when any certificate expires.
//!
//! Invariant: nothing here trusts a certificate. Certificates of peers are verified by webpki.

mod authority;
mod validity;

pub use authority::{Authority, ServerKey, SubjectName};
pub use validity::valid_until;
