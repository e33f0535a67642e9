//! `sandbar tool`.

use std::{
    io::{self, Read as _, Write as _},
    process::ExitCode,
};

use clap::Args;
use sandbar_client::Client;
use sandbar_core::{
    Error, Resources, SessionId, ToolCallId, ToolEvent, ToolParams, ToolProgress, ToolRequest,
};

use crate::{
    cli::parse,
    client::connection::ConnectionOptions,
    failure::{Failure, Outcome, exit},
    terminal::output,
    view::{ToolInfoView, ToolView},
};

#[derive(Args, Debug)]
#[command(
    about = "Call a built-in tool in a sandbox",
    long_about = "\
Call a built-in tool in a sandbox: read_file, write_file, edit_file, grep, glob, list_dir, bash, run_code and git_*.

The output of the tool comes out while it runs. The exit code is 0 if the tool succeeded and 1 if it failed. With --call-id
a repeated call is not executed again: it joins the running call, or gets its result.",
    after_help = "\
Examples:
  sandbar tool --list
  sandbar tool build-42 list_dir
  sandbar tool build-42 grep --params '{\"pattern\": \"TODO\", \"include\": \"*.rs\"}'
  sandbar tool build-42 bash --params '{\"cmd\": \"make test\", \"timeout_ms\": 60000}' --json
  jq -n --rawfile content main.rs '{path: \"main.rs\", $content}' | sandbar tool build-42 write_file --params -"
)]
pub(crate) struct ToolArgs {
    /// The sandbox
    #[arg(required_unless_present = "list", value_parser = parse::word::<SessionId>)]
    id: Option<SessionId>,
    /// The tool; `sandbar tool --list` lists them
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// Its parameters, as a JSON object; - reads them from stdin
    #[arg(short, long, value_name = "JSON")]
    params: Option<String>,
    /// Id of this call; a random one when left out
    #[arg(long, value_name = "ID", value_parser = parse::word::<ToolCallId>)]
    call_id: Option<ToolCallId>,
    /// List the tools; --json has the schemas of their parameters
    #[arg(long, conflicts_with_all = ["id", "name", "params", "call_id"])]
    list: bool,
    /// With --list: print names only
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn execute(args: ToolArgs, connection: &ConnectionOptions) -> Outcome {
    // Both are given exactly when `--list` is not.
    let (Some(id), Some(tool)) = (args.id, args.name) else {
        return list(args.quiet, args.json, &connection.connect().await?).await;
    };
    if args.quiet {
        let error = Error::invalid("quiet", "`-q` works only with `--list`");
        return Err(Failure::Usage(
            error.with_hint("leave it out, or write `sandbar tool --list -q`"),
        ));
    }
    let call_id = match args.call_id {
        Some(call_id) => call_id,
        None => ToolCallId::new(SessionId::random().as_str())?,
    };
    let params = read_params(args.params.as_deref())?;
    let request = ToolRequest {
        tool,
        call: call_id,
        params,
        resources: Resources::default(),
    };
    call(&id, &request, args.json, &connection.connect().await?).await
}

/// Reads the parameters given by `--params`; `-` is stdin.
fn read_params(given: Option<&str>) -> Outcome<ToolParams> {
    match given {
        None => Ok(ToolParams::new()),
        Some("-") => {
            let mut text = String::new();
            io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| Error::io("could not read the parameters", error))?;
            parse_params(&text)
        }
        Some(text) => parse_params(text),
    }
}

fn parse_params(text: &str) -> Outcome<ToolParams> {
    serde_json::from_str(text).map_err(|error| {
        Failure::Usage(
            Error::invalid("params", "parameters are not a JSON object")
                .with_source(error)
                .with_hint("write them as `{\"path\": \"notes.txt\"}`"),
        )
    })
}

async fn list(quiet: bool, json: bool, client: &Client) -> Outcome {
    let tools = client.list_tools().await?;
    if json {
        output::json(&tools.iter().map(ToolInfoView::from).collect::<Vec<_>>())?;
    } else if quiet {
        tools.iter().try_for_each(|tool| output::line(&tool.name))?;
    } else {
        let first_sentence = |text: &str| {
            text.split_once(". ")
                .map_or(text, |(first, _)| first)
                .to_owned()
        };
        output::table(
            ["NAME", "DESCRIPTION"],
            tools
                .iter()
                .map(|tool| [tool.name.clone(), first_sentence(&tool.description)]),
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn call(id: &SessionId, request: &ToolRequest, json: bool, client: &Client) -> Outcome {
    let mut tool = client.execute_tool_stream(id, request).await?;
    let mut shown = String::new();
    while let Some(event) = tool.next_event().await? {
        let answer = match event {
            ToolEvent::Progress(progress) => {
                if !json {
                    show(&progress)?;
                    shown.push_str(&progress.content);
                }
                continue;
            }
            ToolEvent::Finished(answer) => answer,
        };
        if json {
            output::json(&ToolView::from(&answer))?;
        } else {
            // Output that was shown while the tool ran is not repeated.
            let rest = match answer.content.strip_prefix(&shown) {
                Some(rest) => rest,
                None if answer.truncated => "",
                None => &answer.content,
            };
            show(&ToolProgress {
                content: ended(rest),
                is_error: answer.is_error,
            })?;
        }
        return Ok(ExitCode::from(if answer.is_error {
            exit::FAILED
        } else {
            0
        }));
    }
    Err(Error::internal("tool call ended without a result").into())
}

/// Writes output of a tool: errors to stderr, anything else to stdout.
fn show(progress: &ToolProgress) -> Outcome<()> {
    let bytes = progress.content.as_bytes();
    let written = if progress.is_error {
        io::stderr().write_all(bytes)
    } else {
        io::stdout()
            .write_all(bytes)
            .and_then(|()| io::stdout().flush())
    };
    written.map_err(Failure::writing)
}

/// Returns the text with a final line break, unless it is empty.
fn ended(text: &str) -> String {
    match text {
        "" => String::new(),
        text if text.ends_with('\n') => text.to_owned(),
        text => format!("{text}\n"),
    }
}
