//! A small agent loop: a scripted model works in a sandbox, makes a mistake, rolls back and tries
//! again.
//!
//! `agent-loop --directory DIR` works on a local directory, `agent-loop --url URL` in a session
//! on a Sandbar host; the token of the host is taken from `SANDBAR_TOKEN`. The loop is the same.

mod agent;
mod model;

use std::{env, io, io::Write as _, process::ExitCode, sync::Arc};

use sandbar_environment::{
    EnvironmentConfig, EnvironmentProvider, SessionId,
    local::{LocalConfig, LocalProvider, run_role},
    native::NativeProvider,
};

use crate::{agent::Agent, model::ScriptedModel};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const USAGE: &str = "usage: agent-loop --directory DIR | --url URL";

fn main() -> ExitCode {
    // First of all: boxes are started from this binary.
    run_role();
    let outcome = tokio::runtime::Runtime::new()
        .map_err(Failure::from)
        .and_then(|tokio| tokio.block_on(run()));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let provider: Arc<dyn EnvironmentProvider> = match arguments[..] {
        ["--directory", directory] => {
            Arc::new(LocalProvider::open(LocalConfig::new(directory)).await?)
        }
        ["--url", url] => {
            Arc::new(NativeProvider::connect(url, env::var("SANDBAR_TOKEN").ok().as_deref()).await?)
        }
        _ => return Err(USAGE.into()),
    };
    let environment = provider
        .create(EnvironmentConfig::new("host", SessionId::random()))
        .await?;
    writeln!(
        io::stderr(),
        "isolation: {}",
        environment.capabilities().isolation
    )?;
    let outcome = Agent::new(&*environment, io::stdout())
        .run(&mut ScriptedModel::new())
        .await;
    // The environment is destroyed after an error, too.
    environment.destroy().await?;
    outcome
}
