//! Users of a sandbox, from its own `/etc/passwd` and `/etc/group`.

use crate::{Error, ErrorCode, OwnerMap, Result};

/// Number of users that the error for an unknown user lists.
const MAX_NAMES_SHOWN: usize = 10;

/// Limit for a requested user name.
const MAX_NAME_BYTES: usize = 256;

/// User of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserAccount {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    /// All groups of the user, `gid` first. Gids that the sandbox does not map are omitted.
    pub groups: Vec<u32>,
    pub home: String,
    pub shell: String,
}

/// Entry of `/etc/passwd`.
struct PasswdEntry<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a str,
    shell: &'a str,
}

impl<'a> PasswdEntry<'a> {
    /// Parses a line; `None` if it is not an entry.
    fn read(line: &'a str) -> Option<Self> {
        let mut fields = line.split(':');
        let mut next = || fields.next();
        let (name, _password) = (next()?, next()?);
        let (uid, gid) = (next()?.parse().ok()?, next()?.parse().ok()?);
        let (_about, home) = (next()?, next()?);
        Some(Self {
            name,
            uid,
            gid,
            home,
            shell: next().unwrap_or_default(),
        })
    }
}

impl UserAccount {
    /// Looks up a user by name or uid, in the texts of `/etc/passwd` and `/etc/group`. `root`
    /// always exists, and so does every uid: one without an entry has the gid of the same number
    /// and no home.
    pub fn find(user: &str, passwd: &str, group: &str) -> Result<Self> {
        let entries = || passwd.lines().filter_map(PasswdEntry::read);
        let number = user
            .parse::<u32>()
            .ok()
            .filter(|_| user.bytes().all(|byte| byte.is_ascii_digit()));
        let by_number = || number.and_then(|number| entries().find(|entry| entry.uid == number));
        let found = match (
            entries()
                .find(|entry| entry.name == user)
                .or_else(by_number),
            user,
            number,
        ) {
            (Some(entry), ..) => entry,
            (None, "root", _) | (None, _, Some(0)) => PasswdEntry {
                name: "root",
                uid: 0,
                gid: 0,
                home: "/root",
                shell: "",
            },
            (None, _, Some(number)) => PasswdEntry {
                name: user,
                uid: number,
                gid: number,
                home: "",
                shell: "",
            },
            (None, _, None) => {
                let names: Vec<&str> = entries()
                    .map(|entry| entry.name)
                    .take(MAX_NAMES_SHOWN)
                    .collect();
                let hint = if names.is_empty() {
                    "its `/etc/passwd` has no users; use `root` or a uid".to_owned()
                } else {
                    format!(
                        "its `/etc/passwd` has `{}`; a uid is also accepted",
                        names.join("`, `")
                    )
                };
                let what = format!("the session has no user `{}`", user.escape_debug());
                return Err(Error::new(ErrorCode::UserNotFound, what)
                    .with_field("user")
                    .with_hint(hint));
            }
        };
        if found.uid >= OwnerMap::COUNT || found.gid >= OwnerMap::COUNT {
            let what = format!(
                "user `{}` ({}:{}) is outside the ids of a sandbox",
                user.escape_debug(),
                found.uid,
                found.gid
            );
            return Err(Error::invalid("user", what).with_hint(format!(
                "uids and gids of a sandbox are below {}",
                OwnerMap::COUNT
            )));
        }
        let or = |text: &str, otherwise: &str| {
            if text.is_empty() {
                otherwise.to_owned()
            } else {
                text.to_owned()
            }
        };
        let mut groups = vec![found.gid];
        for gid in groups_of(found.name, group) {
            if gid < OwnerMap::COUNT && !groups.contains(&gid) {
                groups.push(gid);
            }
        }
        Ok(Self {
            name: found.name.to_owned(),
            uid: found.uid,
            gid: found.gid,
            groups,
            home: or(found.home, "/"),
            shell: or(found.shell, "/bin/sh"),
        })
    }
}

/// Returns the groups that list a user as a member.
fn groups_of<'a>(user: &'a str, group: &'a str) -> impl Iterator<Item = u32> + 'a {
    group.lines().filter_map(move |line| {
        let mut fields = line.split(':').skip(2);
        let gid = fields.next()?.parse().ok()?;
        fields
            .next()?
            .split(',')
            .any(|member| member.trim() == user)
            .then_some(gid)
    })
}

/// Checks a requested user name or uid.
pub(crate) fn validate_user(user: Option<&str>) -> Result<()> {
    match user {
        Some(user)
            if user.is_empty()
                || user.len() > MAX_NAME_BYTES
                || user.contains([':', '\n', '\0']) =>
        {
            Err(Error::invalid(
                "user",
                format!("user name `{}` is not usable", user.escape_debug()),
            )
            .with_hint(
                "use a name or uid of the session's `/etc/passwd`, or leave it out for `root`",
            ))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\n# a remark\n\nuser:x:1000:1000::/home/user:/bin/bash\nbare:x:33:44::\n\
                          torn:x:1\nfar:x:70000:1:::\n";
    const GROUP: &str =
        "root:x:0:\nsudo:x:27:other,user\nuser:x:1000:user\nfar:x:70000:user\n44:x:44:1000\n";

    #[test]
    fn user_is_found_by_name_and_uid_with_all_groups() {
        let user = UserAccount::find("user", PASSWD, GROUP).unwrap();
        assert_eq!(
            (user.uid, user.gid, user.groups.as_slice()),
            (1000, 1000, &[1000, 27][..])
        );
        assert_eq!(
            (user.home.as_str(), user.shell.as_str()),
            ("/home/user", "/bin/bash")
        );
        assert_eq!(UserAccount::find("1000", PASSWD, GROUP).unwrap(), user);
        let bare = UserAccount::find("bare", PASSWD, GROUP).unwrap();
        assert_eq!(
            (bare.gid, bare.home.as_str(), bare.shell.as_str()),
            (44, "/", "/bin/sh")
        );
    }

    #[test]
    fn root_and_uids_exist_without_passwd() {
        for name in ["root", "0"] {
            let root = UserAccount::find(name, "", "").unwrap();
            assert_eq!(
                (root.name.as_str(), root.uid, root.gid, root.home.as_str()),
                ("root", 0, 0, "/root")
            );
        }
        let unlisted = UserAccount::find("4711", PASSWD, GROUP).unwrap();
        assert_eq!(
            (unlisted.uid, unlisted.gid, unlisted.home.as_str()),
            (4711, 4711, "/")
        );
        assert_eq!(unlisted.name, "4711");
    }

    #[test]
    fn unknown_user_is_refused_and_others_are_listed() {
        for unknown in ["nobody", "+5", "torn", "-1", "user "] {
            let error = UserAccount::find(unknown, PASSWD, GROUP).unwrap_err();
            assert_eq!(
                (error.code(), error.field()),
                (ErrorCode::UserNotFound, Some("user")),
                "{unknown}"
            );
            assert!(error.hint().unwrap().contains("`root`, `user`"));
        }
    }

    #[test]
    fn user_outside_the_mapped_ids_is_refused() {
        for far in ["far", "70000", "65536"] {
            let error = UserAccount::find(far, PASSWD, GROUP).unwrap_err();
            assert_eq!(
                (error.code(), error.field()),
                (ErrorCode::InvalidArgument, Some("user")),
                "{far}"
            );
        }
    }
}
