//! Texts for times, labels and origins.

use std::time::Duration;

use jiff::{
    SignedDuration, Timestamp,
    fmt::friendly::{Spacing, SpanPrinter},
};
use sandbar_core::{Labels, OnExpiry, SessionInfo};

use crate::terminal::output::printable;

/// Formats the time since a moment: `5 minutes ago`.
pub(crate) fn age(moment: Timestamp) -> String {
    age_at(moment, Timestamp::now())
}

/// Formats the time since a moment in short form: `5m`.
pub(crate) fn short_age(moment: Timestamp) -> String {
    brief(Timestamp::now().duration_since(moment).unsigned_abs())
}

/// Formats a duration in its largest unit, rounded down: 90 seconds are `1m`.
pub(crate) fn brief(length: Duration) -> String {
    match length.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m", seconds / 60),
        seconds @ 3600..86_400 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// Returns what a session was forked from, if it was.
pub(crate) fn origin(session: &SessionInfo) -> Option<String> {
    session
        .parent
        .as_ref()
        .map(|(id, snapshot)| match snapshot {
            Some(snapshot) => format!("{id} at {snapshot}"),
            None => id.to_string(),
        })
}

fn age_at(moment: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(moment).as_secs().max(0);
    let (amount, unit) = match seconds {
        0..60 => (seconds, "second"),
        60..3600 => (seconds / 60, "minute"),
        3600..86_400 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    let plural = if amount == 1 { "" } else { "s" };
    format!("{amount} {unit}{plural} ago")
}

/// Formats a moment to the second.
pub(crate) fn moment(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Formats the expiry of a sandbox and the action then.
pub(crate) fn end(expires: Timestamp, then: OnExpiry) -> String {
    match then {
        OnExpiry::Destroy => moment(expires),
        OnExpiry::Pause => format!("{}, then it is paused", moment(expires)),
        OnExpiry::PauseFiles => format!(
            "{}, then it is paused without its processes",
            moment(expires)
        ),
    }
}

/// Formats a duration as options take it: `1m30s`.
pub(crate) fn length(duration: Duration) -> String {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    SpanPrinter::new()
        .spacing(Spacing::None)
        .duration_to_string(&duration)
}

/// Formats labels as `a=1,b=2` on one line.
pub(crate) fn printable_labels(labels: &Labels) -> String {
    labels
        .iter()
        .map(|(key, value)| {
            format!(
                "{}={}",
                printable(key.as_bytes()),
                printable(value.as_bytes())
            )
        })
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_uses_the_largest_unit_and_is_never_negative() {
        let then: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for (later, words) in [
            ("2025-12-31T23:00:00Z", "0 seconds ago"),
            ("2026-01-01T00:00:01Z", "1 second ago"),
            ("2026-01-01T00:59:59Z", "59 minutes ago"),
            ("2026-01-01T23:00:00Z", "23 hours ago"),
            ("2026-01-03T00:00:00Z", "2 days ago"),
        ] {
            assert_eq!(age_at(then, later.parse().unwrap()), words);
        }
    }

    #[test]
    fn durations_are_written_as_they_are_typed() {
        for (seconds, words) in [(90, "1m30s"), (3600, "1h"), (30, "30s")] {
            assert_eq!(length(Duration::from_secs(seconds)), words);
        }
    }

    #[test]
    fn label_with_a_newline_stays_on_one_line() {
        let labels = Labels::from([
            ("a".to_owned(), "1\n2".to_owned()),
            ("b".to_owned(), "x".to_owned()),
        ]);
        assert_eq!(printable_labels(&labels), "a=1\\n2,b=x");
    }
}
