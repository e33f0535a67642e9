//! The text monitoring reads: Prometheus' exposition format, version 0.0.4.

use std::fmt::{Display, Write as _};

/// What a family of samples is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// The text, family by family.
#[derive(Debug, Default)]
pub(super) struct Exposition(String);

impl Exposition {
    /// Begins a family. Its samples follow.
    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {}", kind.as_str()));
    }

    /// One value of the family that was begun last.
    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
        if pairs.is_empty() {
            self.line(format_args!("{name} {value}"));
        } else {
            self.line(format_args!("{name}{{{}}} {value}", pairs.join(",")));
        }
    }

    /// A family of one counter.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, Kind::Counter, help);
        self.sample(name, &[], value);
    }

    /// A family of one gauge.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, Kind::Gauge, help);
        self.sample(name, &[], value);
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{line}");
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Any label and any help, for the fuzzer: whatever they say, a line stays a line and a label ends at its quote.
pub fn metric_label(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut exposition = Exposition::default();
    exposition.family("name", Kind::Counter, &text);
    exposition.sample("name", &[("label", &text)], 1);
    let written = exposition.into_text();
    assert_eq!(written.matches('\n').count(), 3, "{written:?}");
    let inside = written.lines().last().and_then(|line| line.strip_prefix("name{label=\"")?.strip_suffix("\"} 1"));
    let read = inside.map(|inside| inside.replace("\\\\", "\0").replace("\\\"", "\"").replace("\\n", "\n"));
    assert!(read.map(|read| read.replace('\0', "\\")) == Some(text.replace('\0', "\\")), "{written:?}");
}
