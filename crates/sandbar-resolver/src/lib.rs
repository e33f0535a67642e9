//! Name resolution without the C library.
//!
//! The binary links glibc statically, and a static `getaddrinfo` loads the machine's own
//! `libnss_*.so`, which may need another glibc than the one in the binary and crash. Every name
//! lookup of the program therefore goes through a [`Resolver`]: it reads `/etc/hosts` and
//! `/etc/resolv.conf`, again whenever they change, and queries name servers with hickory.

mod changing_file;
mod config;
#[cfg(fuzzing)]
pub mod fuzzing;
mod resolver;
mod upstream;

pub use resolver::{Found, LookupError, Resolver};
