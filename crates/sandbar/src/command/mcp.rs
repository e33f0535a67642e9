//! `sandbar mcp`.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::{BaseName, Result, SessionId};
use sandbar_mcp::{DefaultSandbox, Ended, McpServer, PortNames, serve_stdio};

use crate::{
    arguments::{flag, option, optional, required},
    failure::{Outcome, exit},
    interrupt::Interrupts,
    output, parse,
};

#[derive(Debug)]
pub(crate) struct McpArgs {
    sandbox: Option<SessionId>,
    base: BaseName,
    keep: bool,
}

pub(crate) fn define() -> Command {
    Command::new("mcp")
        .about("Serve MCP clients on stdin and stdout")
        .long_about(
            "\
Serve MCP clients on stdin and stdout: sandboxes and their tools for any program that speaks the Model Context Protocol.

A client starts this by itself; what it needs is the command. Calls that name no sandbox go to the one of --sandbox, or to
one that is made when it is first needed and destroyed when the client closes stdin. Sandboxes made with the tool
sandbox_create stay until they are destroyed.

A host serves the same over HTTP, at /mcp on its own port, with its token: http://127.0.0.1:9100/mcp?sandbox=ID.",
        )
        .after_help(
            "\
Examples:
  sandbar mcp
  sandbar mcp --sandbox build-42
  sandbar mcp --base debian --keep
  npx @modelcontextprotocol/inspector sandbar mcp        look at it

In the configuration of a client:
  {
    \"mcpServers\": {
      \"sandbar\": {
        \"command\": \"sandbar\",
        \"args\": [\"mcp\"],
        \"env\": {\"SANDBAR_URL\": \"http://127.0.0.1:9100\", \"SANDBAR_TOKEN\": \"…\"}
      }
    }
  }
  `env` is for a host elsewhere, or a client that runs as another user than the host.

Over HTTP:
  {\"mcpServers\": {\"sandbar\": {\"url\": \"http://127.0.0.1:9100/mcp\", \"headers\": {\"Authorization\": \"Bearer …\"}}}}",
        )
        .args([
            option("sandbox", "ID", "The sandbox of calls that name none; it is left as it is")
                .value_parser(parse::word::<SessionId>)
                .conflicts_with("keep"),
            option("base", "NAME", "The base of new sandboxes; `sandbar base ls` lists them")
                .default_value("host")
                .value_parser(parse::word::<BaseName>),
            flag("keep", "Keep the sandbox that was made for calls that name none, and say which it is"),
        ])
}

impl McpArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Result<Self> {
        Ok(Self {
            sandbox: optional(matches, "sandbox"),
            base: required(matches, "base")?,
            keep: matches.get_flag("keep"),
        })
    }
}

pub(crate) async fn execute(args: McpArgs, client: &Client) -> Outcome {
    let mut interrupts = Interrupts::listen()?;
    let default = match args.sandbox {
        Some(id) => {
            // A client shows a program that does not start, and rarely what a tool answers.
            client.get_session(&id).await?;
            DefaultSandbox::given(id)
        }
        None => DefaultSandbox::scratch(args.base, args.keep),
    };
    let server = McpServer::new(client.clone(), default.clone(), PortNames::of_host(client.url()));
    let mut signal = None;
    let stop = async { signal = Some(interrupts.next().await) };
    let ended = serve_stdio(server, tokio::io::stdin(), tokio::io::stdout(), stop).await;
    // However it ended, nothing is left behind.
    let closed = default.close(client).await;
    let ended = ended?;
    if let Some(kept) = closed? {
        output::say(format_args!("kept sandbox {kept}"));
    }
    Ok(match (ended, signal) {
        (Ended::Stopped, Some(signal)) => ExitCode::from(exit::signalled(signal)),
        (Ended::OutputClosed, _) => ExitCode::from(exit::BROKEN_PIPE),
        _ => ExitCode::SUCCESS,
    })
}
