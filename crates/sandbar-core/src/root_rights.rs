//! What the root of a session may do inside it.

use std::{fmt, str::FromStr};

use crate::{Error, Result};

/// What the root of a session may do. Outside it is nobody, whatever it may do inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RootRights {
    /// What every user may do: it has no capabilities, and programs give it none.
    #[default]
    Bare,
    /// A few capabilities over the files and users of the session: changing owners, becoming other users. Programs that set
    /// the user id work, and so do `sudo`, `su` and package managers.
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
        Self::ALL.into_iter().find(|rights| rights.as_str() == text).ok_or_else(|| {
            Error::invalid("root_rights", format!("`{}` are no rights of root", text.escape_debug()))
                .with_hint("use bare or own")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back_and_bare_is_the_default() {
        for rights in RootRights::ALL {
            assert_eq!(rights.to_string().parse::<RootRights>().unwrap(), rights);
        }
        assert_eq!(RootRights::default(), RootRights::Bare);
        assert_eq!("all".parse::<RootRights>().unwrap_err().field(), Some("root_rights"));
    }
}
