//! Certificates with P-256 keys: as much of X.509 as an authority of our own and the servers it vouches for need.
//!
//! A [`Statement`] is what a certificate says; signing it makes the certificate. The gateway makes those of a session's
//! authority with it, the server those of its own port.
//!
//! Invariant: nothing here trusts a certificate. What others sent is judged by webpki.

mod der;
mod key;
mod pem;
mod statement;
mod validity;

pub use key::{key_from_pkcs8, new_key};
pub use pem::{certificate_pem, private_key_pem};
pub use statement::{LONGEST_COMMON_NAME, Purpose, Statement, SubjectName};
pub use validity::valid_until;
