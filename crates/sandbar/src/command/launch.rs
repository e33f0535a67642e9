//! `sandbar launch`.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use sandbar_core::{ProcessSpec, Readiness, Replay, RestartPolicy, StdinMode, WaitFor};

use crate::{
    cli::{
        arguments::{SandboxArg, StartOptions},
        parse,
    },
    client::{connection::ConnectionOptions, remote_attach::attach, remote_exec::OnStdinEof},
    env_vars,
    failure::Outcome,
    terminal::{DEFAULT_SIZE, Interrupts, Terminal, output},
    view::ProcessView,
};

#[derive(Args, Debug)]
#[command(
    about = "Start a long-running process in a sandbox and print its id",
    long_about = "\
Start a long-running process in a sandbox and print its id.

The process keeps running when this command has ended. With --port it is reachable from outside, at the address that
`sandbar ps` shows and that is printed here on stderr. With --ready it counts as running only once it accepts connections,
answers a request or has written a text; if it does not in time, it is stopped. --restart starts a process that exited by
itself again, after a delay that doubles from 100 ms to 10 s.

With -i or -t this command attaches to it, as `sandbar attach` does, and prints its id on stderr. -t gives it a terminal of
its own that follows ours. With -d as well, it waits for a later `sandbar attach`.",
    after_help = "\
Examples:
  sandbar launch build-42 -- make watch
  p=$(sandbar launch build-42 --port 8000 --ready tcp --wait -- python3 -m http.server 8000)
  sandbar launch build-42 --port 3000 --ready http:/health --restart on-failure:5 -- npm start
  sandbar launch -it build-42 -- python3          detach with Ctrl-P Ctrl-Q, attach again with `sandbar attach`
  sandbar launch -itd build-42 -- bash
  sandbar launch build-42 --ready 'log:ready to accept connections' --ready-timeout 1m -- postgres -D data"
)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct LaunchArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// TCP port it listens on, to be reachable from outside
    #[arg(long, value_parser = parse::port)]
    port: Option<u16>,
    /// When it counts as running: tcp, http:/PATH or log:TEXT; at once when left out. tcp:PORT and
    /// http:PORT/PATH probe another port than --port
    #[arg(long, value_name = "PROBE", value_parser = parse::readiness)]
    ready: Option<Readiness>,
    /// Timeout of the probe; 30s when left out
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    ready_timeout: Option<Duration>,
    /// Start it again after it exited by itself: no, on-failure, on-failure:TIMES, always
    #[arg(long, value_name = "WHEN", value_parser = parse::restart_policy)]
    restart: Option<RestartPolicy>,
    /// Set a variable; may be given several times
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = parse::key_value)]
    env: Vec<(String, String)>,
    #[command(flatten)]
    start: StartOptions,
    /// Wait until it is ready; fail if it is not in time
    #[arg(long)]
    wait: bool,
    /// Attach to it: our input goes to it, its output comes out here
    #[arg(short, long)]
    interactive: bool,
    /// Run it at a terminal of its own, and attach to it
    #[arg(short, long)]
    tty: bool,
    /// Keep its stdin open for clients that attach or send input later
    #[arg(long)]
    stdin: bool,
    /// Do not attach to it, even with -i and -t
    #[arg(short, long)]
    detach: bool,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["interactive", "tty"])]
    json: bool,
    /// The program and its arguments; no shell is involved
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    argv: Vec<String>,
}

impl LaunchArgs {
    /// Returns whether this command attaches to the process.
    fn attaches(&self) -> bool {
        (self.interactive || self.tty) && !self.detach
    }

    /// Returns our terminal if the process gets one and this command attaches to it.
    fn terminal(&self) -> Outcome<Option<Terminal>> {
        let wanted = self.tty && self.attaches();
        wanted
            .then(|| Terminal::of_stdin("-t", "leave `-t` out, or give `-d` as well"))
            .transpose()
    }

    fn into_spec(self, terminal: Option<&Terminal>) -> ProcessSpec {
        let defaults = ProcessSpec::new(self.argv);
        let piped = self.interactive || self.tty || self.stdin;
        let mut spec = ProcessSpec {
            stdin: if piped {
                StdinMode::Piped
            } else {
                StdinMode::Null
            },
            terminal: self
                .tty
                .then(|| terminal.map_or(DEFAULT_SIZE, Terminal::size)),
            env: self.env.into_iter().collect(),
            cwd: self.start.cwd,
            user: self.start.user,
            expose_port: self.port,
            ready: self.ready.unwrap_or_default(),
            ready_timeout: self.ready_timeout.unwrap_or(defaults.ready_timeout),
            restart: self.restart.unwrap_or_default(),
            ..defaults
        };
        if let Some(kind) = Terminal::kind().filter(|_| self.tty) {
            spec.env.entry(env_vars::TERM.to_owned()).or_insert(kind);
        }
        spec
    }
}

pub(crate) async fn execute(args: LaunchArgs, connection: &ConnectionOptions) -> Outcome {
    let (id, wait, json, attaches) = (
        args.sandbox.id.clone(),
        args.wait,
        args.json,
        args.attaches(),
    );
    let terminal = args.terminal()?;
    let spec = args.into_spec(terminal.as_ref());
    let client = connection.connect().await?;
    let mut interrupts = attaches.then(Interrupts::listen).transpose()?;
    let process = client.launch_process(&id, spec).await?;
    if json {
        let process = if wait {
            client
                .wait_process(&id, &process.id, WaitFor::Ready)
                .await?
        } else {
            process
        };
        output::json(&ProcessView::from(&process))?;
        return Ok(ExitCode::SUCCESS);
    }
    let name = process.id.clone();
    if attaches {
        // stdout carries the output of the process.
        output::say(format_args!("process {name}"));
    } else {
        output::line(&name)?;
    }
    if wait {
        let process = client
            .wait_process(&id, &process.id, WaitFor::Ready)
            .await?;
        if let Some(address) = process.address {
            output::say(format_args!("listening on {address}"));
        }
    } else if let (Some(port), Some(address)) = (process.port, process.address) {
        output::say(format_args!("port {port} will be reachable at {address}"));
    }
    if let Some(interrupts) = &mut interrupts {
        let how = (Replay::All, OnStdinEof::Close);
        return attach(&client, &id, &name, how, terminal.as_ref(), interrupts).await;
    }
    Ok(ExitCode::SUCCESS)
}
