//! The process that runs a target, over and over.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::FileExt as _,
    path::Path,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    process::{Gid, Resource, Rlimit, Uid, geteuid, setrlimit},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};
use sandbar_fuzz::{Mutator, Target};

use crate::{
    corpus,
    coverage::{Seen, comparisons},
};

/// What this process is started with.
pub(crate) const COMMAND: &str = "loop";

/// As the threads that serve requests have.
const STACK: usize = 2 << 20;

/// Of address space. No parser needs a fraction of it for inputs this short.
const MEMORY: u64 = 2 << 30;

/// Who runs targets.
pub(crate) const NOBODY: u32 = 65534;

/// What is being tried, for whoever finds this process dead.
#[derive(Debug)]
pub(crate) struct Notebook(File);

impl Notebook {
    const NAME: &str = "current";

    fn open(directory: &Path) -> std::io::Result<Self> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(directory.join(Self::NAME))
            .map(Self)
    }

    fn write(&self, runs: u64, edges: usize, input: &[u8]) -> std::io::Result<()> {
        let head = [runs, edges as u64, input.len() as u64].map(u64::to_le_bytes).concat();
        self.0.write_all_at(&[&head, input].concat(), 0)
    }

    /// How often the target ran, what it has seen, and what it was given last.
    pub(crate) fn read(directory: &Path) -> Option<(u64, u64, Vec<u8>)> {
        let bytes = std::fs::read(directory.join(Self::NAME)).ok()?;
        let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let input = bytes.get(24..)?.get(..usize::try_from(number(16)?).ok()?)?;
        Some((number(0)?, number(8)?, input.to_vec()))
    }
}

/// Runs the target for as long as it was told. Dies as the target does.
pub(crate) fn run(target: Option<&'static Target>, seconds: &str, directory: &str, seed: &str) -> ExitCode {
    let (Some(target), Ok(seconds), Ok(seed)) = (target, seconds.parse(), seed.parse()) else {
        return ExitCode::FAILURE;
    };
    let limit = Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) };
    let Ok(()) = setrlimit(Resource::As, limit) else { return ExitCode::FAILURE };
    let directory = Path::new(directory).to_owned();
    // Read while it may be: the seeds can lie where nobody else looks.
    let seeds = corpus::load(&target.seeds());
    let Ok(()) = become_nobody() else { return ExitCode::FAILURE };
    let work = move || fuzz(target, seeds, Duration::from_secs(seconds), &directory, seed);
    let Ok(worker) = thread::Builder::new().stack_size(STACK).spawn(work) else { return ExitCode::FAILURE };
    match worker.join() {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            eprintln!("could not go on: {error}");
            ExitCode::FAILURE
        }
        // The panic hook has told.
        Err(_) => ExitCode::FAILURE,
    }
}

/// A target that finds a way to write somewhere may write nowhere.
fn become_nobody() -> rustix::io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    set_thread_groups(&[])?;
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)
}

fn fuzz(target: &Target, seeds: Vec<Vec<u8>>, time: Duration, directory: &Path, seed: u64) -> std::io::Result<()> {
    let end = Instant::now() + time;
    let notebook = Notebook::open(directory)?;
    let found = directory.join("corpus");
    let (mut seen, mut runs) = (Seen::default(), 0);
    let mut mutator = Mutator::new(seed, target.words);
    let mut corpus: Vec<Vec<u8>> = Vec::new();
    for input in seeds.into_iter().chain(corpus::load(&found)).chain([Vec::new()]) {
        runs += 1;
        notebook.write(runs, seen.edges(), &input)?;
        Seen::begin();
        (target.run)(&input);
        if seen.learn() || corpus.is_empty() {
            corpus.push(input);
        }
    }
    while Instant::now() < end {
        // What came last leads on.
        let latest = mutator.random().bool();
        let from = if latest { corpus.len().saturating_sub(16) } else { 0 };
        let parent = corpus[mutator.random().usize(from..corpus.len())].clone();
        let compared = comparisons(|| (target.run)(&parent));
        for _ in 0..64 {
            let mut input = parent.clone();
            let other = mutator.random().usize(..corpus.len());
            mutator.mutate(&mut input, &corpus[other], &compared);
            runs += 1;
            notebook.write(runs, seen.edges(), &input)?;
            Seen::begin();
            (target.run)(&input);
            if seen.learn() {
                corpus::keep(&found, "", &input)?;
                corpus.push(input);
            }
        }
    }
    notebook.write(runs, seen.edges(), &[])
}
