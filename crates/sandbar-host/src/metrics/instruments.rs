//! Counters and histograms, and families of them that differ in their labels.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::exposition::{Exposition, Kind};

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Upper bounds of buckets: from a file tool that takes microseconds to a command that takes minutes.
pub(super) const BOUNDS: [Duration; 17] = [
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_mins(2),
    Duration::from_mins(10),
];

/// How often something took how long.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    /// One for each bound, and one for what is beyond the last.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    nanoseconds: AtomicU64,
}

impl Histogram {
    pub(super) fn observe(&self, took: Duration) {
        let bucket = BOUNDS.partition_point(|bound| *bound < took);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Something with a value that can be written down.
pub(super) trait Instrument: Default {
    const KIND: Kind;

    fn write(&self, text: &mut Exposition, name: &str, labels: &[(&str, &str)]);
}

impl Instrument for Counter {
    const KIND: Kind = Kind::Counter;

    fn write(&self, text: &mut Exposition, name: &str, labels: &[(&str, &str)]) {
        text.sample(name, labels, self.value());
    }
}

impl Instrument for Histogram {
    const KIND: Kind = Kind::Histogram;

    fn write(&self, text: &mut Exposition, name: &str, labels: &[(&str, &str)]) {
        let bounds = BOUNDS.iter().map(|bound| bound.as_secs_f64().to_string()).chain(["+Inf".to_owned()]);
        let bucket_name = format!("{name}_bucket");
        // The count is the sum of the buckets as they were read, so that it fits them whatever happens meanwhile.
        let mut count = 0;
        for (bucket, bound) in self.buckets.iter().zip(bounds) {
            count += bucket.load(Ordering::Relaxed);
            text.sample(&bucket_name, &[labels, &[("le", bound.as_str())]].concat(), count);
        }
        let seconds = Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed)).as_secs_f64();
        text.sample(&format!("{name}_sum"), labels, seconds);
        text.sample(&format!("{name}_count"), labels, count);
    }
}

/// Instruments of one name, told apart by their labels. Label values are words of the program, never of callers: every
/// new one stays for ever.
#[derive(Debug)]
pub(super) struct Family<const N: usize, I> {
    labels: Words<N>,
    series: RwLock<BTreeMap<Words<N>, Arc<I>>>,
}

/// Names of labels, or a value for each.
type Words<const N: usize> = [&'static str; N];

impl<const N: usize, I: Instrument> Family<N, I> {
    pub(super) fn new(labels: Words<N>) -> Self {
        Self { labels, series: RwLock::default() }
    }

    /// Does something with the instrument that has these labels.
    pub(super) fn with(&self, values: Words<N>, act: impl FnOnce(&I)) {
        let known = self.series.read().unwrap_or_else(PoisonError::into_inner).get(&values).cloned();
        let instrument = known.unwrap_or_else(|| {
            Arc::clone(self.series.write().unwrap_or_else(PoisonError::into_inner).entry(values).or_default())
        });
        act(&instrument);
    }

    pub(super) fn write(&self, text: &mut Exposition, name: &str, help: &str) {
        text.family(name, I::KIND, help);
        for (values, instrument) in &*self.series.read().unwrap_or_else(PoisonError::into_inner) {
            let labels: Vec<(&str, &str)> = self.labels.iter().copied().zip(values.iter().copied()).collect();
            instrument.write(text, name, &labels);
        }
    }
}
