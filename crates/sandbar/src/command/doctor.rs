//! `sandbar doctor`.

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode, time::Duration};

use clap::Args;
use sandbar_core::{Error, ErrorCode, Result};
use serde::Serialize;

use crate::{
    client::connection::ConnectionOptions,
    config::Settings,
    doctor::{Examination, Finding, Status, examine},
    failure::{Outcome, describe, exit},
    terminal::output,
};

/// Time for the host to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Args, Debug)]
#[command(
    about = "Report what this machine supports, what is missing and how to get it",
    long_about = "\
Report what this machine supports, what is missing and how to get it.

Every feature is tried out and undone again. No running host is needed. Exits with 1 if a host with this configuration
could not start here.",
    after_help = "\
Examples:
  sandbar doctor
  sandbar doctor --data-dir /srv/sandbar
  sandbar doctor --json"
)]
pub(crate) struct DoctorArgs {
    /// The data directory to examine
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Configuration file, TOML
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    usable: bool,
    findings: BTreeMap<&'static str, Vec<Finding>>,
    configuration: BTreeMap<String, Entry>,
    server: ServerEntry,
}

#[derive(Debug, Serialize)]
struct Entry {
    value: toml::Value,
    origin: String,
}

#[derive(Debug, Serialize)]
struct ServerEntry {
    url: String,
    answers: bool,
    detail: String,
}

pub(crate) fn execute(args: &DoctorArgs, connection: &ConnectionOptions) -> Outcome {
    let settings = Settings::load(args.config.as_deref(), |layers| {
        let data_dir = args
            .data_dir
            .as_ref()
            .map(|path| path.to_string_lossy().into_owned());
        layers.add_flag("data-dir", "data_dir", data_dir);
    })?;
    let Examination { groups, usable } = examine(&settings.host)?;
    let server = probe_server(connection)?;
    let code = if usable {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(exit::FAILED)
    };
    if args.json {
        let findings = groups.into_iter().collect();
        output::json(&Report {
            usable,
            findings,
            configuration: configuration(&settings)?,
            server,
        })?;
    } else {
        print(&groups, &settings, &server, usable)?;
    }
    Ok(code)
}

/// Asks the host that other verbs would connect to. A missing host is reported, not an error.
fn probe_server(connection: &ConnectionOptions) -> Outcome<ServerEntry> {
    let url = connection.url();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::io("could not start the async runtime", error))?;
    let asked = runtime.block_on(async {
        let client = connection.connect().await?;
        let asking = client.capabilities();
        tokio::time::timeout(ANSWER_TIMEOUT, asking)
            .await
            .map_err(|_| {
                Error::new(
                    ErrorCode::Timeout,
                    format!("no answer within {} s", ANSWER_TIMEOUT.as_secs()),
                )
            })?
    });
    Ok(match asked {
        Ok(answer) => {
            let detail = format!(
                "storage {}, runtime {}: {}",
                answer.storage, answer.runtime, answer.isolation
            );
            ServerEntry {
                url,
                answers: true,
                detail,
            }
        }
        Err(error) => ServerEntry {
            url,
            answers: false,
            detail: describe(&error),
        },
    })
}

/// Returns every key with its value and origin.
fn configuration(settings: &Settings) -> Result<BTreeMap<String, Entry>> {
    let entry = |(key, value): (String, toml::Value)| {
        let origin = settings
            .origins
            .get(&key)
            .map_or_else(|| "default".to_owned(), ToString::to_string);
        (key, Entry { value, origin })
    };
    Ok(settings.values()?.into_iter().map(entry).collect())
}

fn print(
    groups: &[(&str, Vec<Finding>)],
    settings: &Settings,
    server: &ServerEntry,
    usable: bool,
) -> Outcome<()> {
    let style = output::stdout_style();
    for (group, findings) in groups {
        output::line(format_args!("{}{group}{}", style.bold, style.reset))?;
        for finding in findings {
            let colour = if finding.status == Status::Ok {
                style.good
            } else {
                style.bad
            };
            let status = finding.status.as_str();
            output::line(format_args!(
                "  {colour}{status:<8}{} {:<11} {}",
                style.reset, finding.name, finding.detail
            ))?;
            if let Some(fix) = &finding.fix {
                output::line(format_args!("{:23}fix: {fix}", ""))?;
            }
        }
    }
    output::line(format_args!("{}configuration{}", style.bold, style.reset))?;
    for (key, entry) in configuration(settings)? {
        output::line(format_args!("  {key} = {} ({})", entry.value, entry.origin))?;
    }
    for (variable, meant) in &settings.unknown_variables {
        let meant = meant
            .as_ref()
            .map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
        output::line(format_args!(
            "  {variable} is not a key of the configuration{meant}"
        ))?;
    }
    output::line(format_args!("{}server{}", style.bold, style.reset))?;
    let status = if server.answers { "ok" } else { "missing" };
    let colour = if server.answers {
        style.good
    } else {
        style.bad
    };
    output::line(format_args!(
        "  {colour}{status:<8}{} {} {}",
        style.reset, server.url, server.detail
    ))?;
    output::line(if usable {
        "a host can start here: `sandbar up`"
    } else {
        "a host cannot start here with this configuration: see the fixes above"
    })
}
