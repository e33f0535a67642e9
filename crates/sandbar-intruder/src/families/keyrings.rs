//! Kernel keyrings, which most namespaces do not isolate.

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
        Attempt::new(
            "key-add",
            "adds a key to its process keyring; escaped when the call succeeds",
            |_| {
                let payload = *b"intruder";
                let added = call!(
                    SYS_add_key,
                    c"user",
                    c"sandbar-intruder",
                    Argument::read(&payload),
                    payload.len(),
                    libc::KEY_SPEC_PROCESS_KEYRING
                );
                refused(added, "added a key")
            },
        ),
        Attempt::new(
            "key-read",
            "reads a key of the host by its serial number; escaped when it contains the secret",
            read,
        ),
        Attempt::new(
            "key-request",
            "requests a key of the host by its description; escaped when the call succeeds",
            |facts| {
                let name = text(facts.text("key-name")?)?;
                // Without call-out data the kernel starts no program for it.
                let found = call!(SYS_request_key, c"user", &name, Argument::NULL, 0);
                refused(found, "got the key")
            },
        ),
        Attempt::new(
            "key-search",
            "searches the session, user and user-session keyrings for a key of the host; escaped when one contains it",
            search,
        ),
        Attempt::new(
            "key-session",
            "joins a new session keyring; escaped when the call succeeds",
            |_| {
                refused(
                    call!(
                        SYS_keyctl,
                        libc::KEYCTL_JOIN_SESSION_KEYRING,
                        Argument::NULL
                    ),
                    "joined a new session keyring",
                )
            },
        ),
        Attempt::new(
            "key-list",
            "searches /proc/keys for a key of the host; escaped when it is listed",
            |facts| {
                let name = facts.text("key-name")?;
                match fs::read_to_string("/proc/keys") {
                    Ok(list) if list.contains(name) => escaped("key is listed"),
                    Ok(_) => held("key is not listed"),
                    Err(error) => held(error),
                }
            },
        ),
    ],
};

fn read(facts: &Facts) -> Outcome {
    let mut payload = [0_u8; 256];
    let length = payload.len();
    let key = facts.number("key")?;
    match call!(
        SYS_keyctl,
        libc::KEYCTL_READ,
        key,
        Argument::write(&mut payload),
        length
    ) {
        Ok(_) if facts.finds_secret(&payload)? => escaped("read the secret from the key"),
        Ok(_) => held("key does not contain the secret"),
        Err(error) => held(error),
    }
}

fn search(facts: &Facts) -> Outcome {
    let name = text(facts.text("key-name")?)?;
    let mut last = String::new();
    for keyring in [
        libc::KEY_SPEC_SESSION_KEYRING,
        libc::KEY_SPEC_USER_KEYRING,
        libc::KEY_SPEC_USER_SESSION_KEYRING,
    ] {
        match call!(SYS_keyctl, libc::KEYCTL_SEARCH, keyring, c"user", &name, 0) {
            Ok(key) => return escaped(format!("keyring {keyring} contains the key as {key}")),
            Err(error) => last = error.to_string(),
        }
    }
    held(last)
}
