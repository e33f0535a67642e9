//! Reads the text back, as strictly as Prometheus does, to test it.

use std::{collections::BTreeMap, time::Duration};

use sandbar_core::{RuntimeKind, StorageKind};

use super::{
    Metrics,
    exposition::{Exposition, Kind},
    instruments::BOUNDS,
};
use crate::verb::Verb;

#[derive(Debug, PartialEq)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

impl Sample {
    fn label(&self, key: &str) -> &str {
        self.labels.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str()).unwrap()
    }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// `key="value",…}` to its end, and what follows.
fn parse_labels(mut text: &str) -> (Vec<(String, String)>, &str) {
    let mut labels = Vec::new();
    loop {
        let (key, rest) = text.split_once("=\"").unwrap();
        assert!(is_name(key), "{key}");
        let (mut value, mut characters) = (String::new(), rest.char_indices());
        let end = loop {
            match characters.next().unwrap() {
                (end, '"') => break end,
                (_, '\\') => value.push(match characters.next().unwrap().1 {
                    'n' => '\n',
                    escaped @ ('\\' | '"') => escaped,
                    other => panic!("\\{other}"),
                }),
                (_, plain) => value.push(plain),
            }
        };
        labels.push((key.to_owned(), value));
        let rest = &rest[end + 1..];
        match rest.strip_prefix(',') {
            Some(more) => text = more,
            None => return (labels, rest.strip_prefix('}').unwrap()),
        }
    }
}

fn parse_sample(line: &str) -> Sample {
    let end = line.find(['{', ' ']).unwrap();
    let (name, rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => parse_labels(rest),
        None => (Vec::new(), rest),
    };
    Sample { name: name.to_owned(), labels, value: rest.strip_prefix(' ').unwrap().parse().unwrap() }
}

/// Families by name, with their kind and samples. A sample outside its family, or a family that comes twice, is an error.
fn parse(text: &str) -> BTreeMap<String, (String, Vec<Sample>)> {
    assert!(text.ends_with('\n'));
    let mut families = BTreeMap::<String, (String, Vec<Sample>)>::new();
    let mut current = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let name = help.split_once(' ').unwrap().0;
            let kind = lines.next().unwrap().strip_prefix(&format!("# TYPE {name} ")).unwrap();
            assert!(families.insert(name.to_owned(), (kind.to_owned(), Vec::new())).is_none(), "{name} twice");
            name.clone_into(&mut current);
            continue;
        }
        let sample = parse_sample(line);
        let (kind, samples) = families.get_mut(&current).unwrap();
        let suffixes: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        assert!(suffixes.iter().any(|suffix| sample.name == format!("{current}{suffix}")), "{line}");
        samples.push(sample);
    }
    families
}

#[test]
fn labels_and_help_survive_any_character() {
    let odd = "a\"b\\c\nd{e}=,f ü";
    let mut text = Exposition::default();
    text.family("odd", Kind::Gauge, "one\ntwo\\three");
    text.sample("odd", &[("plain", "x"), ("odd", odd), ("empty", "")], 1.5);
    let text = text.into_text();
    assert_eq!(text.lines().next().unwrap(), "# HELP odd one\\ntwo\\\\three");
    let families = parse(&text);
    let sample = &families["odd"].1[0];
    assert_eq!((sample.label("plain"), sample.label("odd"), sample.label("empty")), ("x", odd, ""));
    assert!((sample.value - 1.5).abs() < f64::EPSILON);
}

#[test]
fn what_was_counted_and_measured_is_told_by_its_labels() {
    let metrics = Metrics::new(StorageKind::Btrfs, RuntimeKind::Native);
    let times = [Duration::ZERO, BOUNDS[3], BOUNDS[3] + Duration::from_nanos(1), Duration::from_hours(1)];
    for took in times {
        metrics.operation(Verb::Exec, "ok", took);
    }
    metrics.operation(Verb::Exec, "SessionPaused", Duration::from_millis(1));
    metrics.tool_call("bash", "ok", Duration::from_millis(1));
    metrics.tool_call("no such tool", "InvalidArgument", Duration::from_millis(1));
    metrics.snapshots_pruned.add(3);
    let mut text = Exposition::default();
    metrics.write(&mut text);
    let families = parse(&text.into_text());

    let (kind, counts) = &families["sandbar_operations_total"];
    assert_eq!(kind, "counter");
    let counts: Vec<(&str, &str, f64)> =
        counts.iter().map(|sample| (sample.label("operation"), sample.label("outcome"), sample.value)).collect();
    assert_eq!(counts, [("exec", "SessionPaused", 1.0), ("exec", "ok", 4.0)]);
    let tools: Vec<&str> = families["sandbar_tool_calls_total"].1.iter().map(|sample| sample.label("tool")).collect();
    assert_eq!(tools, ["bash", "unknown"]);
    assert_eq!(families["sandbar_snapshots_pruned_total"].1[0].value.to_string(), "3");

    let (kind, samples) = &families["sandbar_operation_seconds"];
    assert_eq!(kind, "histogram");
    assert!(samples.iter().all(|sample| (sample.label("storage"), sample.label("runtime")) == ("btrfs", "native")));
    let buckets: Vec<(f64, f64)> = samples
        .iter()
        .filter(|sample| sample.name.ends_with("_bucket"))
        .map(|sample| (sample.label("le").parse().unwrap(), sample.value))
        .collect();
    assert_eq!(buckets.len(), BOUNDS.len() + 1);
    assert!(buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1), "{buckets:?}");
    // A bound belongs to its own bucket.
    assert_eq!(buckets[3], (0.001, 3.0));
    assert_eq!(buckets[4], (0.0025, 4.0));
    assert_eq!(buckets[BOUNDS.len()], (f64::INFINITY, 5.0));
    let of = |suffix: &str| samples.iter().find(|sample| sample.name.ends_with(suffix)).unwrap().value;
    assert!((of("_count") - 5.0).abs() < f64::EPSILON);
    assert!((of("_sum") - 3600.003).abs() < 1e-6);
}
