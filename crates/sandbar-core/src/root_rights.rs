//! Capabilities of root inside a session.

use std::{fmt, str::FromStr};

use crate::{Error, Result};

/// Capabilities of root inside a session. On the host, its processes are always unprivileged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RootRights {
    /// No capabilities, and no way to gain any: set-uid programs have no effect.
    #[default]
    Bare,
    /// Capabilities over the files and users of the session, such as `CAP_CHOWN` and `CAP_SETUID`.
    /// Set-uid programs, `sudo`, `su` and package managers work.
    Own,
}

impl RootRights {
    pub const ALL: [Self; 2] = [Self::Bare, Self::Own];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Own => "own",
        }
    }
}

impl fmt::Display for RootRights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for RootRights {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|rights| rights.as_str() == text)
            .ok_or_else(|| {
                Error::invalid(
                    "root_rights",
                    format!("root rights `{}` are unknown", text.escape_debug()),
                )
                .with_hint("use bare or own")
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_rights_round_trip_and_default_to_bare() {
        for rights in RootRights::ALL {
            assert_eq!(rights.to_string().parse::<RootRights>().unwrap(), rights);
        }
        assert_eq!(RootRights::default(), RootRights::Bare);
        assert_eq!(
            "all".parse::<RootRights>().unwrap_err().field(),
            Some("root_rights")
        );
    }
}
