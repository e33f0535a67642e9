//! The authority that one session trusts.

use std::fmt;

use sandbar_core::Result;

/// A certificate authority that lives in memory as long as its session does, and is trusted by nobody else.
pub struct Authority {
    pem: String,
}

impl Authority {
    pub fn new(session: &str) -> Result<Self> {
        Ok(Self { pem: session.to_owned() })
    }

    /// What the session must trust.
    pub fn certificate_pem(&self) -> &str {
        &self.pem
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}
