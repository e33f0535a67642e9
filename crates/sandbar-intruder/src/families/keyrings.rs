//! Keys, which belong to no namespace of the usual ones.

use std::fs;

use crate::{
    attempt::{Attempt, Family},
    call::{Argument, call, text},
    facts::Facts,
    verdict::{Outcome, escaped, held, refused},
};

pub(crate) const FAMILY: Family = Family {
    name: "keyrings",
    attempts: &[
        Attempt::new("key-add", "adds a key to a keyring of its own process; escaped when the kernel keeps it", |_| {
            let payload = *b"intruder";
            let added = call!(
                SYS_add_key,
                c"user",
                c"sandbar-intruder",
                Argument::read(&payload),
                payload.len(),
                libc::KEY_SPEC_PROCESS_KEYRING
            );
            refused(added, "the kernel keeps keys for it")
        }),
        Attempt::new(
            "key-read",
            "reads a key of the host by its serial number; escaped when it holds the secret",
            read,
        ),
        Attempt::new("key-request", "asks for a key of the host by its name; escaped when it is found", |facts| {
            let name = text(facts.text("key-name")?)?;
            // Without call-out data the kernel starts no program for it.
            let found = call!(SYS_request_key, c"user", &name, Argument::NULL, 0);
            refused(found, "found it")
        }),
        Attempt::new(
            "key-search",
            "searches the session, user and user-session keyrings; escaped when one holds the host's key",
            search,
        ),
        Attempt::new("key-session", "joins a new session keyring; escaped when the kernel makes one", |_| {
            refused(call!(SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, Argument::NULL), "the kernel made one")
        }),
        Attempt::new("key-list", "looks for the host's key in /proc/keys; escaped when it is listed", |facts| {
            let name = facts.text("key-name")?;
            match fs::read_to_string("/proc/keys") {
                Ok(list) if list.contains(name) => escaped("it is listed"),
                Ok(_) => held("it is not listed"),
                Err(error) => held(error),
            }
        }),
    ],
};

fn read(facts: &Facts) -> Outcome {
    let mut payload = [0_u8; 256];
    let length = payload.len();
    let key = facts.number("key")?;
    match call!(SYS_keyctl, libc::KEYCTL_READ, key, Argument::write(&mut payload), length) {
        Ok(_) if facts.finds_secret(&payload)? => escaped("read the secret"),
        Ok(_) => held("another key"),
        Err(error) => held(error),
    }
}

fn search(facts: &Facts) -> Outcome {
    let name = text(facts.text("key-name")?)?;
    let mut last = String::new();
    for keyring in [libc::KEY_SPEC_SESSION_KEYRING, libc::KEY_SPEC_USER_KEYRING, libc::KEY_SPEC_USER_SESSION_KEYRING] {
        match call!(SYS_keyctl, libc::KEYCTL_SEARCH, keyring, c"user", &name, 0) {
            Ok(key) => return escaped(format!("keyring {keyring} holds it as {key}")),
            Err(error) => last = error.to_string(),
        }
    }
    held(last)
}
