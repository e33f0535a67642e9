//! Shell completion.
//!
//! The script of a shell calls `sandbar __complete` with the words typed so far. The candidates are
//! computed here, from the definitions of the verbs and, for names, from the host. A loaded script
//! therefore never becomes outdated, and all shells complete alike.

mod answer;
mod bash;
mod fish;
mod line;
mod live;
mod shell;
mod source;
mod typed;
mod zsh;

use answer::{Answer, Candidate};
use shell::respond_to;
pub(crate) use shell::{Shell, serve};
