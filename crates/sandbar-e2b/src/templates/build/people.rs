//! Users of an image: those E2B has in every sandbox, and those steps name. Written into the image's own files, since not every
//! image has programs for it.

use std::{
    collections::HashSet,
    io::Read as _,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use sandbar_core::{EntryType, Error, ErrorCode, MakeDirOptions, Result, SessionId, UserAccount, WriteOptions};
use sandbar_host::Host;

const PASSWD: &str = "/etc/passwd";
const GROUP: &str = "/etc/group";
const SUDOERS: &str = "/etc/sudoers.d";
/// What new homes begin with.
const SKELETON: &str = "/etc/skel";
/// The first number for people.
const FIRST: u32 = 1000;
const LAST: u32 = 60_000;
const MOST: u64 = 1024 * 1024;
const LONGEST_NAME: usize = 32;

/// A user of the session, who is made when there is none.
pub(super) async fn ensure_user(host: &Host, session: &SessionId, name: &str) -> Result<UserAccount> {
    match host.user_account(session, name).await {
        Err(error) if error.code() == ErrorCode::UserNotFound => {}
        known => return known,
    }
    if !is_name(name) {
        return Err(Error::invalid("user", format!("`{}` cannot be the name of a user", name.escape_debug()))
            .with_hint("begin with a letter or `_`; then letters, digits, `-` and `_`"));
    }
    let (passwd, group) = (read(host, session, PASSWD).await?, read(host, session, GROUP).await?);
    let number = free_number(&passwd, &group)
        .ok_or_else(|| Error::invalid("user", format!("the image has no number left for user `{name}`")))?;
    let shell = super::shell::shell_of(host, session).await?;
    let home = format!("/home/{name}");
    append(host, session, PASSWD, passwd, &format!("{name}:x:{number}:{number}::{home}:{shell}")).await?;
    append(host, session, GROUP, group, &format!("{name}:x:{number}:")).await?;
    let owner = Some((number, number));
    host.make_dir(session, Path::new("/home"), MakeDirOptions { create_dirs: true, owner: None }).await?;
    if host.make_dir(session, Path::new(&home), MakeDirOptions { create_dirs: true, owner }).await? {
        furnish(host, session, &home, number).await?;
    }
    host.user_account(session, name).await
}

/// Puts into a new home what the image has for new homes, such as `.bashrc`.
async fn furnish(host: &Host, session: &SessionId, home: &str, owner: u32) -> Result<()> {
    let there = match host.list_dir(session, Path::new(SKELETON), 1).await {
        Ok(there) => there,
        Err(error) if matches!(error.code(), ErrorCode::FileNotFound | ErrorCode::InvalidArgument) => return Ok(()),
        Err(error) => return Err(error),
    };
    for file in there.into_iter().filter(|file| file.entry == EntryType::File && file.size.get() <= MOST) {
        let Some(name) = file.path.file_name() else { continue };
        let (content, _) = host.open_file(session, &file.path).await?;
        let mut bytes = Vec::new();
        content
            .take(MOST)
            .read_to_end(&mut bytes)
            .map_err(|error| Error::io(format!("read `{}` of the image", file.path.display()), error))?;
        let options = WriteOptions { mode: Some(file.mode), create_dirs: false, owner: Some((owner, owner)) };
        write(host, session, &Path::new(home).join(name), options, bytes).await?;
    }
    Ok(())
}

/// The user every sandbox of E2B has, who may become root without a password where there is `sudo`.
pub(super) async fn provision(host: &Host, session: &SessionId, user: &str) -> Result<()> {
    ensure_user(host, session, user).await?;
    let file = PathBuf::from(SUDOERS).join("90-e2b-user");
    let options = WriteOptions { mode: Some(0o440), create_dirs: true, ..WriteOptions::default() };
    write(host, session, &file, options, format!("{user} ALL=(ALL:ALL) NOPASSWD: ALL\n")).await
}

/// The number of a group, by name or number.
pub(super) async fn group_number(host: &Host, session: &SessionId, group: &str) -> Result<u32> {
    if let Ok(number) = group.parse() {
        return Ok(number);
    }
    let text = read(host, session, GROUP).await?;
    let known = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(group)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    known.ok_or_else(|| Error::invalid("group", format!("the image has no group `{}`", group.escape_debug())))
}

fn is_name(name: &str) -> bool {
    let first = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    let other = |letter: char| first(letter) || letter.is_ascii_digit() || letter == '-';
    name.len() <= LONGEST_NAME && name.starts_with(first) && name.chars().all(other)
}

/// The first number neither a user nor a group has.
fn free_number(passwd: &str, group: &str) -> Option<u32> {
    let numbers =
        |text: &str| -> HashSet<u32> { text.lines().filter_map(|line| line.split(':').nth(2)?.parse().ok()).collect() };
    let (users, groups) = (numbers(passwd), numbers(group));
    (FIRST..LAST).find(|number| !users.contains(number) && !groups.contains(number))
}

async fn read(host: &Host, session: &SessionId, path: &str) -> Result<String> {
    let file = match host.open_file(session, Path::new(path)).await {
        Ok((file, _)) => file,
        Err(error) if error.code() == ErrorCode::FileNotFound => return Ok(String::new()),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(MOST + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Error::io(format!("read `{path}` of the image"), error))?;
    if bytes.len() as u64 > MOST {
        return Err(Error::invalid("user", format!("`{path}` of the image is too long")));
    }
    String::from_utf8(bytes).map_err(|_| Error::invalid("user", format!("`{path}` of the image is no text")))
}

async fn append(host: &Host, session: &SessionId, path: &str, mut text: String, line: &str) -> Result<()> {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
    text.push('\n');
    let options = WriteOptions { create_dirs: true, ..WriteOptions::default() };
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
    fn a_number_is_free_when_nobody_has_it() {
        assert_eq!(free_number("", ""), Some(1000));
        let passwd = "root:x:0:0::/root:/bin/sh\nubuntu:x:1000:1000::/home/ubuntu:/bin/bash\n";
        assert_eq!(free_number(passwd, "ubuntu:x:1000:\nother:x:1001:\n"), Some(1002));
    }

    #[test]
    fn names_of_users_are_words() {
        assert!(["user", "_apt", "www-data", "a1"].into_iter().all(is_name));
        assert!(["", "1a", "a:b", "a b", "ä", "$(id)", "-a", "a\n"].into_iter().all(|name| !is_name(name)));
    }
}
