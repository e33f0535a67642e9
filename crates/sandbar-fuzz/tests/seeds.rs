//! What every build runs of the fuzzer: each target over its seeds, and over a few hundred changes of them. `make fuzz`
//! does more.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{fs, thread};

use sandbar_fuzz::{Mutator, TARGETS, Target};

/// As the threads that serve requests have.
const STACK: usize = 2 << 20;

const CHANGES: u64 = 300;

fn seeds(target: &Target) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(target.seeds()).into_iter().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Runs `work` for each target on a stack as small as a server's.
fn on_a_small_stack(work: impl Fn(&Target) + Send + 'static) {
    let run = move || TARGETS.iter().for_each(work);
    thread::Builder::new().stack_size(STACK).spawn(run).unwrap().join().unwrap();
}

#[test]
fn every_target_takes_its_seeds() {
    on_a_small_stack(|target| {
        let seeds = seeds(target);
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        for seed in seeds {
            (target.run)(&seed);
        }
    });
}

#[test]
fn changed_seeds_break_nothing() {
    // What makes files runs where it can harm nothing, which `make fuzz` sees to.
    on_a_small_stack(|target| {
        let seeds = if target.writes_files { Vec::new() } else { seeds(target) };
        for (number, seed) in seeds.iter().enumerate() {
            let mut mutator = Mutator::new(number as u64, target.words);
            for _ in 0..CHANGES / seeds.len() as u64 + 1 {
                let mut input = seed.clone();
                let other = mutator.random().usize(..seeds.len());
                mutator.mutate(&mut input, &seeds[other], &[]);
                (target.run)(&input);
            }
        }
    });
}

#[test]
fn no_two_targets_share_a_name_and_every_seed_has_a_target() {
    let mut names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    names.sort_unstable();
    assert!(names.is_sorted_by(|one, other| one < other), "{names:?}");
    let directory = TARGETS[0].seeds().parent().unwrap().to_owned();
    for entry in fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name();
        assert!(names.contains(&name.to_str().unwrap()), "nobody reads the seeds of {name:?}");
    }
}
