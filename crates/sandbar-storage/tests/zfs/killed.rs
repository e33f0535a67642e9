//! `kill -9` at random moments: acknowledged calls are kept, interrupted ones are complete or
//! absent.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::Duration,
};

use sandbar_core::ByteCount;
use sandbar_storage::{Storage, ZfsStorage};
use sandbar_testing::ZfsPool;

use crate::support::{config, id, make_base};

/// Expected volume: content of its file, and its snapshots with their content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Volume {
    content: String,
    snapshots: Vec<(String, String)>,
}

type Model = BTreeMap<String, Volume>;

struct Worker {
    process: Child,
    commands: ChildStdin,
    answers: Receiver<String>,
}

impl Worker {
    fn start(pool: &str) -> Self {
        let program = std::env::current_exe()
            .unwrap()
            .parent()
            .unwrap()
            .parent()
            .unwrap()
            .join("examples/zfs_worker");
        let mut process = Command::new(program)
            .arg(pool)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, answers) = channel();
        let output = BufReader::new(process.stdout.take().unwrap());
        std::thread::spawn(move || {
            output
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        let commands = process.stdin.take().unwrap();
        assert_eq!(answers.recv().unwrap(), "ready");
        Self {
            process,
            commands,
            answers,
        }
    }

    /// Sends a command and waits at most that long; `false` when it was not done by then.
    fn does(&mut self, command: &str, at_most: Duration) -> bool {
        writeln!(self.commands, "{command}").unwrap();
        match self.answers.recv_timeout(at_most) {
            Ok(answer) => answer == "done",
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => panic!("the worker failed at `{command}`"),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let bound = u64::try_from(from.len()).unwrap();
        (bound > 0).then(|| &from[usize::try_from(self.below(bound)).unwrap()])
    }
}

/// A command that makes sense now, and the model after it.
fn next(model: &Model, dice: &mut Dice, count: u64) -> (String, Model) {
    let mut after = model.clone();
    let names: Vec<String> = model.keys().cloned().collect();
    let fresh = format!("n{count}");
    let Some(name) = dice.pick(&names) else {
        after.insert(fresh.clone(), Volume::default());
        return (format!("create {fresh}"), after);
    };
    let volume = after.get_mut(name).unwrap();
    let snapshot = dice.pick(&volume.snapshots).cloned();
    let command = match (dice.below(9), snapshot) {
        (0, _) if names.len() < 6 => {
            after.insert(fresh.clone(), Volume::default());
            format!("create {fresh}")
        }
        (1, Some((snapshot, content))) if names.len() < 6 => {
            after.insert(
                fresh.clone(),
                Volume {
                    content,
                    snapshots: Vec::new(),
                },
            );
            format!("fork {name} {snapshot} {fresh}")
        }
        (2 | 3, Some((snapshot, content))) => {
            let position = volume
                .snapshots
                .iter()
                .position(|(other, _)| *other == snapshot)
                .unwrap();
            volume.snapshots.truncate(position + 1);
            volume.content = content;
            format!("rollback {name} {snapshot}")
        }
        (4, Some((snapshot, _))) => {
            volume.snapshots.retain(|(other, _)| *other != snapshot);
            format!("drop {name} {snapshot}")
        }
        (5, _) => {
            after.remove(name);
            format!("delete {name}")
        }
        (6, _) => {
            volume.content.clone_from(&fresh);
            format!("write {name} {fresh}")
        }
        _ => {
            volume
                .snapshots
                .push((fresh.clone(), volume.content.clone()));
            format!("snapshot {name} {fresh}")
        }
    };
    (command, after)
}

/// Reads the actual state.
fn observe(store: &ZfsStorage) -> Model {
    let volumes = store.volumes().unwrap();
    let observed = volumes.into_iter().map(|volume| {
        let root = store.mount(&volume).unwrap();
        let content = std::fs::read_to_string(root.join("file")).unwrap_or_default();
        let names = store
            .snapshots(&volume)
            .unwrap()
            .into_iter()
            .map(|snapshot| snapshot.name);
        let snapshots = names.map(|name| {
            let view = store
                .view(&volume, &sandbar_storage::ForkPoint::Snapshot(name.clone()))
                .unwrap();
            let file = view.layers[0].upper.as_ref().unwrap().join("file");
            (
                name.to_string(),
                std::fs::read_to_string(file).unwrap_or_default(),
            )
        });
        (
            volume.to_string(),
            Volume {
                content,
                snapshots: snapshots.collect(),
            },
        )
    });
    observed.collect()
}

#[test]
fn kill_at_random_moments_keeps_every_acknowledged_call() {
    let pool = ZfsPool::new(ByteCount::gib(1).get()).unwrap();
    make_base_and_close(&pool);
    let seed = u64::from(std::process::id()) << 20 | 1;
    eprintln!("seed {seed}");
    let mut dice = Dice(seed);
    let mut model = Model::new();
    let mut count = 0;
    for life in 0..sandbar_testing::scaled(50, 5) {
        let mut worker = Worker::start(pool.name());
        let calm = dice.below(6);
        for _ in 0..calm {
            count += 1;
            let (command, after) = next(&model, &mut dice, count);
            assert!(worker.does(&command, Duration::from_mins(1)), "{command}");
            model = after;
        }
        count += 1;
        let (command, after) = next(&model, &mut dice, count);
        let is_done = worker.does(&command, Duration::from_micros(dice.below(60_000)));
        drop(worker);
        let store = ZfsStorage::open(&config(pool.name())).unwrap();
        let observed = observe(&store);
        let is_write = command.starts_with("write");
        if is_done {
            assert_eq!(observed, after, "life {life}, after `{command}`");
        } else if is_write {
            let (mut without, mut expected) = (observed.clone(), model.clone());
            without
                .values_mut()
                .chain(expected.values_mut())
                .for_each(|volume| volume.content.clear());
            assert_eq!(without, expected, "life {life}, in `{command}`");
        } else {
            assert!(
                observed == model || observed == after,
                "life {life}, in `{command}`: {observed:#?}\n{model:#?}"
            );
        }
        model = observed;
        store.close().unwrap();
    }
    let store = ZfsStorage::open(&config(pool.name())).unwrap();
    for volume in model.keys() {
        store.delete(&id(volume)).unwrap();
    }
    store.settle().unwrap();
    let sessions = format!("{}/sessions", pool.name());
    let left = pool
        .zfs(&["list", "-H", "-t", "all", "-o", "name", "-r", &sessions])
        .unwrap();
    assert_eq!(left.trim(), sessions);
}

fn make_base_and_close(pool: &ZfsPool) {
    let store = ZfsStorage::open(&config(pool.name())).unwrap();
    make_base(&store);
    store.close().unwrap();
}
