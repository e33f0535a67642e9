//! One table or JSON document, for pipes and scripts.

use serde::Serialize;

use super::{
    entry::{Column, Entry},
    list::List,
    sample::Observed,
};
use crate::{failure::Outcome, terminal::output, view::SessionView};

/// JSON document of the host and its sessions.
#[derive(Debug, Serialize)]
struct TopView<'a> {
    host: HostView<'a>,
    sessions: Vec<EntryView<'a>>,
}

#[derive(Debug, Serialize)]
struct HostView<'a> {
    url: &'a str,
    status: &'static str,
    reasons: &'a [String],
    storage_backend: &'static str,
    container_runtime: &'static str,
    pool_state: &'a str,
    space_total: u64,
    space_available: u64,
    active_commands: u64,
    active_tools: u64,
    uptime_seconds: f64,
}

#[derive(Debug, Serialize)]
struct EntryView<'a> {
    session: SessionView<'a>,
    /// 1.0 is one CPU.
    cpu: Option<f64>,
}

pub(crate) fn print_json(observed: &Observed, sort: Column) -> Outcome<()> {
    let health = &observed.now.health;
    let entries = List::new(sort).arrange(Entry::all(observed));
    output::json(&TopView {
        host: HostView {
            url: &observed.url,
            status: health.status.as_str(),
            reasons: &health.reasons,
            storage_backend: observed.capabilities.storage.as_str(),
            container_runtime: observed.capabilities.runtime.as_str(),
            pool_state: &health.pool_state,
            space_total: health.space_total.get(),
            space_available: health.space_available.get(),
            active_commands: health.active_commands,
            active_tools: health.active_tools,
            uptime_seconds: health.uptime.as_secs_f64(),
        },
        sessions: entries
            .iter()
            .map(|entry| EntryView {
                session: entry.session.into(),
                cpu: entry.cpu,
            })
            .collect(),
    })
}

pub(crate) fn print_table(observed: &Observed, sort: Column) -> Outcome<()> {
    let entries = List::new(sort).arrange(Entry::all(observed));
    let rows = entries
        .iter()
        .map(|entry| Column::ALL.map(|column| entry.text(column)));
    output::table(Column::ALL.map(Column::heading), rows)
}
