//! File selection of searches, compatible with ripgrep.

mod ignore_budget;
mod ignore_level;
mod ignore_rules;

#[cfg(fuzzing)]
pub use ignore_level::ignore_rules;
pub(super) use ignore_rules::IgnoreRules;
