//! Creating users in an image: the default user of E2B, and those named by steps. `/etc/passwd` and
//! `/etc/group` are edited directly, because not every image has `useradd`.

use std::{
    collections::HashSet,
    io::Read as _,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use sandbar_core::{
    EntryType, Error, ErrorCode, MakeDirOptions, Result, SessionId, UserAccount, WriteOptions,
};
use sandbar_host::Host;

use crate::sandboxes::shell_of;

const PASSWD: &str = "/etc/passwd";
const GROUP: &str = "/etc/group";
const SUDOERS: &str = "/etc/sudoers.d";
/// Template of new home directories.
const SKELETON: &str = "/etc/skel";
/// Range of uids and gids for new users.
const FIRST_ID: u32 = 1000;
const LAST_ID: u32 = 60_000;
const MAX_FILE_BYTES: u64 = 1024 * 1024;
const MAX_NAME_BYTES: usize = 32;

/// Returns a user of the session, which is created if it does not exist.
pub(super) async fn ensure_user(
    host: &Host,
    session: &SessionId,
    name: &str,
) -> Result<UserAccount> {
    match host.user_account(session, name).await {
        Err(error) if error.code() == ErrorCode::UserNotFound => {}
        known => return known,
    }
    if !is_name(name) {
        return Err(Error::invalid(
            "user",
            format!("`{}` is not a valid user name", name.escape_debug()),
        )
        .with_hint("start with a letter or `_`; then use letters, digits, `-` and `_`"));
    }
    let (passwd, group) = (
        read(host, session, PASSWD).await?,
        read(host, session, GROUP).await?,
    );
    let number = free_id(&passwd, &group).ok_or_else(|| {
        Error::invalid("user", format!("image has no free uid for user `{name}`"))
    })?;
    let shell = shell_of(host, session).await?;
    let home = format!("/home/{name}");
    append(
        host,
        session,
        PASSWD,
        passwd,
        &format!("{name}:x:{number}:{number}::{home}:{shell}"),
    )
    .await?;
    append(host, session, GROUP, group, &format!("{name}:x:{number}:")).await?;
    let owner = Some((number, number));
    host.make_dir(
        session,
        Path::new("/home"),
        MakeDirOptions {
            create_dirs: true,
            owner: None,
        },
    )
    .await?;
    if host
        .make_dir(
            session,
            Path::new(&home),
            MakeDirOptions {
                create_dirs: true,
                owner,
            },
        )
        .await?
    {
        copy_skeleton(host, session, &home, number).await?;
    }
    host.user_account(session, name).await
}

/// Copies the files of `/etc/skel` to a new home.
async fn copy_skeleton(host: &Host, session: &SessionId, home: &str, owner: u32) -> Result<()> {
    let entries = match host.list_dir(session, Path::new(SKELETON), 1).await {
        Ok(entries) => entries,
        Err(error)
            if matches!(
                error.code(),
                ErrorCode::FileNotFound | ErrorCode::InvalidArgument
            ) =>
        {
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    for file in entries
        .into_iter()
        .filter(|file| file.entry == EntryType::File && file.size.get() <= MAX_FILE_BYTES)
    {
        let Some(name) = file.path.file_name() else {
            continue;
        };
        let (content, _) = host.open_file(session, &file.path).await?;
        let mut bytes = Vec::new();
        content
            .take(MAX_FILE_BYTES)
            .read_to_end(&mut bytes)
            .map_err(|error| {
                Error::io(
                    format!("read `{}` of the image", file.path.display()),
                    error,
                )
            })?;
        let options = WriteOptions {
            mode: Some(file.mode),
            create_dirs: false,
            owner: Some((owner, owner)),
        };
        write(host, session, &Path::new(home).join(name), options, bytes).await?;
    }
    Ok(())
}

/// Creates the default user of E2B, with `sudo` without a password if the image has it.
pub(super) async fn provision(host: &Host, session: &SessionId, user: &str) -> Result<()> {
    ensure_user(host, session, user).await?;
    let file = PathBuf::from(SUDOERS).join("90-e2b-user");
    let options = WriteOptions {
        mode: Some(0o440),
        create_dirs: true,
        ..WriteOptions::default()
    };
    write(
        host,
        session,
        &file,
        options,
        format!("{user} ALL=(ALL:ALL) NOPASSWD: ALL\n"),
    )
    .await
}

/// Returns the gid of a group, given by name or number.
pub(super) async fn group_id(host: &Host, session: &SessionId, group: &str) -> Result<u32> {
    if let Ok(number) = group.parse() {
        return Ok(number);
    }
    let text = read(host, session, GROUP).await?;
    let known = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(group))
            .then(|| fields.nth(1)?.parse().ok())
            .flatten()
    });
    known.ok_or_else(|| {
        Error::invalid(
            "group",
            format!("group `{}` not found in the image", group.escape_debug()),
        )
    })
}

fn is_name(name: &str) -> bool {
    let first = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    let other = |letter: char| first(letter) || letter.is_ascii_digit() || letter == '-';
    name.len() <= MAX_NAME_BYTES && name.starts_with(first) && name.chars().all(other)
}

/// Returns the first id that is free as uid and gid.
fn free_id(passwd: &str, group: &str) -> Option<u32> {
    let numbers = |text: &str| -> HashSet<u32> {
        text.lines()
            .filter_map(|line| line.split(':').nth(2)?.parse().ok())
            .collect()
    };
    let (users, groups) = (numbers(passwd), numbers(group));
    (FIRST_ID..LAST_ID).find(|number| !users.contains(number) && !groups.contains(number))
}

async fn read(host: &Host, session: &SessionId, path: &str) -> Result<String> {
    let file = match host.open_file(session, Path::new(path)).await {
        Ok((file, _)) => file,
        Err(error) if error.code() == ErrorCode::FileNotFound => return Ok(String::new()),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Error::io(format!("read `{path}` of the image"), error))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(Error::invalid(
            "user",
            format!("`{path}` of the image is too large"),
        ));
    }
    String::from_utf8(bytes)
        .map_err(|_| Error::invalid("user", format!("`{path}` of the image is not UTF-8 text")))
}

async fn append(
    host: &Host,
    session: &SessionId,
    path: &str,
    mut text: String,
    line: &str,
) -> Result<()> {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
    text.push('\n');
    let options = WriteOptions {
        create_dirs: true,
        ..WriteOptions::default()
    };
    write(host, session, Path::new(path), options, text).await
}

async fn write(
    host: &Host,
    session: &SessionId,
    path: &Path,
    options: WriteOptions,
    content: impl Into<Bytes>,
) -> Result<()> {
    let mut writer = host.write_file(session, path, options).await?;
    writer.write(content.into()).await?;
    writer.commit().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_id_is_unused_as_uid_and_gid() {
        assert_eq!(free_id("", ""), Some(1000));
        let passwd = "root:x:0:0::/root:/bin/sh\nubuntu:x:1000:1000::/home/ubuntu:/bin/bash\n";
        assert_eq!(
            free_id(passwd, "ubuntu:x:1000:\nother:x:1001:\n"),
            Some(1002)
        );
    }

    #[test]
    fn user_name_has_only_portable_characters() {
        assert!(["user", "_apt", "www-data", "a1"].into_iter().all(is_name));
        assert!(
            ["", "1a", "a:b", "a b", "ä", "$(id)", "-a", "a\n"]
                .into_iter()
                .all(|name| !is_name(name))
        );
    }
}
