//! Log output of `sandbar up`: text for a terminal, JSON lines for a log collector.

use tracing_subscriber::{EnvFilter, layer::SubscriberExt, util::SubscriberInitExt};

use crate::{
    env_vars,
    failure::{Failure, Outcome},
    output,
};
use sandbar_core::Error;

const DEFAULT_FILTER: &str = "warn,sandbar_host=info,sandbar_server=info,sandbar_storage=info";

/// Installs the log subscriber of this process. Logs go to stderr.
pub(crate) fn start() -> Outcome<()> {
    let filter = match variable(env_vars::LOG) {
        Some(filter) => EnvFilter::try_new(&filter).map_err(|error| {
            Failure::Usage(
                Error::invalid(env_vars::LOG, format!("`{filter}` is not a log filter: {error}"))
                    .with_hint("use a level, or a list such as `info,sandbar_storage=debug`"),
            )
        })?,
        None => EnvFilter::new(DEFAULT_FILTER),
    };
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    match variable(env_vars::LOG_FORMAT).as_deref() {
        None | Some("text") => {
            let colour = !output::stderr_style().reset.is_empty();
            registry.with(lines.with_ansi(colour).with_target(false)).init();
        }
        Some("json") => registry.with(lines.json()).init(),
        Some(other) => {
            return Err(Failure::Usage(
                Error::invalid(env_vars::LOG_FORMAT, format!("`{other}` is not a log format"))
                    .with_hint("use `text` or `json`"),
            ));
        }
    }
    Ok(())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
