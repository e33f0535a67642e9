//! `hostile-session`: a session with a session token and code in its box attacks the host process,
//! beside a probe whose calls are measured throughout.
//!
//! A test is a family of attempts on one host, `native::<family>` or `gvisor::<family>`. After each
//! attempt the host must be the same process and ready, its memory below a bound, every call of the
//! probe answered, and nothing of the attacker left. `SANDBAR_HOSTILE_ATTEMPT` selects the
//! attempts whose name contains it. Latencies are not asserted; they are written to
//! `nextest/hostile-session.tsv` in the target directory.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(
    clippy::large_futures,
    reason = "the futures of a client are large, and few are made"
)]
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod accounts;
mod archives;
mod attacker;
mod attempt;
mod calls;
mod connections;
mod e2b;
mod git;
mod http;
mod ignore_files;
mod internet;
mod mcp;
mod measure;
mod network;
mod probe;
mod process;
mod processes;
mod special_files;
mod trees;
mod world;

macro_rules! families {
    ($runtime:ident, $kind:ident: $($family:ident),*) => {
        mod $runtime {
            $(
                #[test]
                fn $family() {
                    crate::attempt::run(
                        stringify!($family),
                        sandbar_core::RuntimeKind::$kind,
                        crate::$family::ATTEMPTS,
                    );
                }
            )*
        }
    };
}

families!(native, Native:
    accounts, archives, calls, connections, e2b, git, ignore_files, mcp, network, processes,
    special_files, trees);
#[test]
fn suite_has_more_than_sixty_attempts() {
    let families = [
        accounts::ATTEMPTS,
        archives::ATTEMPTS,
        calls::ATTEMPTS,
        connections::ATTEMPTS,
        e2b::ATTEMPTS,
        git::ATTEMPTS,
        ignore_files::ATTEMPTS,
        mcp::ATTEMPTS,
        network::ATTEMPTS,
        processes::ATTEMPTS,
        special_files::ATTEMPTS,
        trees::ATTEMPTS,
    ];
    let count: usize = families.iter().map(|attempts| attempts.len()).sum();
    // CONTRIBUTING.md and SECURITY.md name this number.
    assert_eq!(count, 183);
}

families!(gvisor, Gvisor: accounts, calls, git, network, processes, special_files);
