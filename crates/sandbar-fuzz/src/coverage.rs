//! What a run of a target touched, told by the compiler.
//!
//! `make fuzz` builds the crates with the coverage of LLVM's sanitizers: a byte counts every edge, and every comparison
//! is told. Without that build there are no counters, and the fuzzer is blind.

use std::{
    cell::RefCell,
    collections::VecDeque,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering},
};

static START: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static LENGTH: AtomicUsize = AtomicUsize::new(0);
static TELLS_COMPARISONS: AtomicBool = AtomicBool::new(false);

/// Comparisons that are remembered of one run.
const MOST_COMPARED: usize = 256;

thread_local! {
    static COMPARED: RefCell<VecDeque<(u64, u64, u8)>> = const { RefCell::new(VecDeque::new()) };
}

/// The counters of the whole program. LLVM names them before `main`, once a module, always the same.
fn counters() -> Option<&'static mut [u8]> {
    let start = START.load(Ordering::Relaxed);
    if start.is_null() {
        return None;
    }
    // SAFETY: LLVM gave this range, which lives as long as the program. Only the one thread that runs the target looks
    // at it; the code that counts there does not run meanwhile.
    Some(unsafe { std::slice::from_raw_parts_mut(start, LENGTH.load(Ordering::Relaxed)) })
}

/// Everything that was ever seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// For each edge the numbers of times it was taken in one run, as a set of eight ranges.
    ranges: Vec<u8>,
    edges: usize,
}

impl Seen {
    /// Edges that were taken at all.
    pub(crate) const fn edges(&self) -> usize {
        self.edges
    }

    /// Forgets what the last run counted.
    pub(crate) fn begin() {
        if let Some(counters) = counters() {
            counters.fill(0);
        }
    }

    /// Whether the last run did something new.
    pub(crate) fn learn(&mut self) -> bool {
        let Some(counters) = counters() else { return false };
        self.ranges.resize(counters.len(), 0);
        let mut is_new = false;
        for (eight, known) in counters.chunks(8).zip(self.ranges.chunks_mut(8)) {
            if eight.iter().all(|count| *count == 0) {
                continue;
            }
            for (count, known) in eight.iter().zip(known).filter(|(count, _)| **count > 0) {
                let range = 1 << range_of(*count);
                if *known & range == 0 {
                    is_new = true;
                    self.edges += usize::from(*known == 0);
                    *known |= range;
                }
            }
        }
        is_new
    }
}

/// Whether a little more often matters depends on how often it was.
const fn range_of(count: u8) -> u8 {
    match count {
        0 | 1 => 0,
        2 => 1,
        3 => 2,
        4..=7 => 3,
        8..=15 => 4,
        16..=31 => 5,
        32..=127 => 6,
        128.. => 7,
    }
}

/// Runs `target` and says what it compared.
pub(crate) fn comparisons(target: impl FnOnce()) -> Vec<(u64, u64, u8)> {
    COMPARED.with_borrow_mut(VecDeque::clear);
    TELLS_COMPARISONS.store(true, Ordering::Relaxed);
    target();
    TELLS_COMPARISONS.store(false, Ordering::Relaxed);
    COMPARED.with_borrow(|compared| compared.iter().copied().collect())
}

fn compare(one: u64, other: u64, width: u8) {
    if !TELLS_COMPARISONS.load(Ordering::Relaxed) || one == other {
        return;
    }
    COMPARED.with_borrow_mut(|compared| {
        // What stopped a run is at its end.
        if compared.len() == MOST_COMPARED {
            compared.pop_front();
        }
        compared.push_back((one, other, width));
    });
}

#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_8bit_counters_init(start: *mut u8, stop: *mut u8) {
    START.store(start, Ordering::Relaxed);
    LENGTH.store((stop as usize).saturating_sub(start as usize), Ordering::Relaxed);
}

#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_pcs_init(_: *const usize, _: *const usize) {}

macro_rules! comparison {
    ($($name:ident: $number:ty),*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name(one: $number, other: $number) {
                compare(one.into(), other.into(), (<$number>::BITS / 8) as u8);
            }
        )*
    };
}

comparison! {
    __sanitizer_cov_trace_cmp1: u8, __sanitizer_cov_trace_cmp2: u16,
    __sanitizer_cov_trace_cmp4: u32, __sanitizer_cov_trace_cmp8: u64,
    __sanitizer_cov_trace_const_cmp1: u8, __sanitizer_cov_trace_const_cmp2: u16,
    __sanitizer_cov_trace_const_cmp4: u32, __sanitizer_cov_trace_const_cmp8: u64
}

/// A choice between numbers: how many there are, how wide they are, and then the numbers.
#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_trace_switch(value: u64, cases: *const u64) {
    if !TELLS_COMPARISONS.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: LLVM passes a table that begins with its length, which is two less than it is long.
    let (count, width) = unsafe { (*cases, *cases.add(1)) };
    for case in 0..count.min(16) {
        // SAFETY: as above; this is one of the numbers.
        let case = unsafe { *cases.add(2 + usize::try_from(case).unwrap_or_default()) };
        compare(value, case, u8::try_from(width / 8).unwrap_or(8));
    }
}
