//! Works on a ZFS pool until it is killed. `tests/zfs/killed.rs` starts it, kills it and looks at
//! what is left.
//!
//! Reads one command a line, `create v`, `write v text`, `snapshot v name`, `rollback v name`,
//! `fork v name w`, `drop v name` or `delete v`, and answers each with `done` when it is finished.
#![expect(clippy::print_stdout, reason = "its output is the answer")]

use std::{error::Error, fs::File, io::Write};

use sandbar_core::LaterSnapshots;
use sandbar_storage::{ForkPoint, Storage, VolumeSpec, ZfsConfig, ZfsStorage};

fn main() -> Result<(), Box<dyn Error>> {
    let pool = std::env::args()
        .nth(1)
        .ok_or("the name of a pool is missing")?;
    let store = ZfsStorage::open(&ZfsConfig {
        pool,
        bases_dataset: None,
        sessions_dataset: None,
    })?;
    println!("ready");
    for line in std::io::stdin().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["create", volume] => store.create(
                &volume.parse()?,
                &VolumeSpec {
                    base: "b".parse()?,
                    quota: None,
                },
            )?,
            ["write", volume, text] => {
                let mut file = File::create(store.mount(&volume.parse()?)?.join("file"))?;
                file.write_all(text.as_bytes())?;
                file.sync_all()?;
            }
            ["snapshot", volume, name] => drop(store.snapshot(&volume.parse()?, &name.parse()?)?),
            ["rollback", volume, name] => {
                store.rollback(&volume.parse()?, &name.parse()?, LaterSnapshots::Drop)?;
            }
            ["fork", volume, name, fork] => {
                store.fork(
                    &volume.parse()?,
                    &ForkPoint::Snapshot(name.parse()?),
                    &fork.parse()?,
                    None,
                )?;
            }
            ["drop", volume, name] => store.delete_snapshot(&volume.parse()?, &name.parse()?)?,
            ["delete", volume] => store.delete(&volume.parse()?)?,
            _ => return Err(format!("unknown command `{line}`").into()),
        }
        println!("done");
    }
    Ok(())
}
