//! `sandbar launch`.

use std::{process::ExitCode, time::Duration};

use clap::{ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::{ProcessSpec, Readiness, Replay, RestartPolicy, SessionId, StdinMode, WaitFor};

use crate::{
    arguments::{argv, flag, id, json, many, option, optional, pairs, required, user},
    attachment::join,
    attendance::AtTheEnd,
    env_vars,
    failure::Outcome,
    interrupt::Interrupts,
    output, parse,
    terminal::{CLASSIC, Terminal},
    view::ProcessView,
};

#[derive(Debug)]
pub(crate) struct LaunchArgs {
    id: SessionId,
    spec: ProcessSpec,
    wait: bool,
    json: bool,
    /// Whether to stay with it.
    stays: bool,
    /// Ours, when it runs at one like it and we stay.
    terminal: Option<Terminal>,
}

pub(crate) fn define() -> Command {
    Command::new("launch")
        .about("Start a long-running process in a sandbox and print its id")
        .long_about(
            "\
Start a long-running process in a sandbox and print its id.

The process goes on when this command has ended. With --port it is reached from outside, at the address that `sandbar ps`
shows and that is said here on stderr. With --ready it counts as running only when it accepts connections, answers a
request or has written a text; when it does not in time, it is stopped. A process that ended by itself is started again
when --restart says so, after a wait that doubles from 100 ms to 10 s.

With -i or -t we stay with it, as `sandbar attach` does, and its id is said on stderr. -t gives it a terminal of its own that
follows ours. With -d as well, it only waits for somebody who attaches.",
        )
        .after_help(
            "\
Examples:
  sandbar launch build-42 -- make watch
  p=$(sandbar launch build-42 --port 8000 --ready tcp --wait -- python3 -m http.server 8000)
  sandbar launch build-42 --port 3000 --ready http:/health --restart on-failure:5 -- npm start
  sandbar launch -it build-42 -- python3          leave it with Ctrl-P Ctrl-Q, come back with `sandbar attach`
  sandbar launch -itd build-42 -- bash
  sandbar launch build-42 --ready 'log:ready to accept connections' --ready-timeout 1m -- postgres -D data",
        )
        .arg(id())
        .args([
            option("port", "PORT", "A TCP port it listens on, to be reached from outside").value_parser(parse::port),
            option("ready", "PROBE", "When it counts as running: tcp, http:/PATH or log:TEXT; at once when left out. tcp:PORT and http:PORT/PATH look at another port than --port")
                .value_parser(parse::readiness),
            option("ready-timeout", "TIME", "How long it may take until then; 30s when left out")
                .value_parser(parse::duration),
            option("restart", "WHEN", "Start it again when it ended by itself: no, on-failure, on-failure:TIMES, always")
                .value_parser(parse::restart_policy),
            pairs("env", "Set a variable; may be given several times").short('e'),
            option("cwd", "DIR", "The directory it starts in; /workspace when left out").short('w'),
            user(),
            flag("wait", "Wait until it is ready, and fail when it does not get there"),
            flag("interactive", "Stay with it: our input goes there, what it writes comes here").short('i'),
            flag("tty", "Run it at a terminal of its own, and stay with it").short('t'),
            flag("stdin", "Keep its input open for those who attach or send some later"),
            flag("detach", "Do not stay with it, also with -i and -t").short('d'),
            json().conflicts_with_all(["interactive", "tty"]),
        ])
        .arg(argv())
}

impl LaunchArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Outcome<Self> {
        let defaults = ProcessSpec::new(many::<String>(matches, "argv"));
        let [interactive, tty, stdin, detach] =
            ["interactive", "tty", "stdin", "detach"].map(|name| matches.get_flag(name));
        let stays = (interactive || tty) && !detach;
        let terminal = (tty && stays).then(|| Terminal::of_stdin("-t", "leave `-t` out, or give `-d` as well"));
        let terminal = terminal.transpose()?;
        let mut spec = ProcessSpec {
            stdin: if interactive || tty || stdin { StdinMode::Piped } else { StdinMode::Null },
            terminal: tty.then(|| terminal.as_ref().map_or(CLASSIC, Terminal::size)),
            env: many(matches, "env").into_iter().collect(),
            cwd: optional(matches, "cwd"),
            user: optional(matches, "user"),
            expose_port: optional(matches, "port"),
            ready: optional::<Readiness>(matches, "ready").unwrap_or_default(),
            ready_timeout: optional::<Duration>(matches, "ready-timeout").unwrap_or(defaults.ready_timeout),
            restart: optional::<RestartPolicy>(matches, "restart").unwrap_or_default(),
            ..defaults
        };
        if let Some(kind) = Terminal::kind().filter(|_| tty) {
            spec.env.entry(env_vars::TERM.to_owned()).or_insert(kind);
        }
        let (wait, json) = (matches.get_flag("wait"), matches.get_flag("json"));
        Ok(Self { id: required(matches, "id")?, spec, wait, json, stays, terminal })
    }
}

pub(crate) async fn execute(args: LaunchArgs, client: &Client) -> Outcome {
    let mut interrupts = args.stays.then(Interrupts::listen).transpose()?;
    let process = client.launch_process(&args.id, args.spec).await?;
    if args.json {
        let process =
            if args.wait { client.wait_process(&args.id, &process.id, WaitFor::Ready).await? } else { process };
        output::json(&ProcessView::from(&process))?;
        return Ok(ExitCode::SUCCESS);
    }
    let name = process.id.clone();
    if args.stays {
        // Here stdout is the process's.
        output::say(format_args!("process {name}"));
    } else {
        output::line(&name)?;
    }
    if args.wait {
        let process = client.wait_process(&args.id, &process.id, WaitFor::Ready).await?;
        if let Some(address) = process.address {
            output::say(format_args!("listening on {address}"));
        }
    } else if let (Some(port), Some(address)) = (process.port, process.address) {
        output::say(format_args!("port {port} will be reached at {address}"));
    }
    if let Some(interrupts) = &mut interrupts {
        let how = (Replay::All, AtTheEnd::Close);
        return join(client, &args.id, &name, how, args.terminal.as_ref(), interrupts).await;
    }
    Ok(ExitCode::SUCCESS)
}
