//! Sessions with an open network, in a small internet: what they reach, and that they reach nothing else.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod bypass;
#[path = "../host/fixture.rs"]
#[expect(dead_code, reason = "the tests of a host do more with it")]
mod fixture;
#[path = "../host/host_config.rs"]
mod host_config;
mod policies;
mod programs;
mod secrets;
mod unguarded;
mod world;

/// Every case on every runtime that gives a session a network of its own. The storage has no part in it.
macro_rules! on_every_runtime {
    ($($module:ident: $($case:ident),* $(,)?;)*) => {
        on_every_runtime!(@on native, Native, $($module: $($case),*;)*);
        on_every_runtime!(@on gvisor, Gvisor, $($module: $($case),*;)*);
    };
    (@on $name:ident, $runtime:ident, $($module:ident: $($case:ident),*;)*) => {
        mod $name {
            $(
                mod $module {
                    $(
                        #[test]
                        fn $case() {
                            crate::world::run(sandbar_core::RuntimeKind::$runtime, crate::$module::$case);
                        }
                    )*
                }
            )*
        }
    };
}

on_every_runtime! {
}
