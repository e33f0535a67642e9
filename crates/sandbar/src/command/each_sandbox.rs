//! One call for each of several sandboxes, as `pause`, `resume`, `hibernate` and `wake` make it.

use std::process::ExitCode;

use clap::Args;
use sandbar_core::{Result, SessionId, SessionInfo};

use crate::{
    cli::parse,
    failure::{Outcome, exit, say_error},
    terminal::{Progress, output},
    view::SessionView,
};

// Not a doc comment: clap takes the doc comment of a flattened struct for the verb's description.
#[derive(Args, Debug)]
pub(crate) struct SandboxList {
    /// The sandboxes
    #[arg(value_name = "ID", required = true, value_parser = parse::word::<SessionId>)]
    ids: Vec<SessionId>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Makes a call for each sandbox and prints the ids of those it succeeded for. An error does not
/// keep the others from being tried; the exit code is 1 after any.
pub(crate) async fn for_each_sandbox(
    sandboxes: &SandboxList,
    progress: &'static str,
    call: impl AsyncFn(&SessionId) -> Result<SessionInfo>,
) -> Outcome {
    let mut code = ExitCode::SUCCESS;
    let mut done = Vec::new();
    for id in &sandboxes.ids {
        match Progress::text(progress).during(call(id)).await {
            Ok(session) if sandboxes.json => done.push(session),
            Ok(session) => output::line(&session.id)?,
            Err(error) => {
                say_error(&error);
                code = ExitCode::from(exit::FAILED);
            }
        }
    }
    if sandboxes.json {
        output::json(&done.iter().map(SessionView::from).collect::<Vec<_>>())?;
    }
    Ok(code)
}
