//! Evaluates a network policy for names and addresses.
//!
//! Everything here is a pure function of the policy and of the requested destination: no I/O, no
//! state.

mod evaluate;
mod special_ranges;
#[cfg(test)]
mod tests;
mod verdict;

pub(crate) use evaluate::Rules;
pub(crate) use verdict::Verdict;
