//! The program in a tmux window: keys, screen contents and resizes.

mod commands;
mod host_gone;
mod programs;
mod tab;
mod tmux;
mod top;
