//! Programs people use for the same today.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use sandbar_testing::measure::milliseconds;

/// A program that makes a box, says hello in it, and takes it down.
pub(crate) struct Rival {
    command: Box<dyn Fn() -> Command>,
}

impl Rival {
    /// Milliseconds from start to end.
    pub(crate) fn run(&self) -> f64 {
        let started = Instant::now();
        let output = (self.command)().stdin(Stdio::null()).stderr(Stdio::inherit()).output().unwrap();
        let took = milliseconds(started);
        assert_eq!(output.stdout, b"hello\n");
        took
    }
}

/// Those that are installed here.
pub(crate) fn all(root: &Path) -> Vec<(&'static str, Rival)> {
    let root = root.to_owned();
    let bubblewrap = move || {
        let mut command = Command::new("bwrap");
        command.args(["--unshare-all", "--die-with-parent", "--bind"]).arg(&root).arg("/");
        command.args(["--proc", "/proc", "--dev", "/dev", "/usr/bin/echo", "hello"]);
        command
    };
    vec![("bwrap", Rival { command: Box::new(bubblewrap) })]
}
