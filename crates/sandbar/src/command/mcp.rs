//! `sandbar mcp`.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use sandbar_client::Client;
use sandbar_core::{BaseName, ErrorCode, Result, SessionId, TokenName, TokenScope};
use sandbar_mcp::{DefaultSandbox, Ended, McpServer, PortNames, serve_stdio};

use crate::{
    cli::parse,
    client::connection::ConnectionOptions,
    failure::{Outcome, exit},
    terminal::{Interrupts, output},
};

/// Lifetime of the token of a confined connection. It matters only if the program was killed and
/// could not revoke the token.
const TOKEN_LIFETIME: Duration = Duration::from_hours(30 * 24);

#[derive(Args, Debug)]
#[command(
    about = "Serve MCP clients on stdin and stdout",
    long_about = "\
Serve MCP clients on stdin and stdout: sandboxes and their tools for any program that speaks the Model Context Protocol.

A client starts this command itself. Calls that name no sandbox use one that is created on first use and destroyed when the
client closes stdin. Sandboxes made with the tool sandbox_create stay until they are
destroyed. The client may do what the token of this command may do: with the host's own token, everything.

With --sandbox the client is confined to that sandbox: it works with a token of scope session:ID, which is made for it and
revoked at the end, or with the one in SANDBAR_TOKEN if that cannot create tokens. It can neither see nor change any other.

A host serves the same over HTTP, at /mcp on its own port, with its token: http://127.0.0.1:9100/mcp?sandbox=ID.",
    after_help = "\
Examples:
  sandbar mcp
  sandbar mcp --sandbox build-42
  sandbar mcp --base debian --keep
  npx @modelcontextprotocol/inspector sandbar mcp        inspect it

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
  `env` is for a host on another machine, or a client that runs as another user than the host.

Over HTTP:
  {\"mcpServers\": {\"sandbar\": {\"url\": \"http://127.0.0.1:9100/mcp\", \"headers\": {\"Authorization\": \"Bearer …\"}}}}"
)]
pub(crate) struct McpArgs {
    /// Confine the client to this sandbox, which is kept at the end
    #[arg(long, value_name = "ID", value_parser = parse::word::<SessionId>, conflicts_with = "keep")]
    sandbox: Option<SessionId>,
    /// The base of new sandboxes; `sandbar base ls` lists them
    #[arg(long, value_name = "NAME", default_value = "host", value_parser = parse::word::<BaseName>)]
    base: BaseName,
    /// Keep the sandbox that was created for calls that name none, and print its id
    #[arg(long)]
    keep: bool,
}

pub(crate) async fn execute(args: McpArgs, connection: &ConnectionOptions) -> Outcome {
    let client = &connection.connect().await?;
    let mut interrupts = Interrupts::listen()?;
    let Caller {
        client: caller,
        token,
        default,
    } = match args.sandbox {
        Some(id) => Caller::confined(connection, client, id).await?,
        None => Caller {
            client: client.clone(),
            token: None,
            default: DefaultSandbox::scratch(args.base, args.keep),
        },
    };
    let server = McpServer::new(caller, default.clone(), PortNames::of_host(client.url()));
    let mut signal = None;
    let stop = async { signal = Some(interrupts.next().await) };
    let ended = Box::pin(serve_stdio(
        server,
        tokio::io::stdin(),
        tokio::io::stdout(),
        stop,
    ))
    .await;
    // Clean up before the error is returned.
    let closed = default.close(client).await;
    let revoked = match token {
        Some(token) => revoke(client, &token).await,
        None => Ok(()),
    };
    let (ended, closed, ()) = (ended?, closed?, revoked?);
    if let Some(kept) = closed {
        output::say(format_args!("kept sandbox {kept}"));
    }
    Ok(match (ended, signal) {
        (Ended::Stopped, Some(signal)) => ExitCode::from(exit::signalled(signal)),
        _ => ExitCode::SUCCESS,
    })
}

/// Identity and default sandbox of the client's calls.
struct Caller {
    client: Client,
    /// Token that was created for it.
    token: Option<TokenName>,
    default: DefaultSandbox,
}

impl Caller {
    /// Returns a caller that reaches a single sandbox. A token that can create tokens is exchanged
    /// for one with the scope of that sandbox; any other token is not an admin token and is used as
    /// it is.
    async fn confined(
        connection: &ConnectionOptions,
        client: &Client,
        id: SessionId,
    ) -> Result<Self> {
        // Fails at the start: clients report that, and rarely the errors of tools.
        client.get_session(&id).await?;
        let name = TokenName::new(format!("mcp-{}", SessionId::random()))?;
        let (caller, token) = match client
            .create_token(
                &name,
                &[TokenScope::Session(id.clone())],
                Some(TOKEN_LIFETIME),
            )
            .await
        {
            Ok(made) => match connection.connect_as(client.url(), &made.secret).await {
                Ok(caller) => (caller, Some(name)),
                Err(error) => {
                    revoke(client, &name).await?;
                    return Err(error);
                }
            },
            Err(error) if error.code() == ErrorCode::PermissionDenied => (client.clone(), None),
            Err(error) => return Err(error),
        };
        Ok(Self {
            client: caller,
            token,
            default: DefaultSandbox::only(id),
        })
    }
}

/// Revokes a token; it is gone already if its sandbox was destroyed.
async fn revoke(client: &Client, token: &TokenName) -> Result<()> {
    match client.revoke_token(token).await {
        Err(error) if error.code() != ErrorCode::TokenNotFound => Err(error),
        _ => Ok(()),
    }
}
