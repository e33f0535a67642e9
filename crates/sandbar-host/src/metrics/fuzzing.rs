//! Fuzz target for the labels of metrics.

use prometheus_client::{
    encoding::text,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// Encodes a label of any text: it must neither add a line nor end before its quote.
pub fn metric_label(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let labels = Family::<[(&str, String); 1], Counter>::default();
    labels.get_or_create(&[("label", text.clone())]).inc();
    let mut registry = Registry::default();
    registry.register("name", "help", labels);
    let mut written = String::new();
    assert!(text::encode(&mut written, &registry).is_ok());
    let lines: Vec<&str> = written.split('\n').collect();
    assert_eq!(lines.len(), 5, "{written:?}");
    let inside = lines[2]
        .strip_prefix("name_total{label=\"")
        .and_then(|line| line.strip_suffix("\"} 1"));
    let read = inside.map(|inside| {
        inside
            .replace("\\\\", "\0")
            .replace("\\\"", "\"")
            .replace("\\n", "\n")
    });
    assert!(
        read.map(|read| read.replace('\0', "\\")) == Some(text.replace('\0', "\\")),
        "{written:?}"
    );
}
