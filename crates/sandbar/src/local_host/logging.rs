//! Log output of `sandbar up`: text for a terminal, JSON lines for a log collector.

use tracing_subscriber::{EnvFilter, Layer, layer::SubscriberExt, util::SubscriberInitExt};

use crate::{
    env_vars,
    failure::{Failure, Outcome},
    local_host::trace_export::TraceExport,
    terminal::output,
};
use sandbar_core::Error;

const DEFAULT_FILTER: &str =
    "warn,rmcp=error,sandbar_host=info,sandbar_server=info,sandbar_storage=info";

/// Installs the log subscriber of this process, and the export of spans where there is one. Logs go
/// to stderr.
pub(crate) fn start(export: Option<&TraceExport>) -> Outcome<()> {
    let filter = match variable(env_vars::LOG) {
        Some(filter) => EnvFilter::try_new(&filter).map_err(|error| {
            Failure::Usage(
                Error::invalid(
                    env_vars::LOG,
                    format!("`{filter}` is not a log filter: {error}"),
                )
                .with_hint("use a level, or a list such as `info,sandbar_storage=debug`"),
            )
        })?,
        None => EnvFilter::new(DEFAULT_FILTER),
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match variable(env_vars::LOG_FORMAT).as_deref() {
        None | Some("text") => {
            let colour = !output::stderr_style().reset.is_empty();
            lines.with_ansi(colour).with_target(false).boxed()
        }
        Some("json") => lines.json().boxed(),
        Some(other) => {
            return Err(Failure::Usage(
                Error::invalid(
                    env_vars::LOG_FORMAT,
                    format!("`{other}` is not a log format"),
                )
                .with_hint("use `text` or `json`"),
            ));
        }
    };
    // The filter applies to the log only, not to exported spans.
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .with(export.map(TraceExport::layer))
        .init();
    Ok(())
}

/// Returns the value of a variable that is set and not empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
