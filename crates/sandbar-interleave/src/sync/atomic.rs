//! Atomic values. Whatever order is asked for, they are sequentially consistent.

use std::{panic::Location, sync::atomic};

pub use std::sync::atomic::Ordering;

use crate::{current::current, pending::Pending};

macro_rules! atomic {
    ($name:ident, $value:ty, [$($change:ident),*]) => {
        #[doc = concat!("Like [`std::sync::atomic::", stringify!($name), "`], with a decision before each operation.")]
        #[derive(Debug, Default)]
        pub struct $name {
            inner: atomic::$name,
        }

        impl $name {
            pub const fn new(value: $value) -> Self {
                Self { inner: atomic::$name::new(value) }
            }

            #[track_caller]
            pub fn load(&self, _order: Ordering) -> $value {
                decide("loads a value");
                self.inner.load(Ordering::SeqCst)
            }

            #[track_caller]
            pub fn store(&self, value: $value, _order: Ordering) {
                decide("stores a value");
                self.inner.store(value, Ordering::SeqCst);
            }

            $(
                #[track_caller]
                pub fn $change(&self, value: $value, _order: Ordering) -> $value {
                    decide("changes a value");
                    self.inner.$change(value, Ordering::SeqCst)
                }
            )*
        }
    };
}

atomic!(AtomicBool, bool, [swap, fetch_and, fetch_or]);
atomic!(
    AtomicUsize,
    usize,
    [swap, fetch_add, fetch_sub, fetch_max, fetch_min]
);

#[track_caller]
fn decide(what: &'static str) {
    if let Some(this) = current() {
        this.reach(Pending::Step(what), Location::caller());
    }
}
