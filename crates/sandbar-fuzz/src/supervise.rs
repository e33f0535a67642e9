//! Whoever watches a target from outside.

use std::{
    fs::{self, File},
    io::Read as _,
    os::unix::fs::chown,
    path::Path,
    process::{Child, Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use sandbar_fuzz::Target;

use crate::{
    corpus::keep,
    looping::{self, NOBODY, Notebook},
};

/// One input may take this long, on a machine that does something else, too.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs a target for `time` and says what came of it. `false`: it was found wanting, and the input is kept.
pub(crate) fn fuzz(target: &Target, time: Duration, work: &Path) -> bool {
    match attempt(target, time, work) {
        Ok(is_clean) => is_clean,
        Err(error) => {
            println!("{:<28} could not run: {error}", target.name);
            false
        }
    }
}

fn attempt(target: &Target, time: Duration, work: &Path) -> std::io::Result<bool> {
    let directory = work.join(target.name);
    fs::create_dir_all(directory.join("corpus"))?;
    if rustix::process::geteuid().is_root() {
        for path in [directory.clone(), directory.join("corpus")] {
            chown(path, Some(NOBODY), Some(NOBODY))?;
        }
    }
    let seed =
        std::env::var("SANDBAR_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    let complaint = directory.join("stderr");
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg(looping::COMMAND)
        .arg(target.name)
        .arg(time.as_secs().to_string())
        .arg(&directory)
        .arg(seed.to_string())
        .env("TMPDIR", &directory)
        .stderr(File::create(&complaint)?);
    let started = Instant::now();
    let ended = watch(&mut command.spawn()?, &directory)?;
    let (runs, edges, input) = Notebook::read(&directory).unwrap_or_default();
    let pace = runs / started.elapsed().as_secs().max(1);
    println!("{:<28} {runs:>10} runs, {pace:>6} a second, {edges:>6} edges, seed {seed}", target.name);
    let reason = match ended {
        Some(status) if status.success() => return Ok(true),
        Some(status) => status.to_string(),
        None => format!("hung for {} s", PATIENCE.as_secs()),
    };
    let kept = keep(&work.join("findings").join(target.name), "", &input)?;
    println!("FOUND {}: {reason}\n  input: {}\n{}", target.name, kept.display(), tail(&complaint));
    Ok(false)
}

/// Waits for the end; `None` when there is none because an input takes too long.
fn watch(child: &mut Child, directory: &Path) -> std::io::Result<Option<ExitStatus>> {
    let (mut last, mut since) = (0, Instant::now());
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let runs = Notebook::read(directory).map_or(0, |(runs, ..)| runs);
        if runs != last {
            (last, since) = (runs, Instant::now());
        }
        if since.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// The beginning of what the process said.
fn tail(path: &Path) -> String {
    let mut text = String::new();
    let _ = File::open(path).and_then(|file| file.take(2000).read_to_string(&mut text));
    text.lines().map(|line| format!("  {line}\n")).collect()
}
