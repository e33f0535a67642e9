//! Certificates with P-256 keys: as much of X.509 as an authority of our own and the servers it vouches for need.
//!
//! An [`Authority`] signs certificates of servers: in the gateway one for each session, on the API's port one for the
//! machine. [`valid_until`] says when a certificate of anybody's runs out.
//!
//! Invariant: nothing here trusts a certificate. What others sent is judged by webpki.

mod authority;
mod der;
mod key;
mod pem;
mod statement;
mod validity;

use pem::{certificate_pem, private_key_pem};
use statement::{Purpose, Statement};

pub use authority::{Authority, ServerKey};
pub use statement::SubjectName;
pub use validity::valid_until;
