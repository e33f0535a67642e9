//! The program on a real screen: in tmux, with somebody who types, looks and changes the size of the window.

mod commands;
mod host_gone;
mod programs;
mod tab;
mod tmux;
mod top;
