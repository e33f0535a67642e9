//! The page with details of one session.

use sandbar_core::{ByteCount, ProcessInfo, SessionInfo};

use super::{
    entry::{Entry, percent},
    sample::Observed,
};
use crate::{
    terminal::screen::{Look, Row},
    view::{
        age, end, enforcement, length, moment, origin, printable_labels, process_status, shortened,
    },
};

/// Renders the details of a session as rows.
pub(super) fn details(session: &SessionInfo, observed: &Observed) -> Vec<Row> {
    let cpu = observed
        .cpu_shares()
        .get(&session.id)
        .map(|share| percent(*share));
    let cpu_time = session
        .usage
        .and_then(|usage| usage.cpu_time)
        .map(|time| format!("{:.1} s", time.as_secs_f64()));
    let found = observed.now.details.as_ref();
    let entry = Entry { session, cpu: None };
    let pairs = [
        ("id", Some(session.id.to_string())),
        ("state", Some(session.state.to_string())),
        ("base", Some(session.base.to_string())),
        ("forked from", origin(session)),
        (
            "created",
            Some(format!(
                "{} ({})",
                moment(session.created),
                age(session.created)
            )),
        ),
        (
            "expires",
            session
                .expires
                .map(|expires| end(expires, session.on_expiry)),
        ),
        (
            "idle pause",
            session
                .idle_timeout
                .map(|time| format!("after {}", length(time))),
        ),
        (
            "labels",
            Some(printable_labels(&session.labels)).filter(|labels| !labels.is_empty()),
        ),
        (
            "cpu",
            cpu.zip(cpu_time)
                .map(|(share, time)| format!("{share}, {time} since its box started")),
        ),
        ("memory", entry.memory().map(|memory| memory.to_string())),
        (
            "processes",
            entry.processes().map(|count| count.to_string()),
        ),
        (
            "disk",
            Some(match session.quota {
                Some(quota) => format!("{} of {quota}", session.space_used),
                None => session.space_used.to_string(),
            }),
        ),
        (
            "turns",
            Some(format!(
                "{}, {} snapshots",
                session.turn_count, session.snapshot_count
            )),
        ),
        (
            "network",
            found.map(|found| {
                format!(
                    "{} (enforced: {})",
                    found.network.policy,
                    enforcement(&found.network.enforced)
                )
            }),
        ),
        (
            "traffic",
            found.map(|found| {
                let traffic = &found.network.traffic;
                format!(
                    "{} sent, {} received, {} connections, {} denied",
                    ByteCount(traffic.bytes_sent),
                    ByteCount(traffic.bytes_received),
                    traffic.connections,
                    traffic.denied
                )
            }),
        ),
    ];
    let mut rows: Vec<Row> = pairs
        .into_iter()
        .filter_map(|(name, value)| {
            Some(Row::of(Look::Bold, format!("{name:<12}")).and(Look::Plain, value?))
        })
        .collect();
    rows.extend(found.map_or_else(Vec::new, |found| launched(&found.processes)));
    rows
}

/// Renders the launched processes as rows, after an empty row and a heading.
fn launched(processes: &[ProcessInfo]) -> Vec<Row> {
    if processes.is_empty() {
        return Vec::new();
    }
    let mut rows = vec![Row::default(), Row::of(Look::Bold, "launched processes")];
    rows.extend(processes.iter().map(|process| {
        let address = process.address.as_deref().unwrap_or("-");
        let command = shortened(&process.argv.join(" "), 200);
        let status = process_status(process);
        Row::of(
            Look::Plain,
            format!("{}  {status}  {address}  {command}", process.id),
        )
    }));
    rows
}
