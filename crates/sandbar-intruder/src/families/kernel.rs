//! Kernel interfaces that a box does not need.

use std::{fs::File, os::unix::fs::FileExt};

use crate::{
    attempt::{Attempt, Family},
    call::{Argument, call, descriptor},
    facts::Facts,
    verdict::{Outcome, escaped, held, not_permitted, refused},
};

pub(crate) const FAMILY: Family = Family {
    name: "kernel",
    attempts: &[
        Attempt::new(
            "bpf-map",
            "creates a BPF map; escaped when the call succeeds",
            |_| bpf_map(),
        ),
        Attempt::new(
            "bpf-program",
            "loads an empty BPF program; escaped when the call succeeds",
            |_| bpf_program(),
        ),
        Attempt::new(
            "perf-itself",
            "opens a perf event for itself; escaped when the call succeeds",
            |_| perf(0, -1),
        ),
        Attempt::new(
            "perf-processor",
            "opens a perf event for all processes of a processor; escaped when the call succeeds",
            |_| perf(-1, 0),
        ),
        Attempt::new(
            "page-faults",
            "creates a userfaultfd that handles faults of the kernel; escaped when the call succeeds",
            |_| {
                refused(
                    descriptor(call!(SYS_userfaultfd, libc::O_CLOEXEC)),
                    "created a userfaultfd",
                )
            },
        ),
        Attempt::new(
            "io-uring",
            "creates an io_uring, whose operations bypass seccomp filters; escaped when the call succeeds",
            |_| {
                let mut parameters = [0_u64; 15];
                refused(
                    descriptor(call!(
                        SYS_io_uring_setup,
                        1,
                        Argument::write(&mut parameters)
                    )),
                    "created an io_uring",
                )
            },
        ),
        Attempt::new(
            "module-load",
            "loads an empty kernel module; escaped when the permission check passes",
            |_| {
                not_permitted(
                    call!(SYS_init_module, Argument::read(&[0_u8; 1]), 0, c""),
                    "init_module permitted",
                )
            },
        ),
        Attempt::new(
            "module-load-file",
            "loads a kernel module from an invalid descriptor; escaped when the permission check passes",
            |_| {
                not_permitted(
                    call!(SYS_finit_module, -1, c"", 0),
                    "finit_module permitted",
                )
            },
        ),
        Attempt::new(
            "module-unload",
            "unloads a nonexistent kernel module; escaped when the permission check passes",
            |_| {
                not_permitted(
                    call!(
                        SYS_delete_module,
                        c"sandbar_no_such_module",
                        libc::O_NONBLOCK
                    ),
                    "delete_module permitted",
                )
            },
        ),
        Attempt::new(
            "kernel-replace",
            "calls `kexec_load` with invalid arguments; escaped when the permission check passes",
            |_| {
                // Flags that do not exist, and more segments than there can be.
                not_permitted(
                    call!(SYS_kexec_load, 0, 1000, Argument::NULL, 0xffff),
                    "kexec permitted",
                )
            },
        ),
        Attempt::new(
            "kernel-replace-file",
            "calls `kexec_file_load` with invalid descriptors; escaped when the permission check passes",
            |_| {
                not_permitted(
                    call!(SYS_kexec_file_load, -1, -1, 0, Argument::NULL, 0xffff),
                    "kexec permitted",
                )
            },
        ),
        Attempt::new(
            "cookie-lookup",
            "resolves a path with `lookup_dcookie`; escaped when the permission check passes",
            |_| {
                let mut path = [0_u8; 256];
                let length = path.len();
                not_permitted(
                    call!(SYS_lookup_dcookie, 0, Argument::write(&mut path), length),
                    "lookup_dcookie permitted",
                )
            },
        ),
        Attempt::new(
            "page-frames",
            "reads a physical page frame number from /proc/self/pagemap; escaped when it is not zero",
            page_frames,
        ),
        Attempt::new(
            "memory-layout",
            "changes its memory layout with PR_SET_MM and an invalid address; escaped when the permission check passes",
            |_| {
                // The kernel rejects an address in the first page after its permission check.
                not_permitted(
                    call!(
                        SYS_prctl,
                        libc::PR_SET_MM,
                        libc::PR_SET_MM_START_BRK,
                        1,
                        0,
                        0
                    ),
                    "PR_SET_MM permitted",
                )
            },
        ),
        Attempt::new(
            "personality",
            "makes all readable memory executable with READ_IMPLIES_EXEC; escaped when the call succeeds",
            |_| {
                refused(
                    call!(SYS_personality, libc::READ_IMPLIES_EXEC),
                    "READ_IMPLIES_EXEC set",
                )
            },
        ),
    ],
};

fn bpf_map() -> Outcome {
    const MAP_CREATE: i32 = 0;
    const ARRAY: u32 = 2;
    // Type, size of keys, size of values, entries, flags.
    let attributes = [ARRAY, 4, 4, 1, 0];
    refused(
        descriptor(call!(
            SYS_bpf,
            MAP_CREATE,
            Argument::read(&attributes),
            size_of_val(&attributes)
        )),
        "created a BPF map",
    )
}

fn bpf_program() -> Outcome {
    const PROGRAM_LOAD: i32 = 5;
    const SOCKET_FILTER: u64 = 1;
    // `r0 = 0; exit`.
    let instructions = [0xb7_u64, 0x95];
    let license = c"GPL";
    let attributes = [
        SOCKET_FILTER | (instructions.len() as u64) << 32,
        instructions.as_ptr().expose_provenance() as u64,
        license.as_ptr().expose_provenance() as u64,
        0,
        0,
        0,
    ];
    refused(
        descriptor(call!(
            SYS_bpf,
            PROGRAM_LOAD,
            Argument::read(&attributes),
            size_of_val(&attributes)
        )),
        "loaded a BPF program",
    )
}

/// Opens a software clock event, which needs no hardware counters, for one process or one
/// processor.
fn perf(process: i32, processor: i32) -> Outcome {
    const SOFTWARE: u64 = 1;
    const SIZE: u64 = 64;
    // Type and size, then the event (0: the clock of the processor); the rest stays zero.
    let attributes = [SOFTWARE | SIZE << 32, 0, 0, 0, 0, 0, 0, 0];
    let none = -1;
    refused(
        descriptor(call!(
            SYS_perf_event_open,
            Argument::read(&attributes),
            process,
            processor,
            none,
            0
        )),
        "opened a perf event",
    )
}

fn page_frames(_: &Facts) -> Outcome {
    const FRAME: u64 = (1 << 55) - 1;
    let here = Box::new(1_u8);
    let page = (&raw const *here).expose_provenance() / 4096;
    let map = match File::open("/proc/self/pagemap") {
        Ok(map) => map,
        Err(error) => return held(error),
    };
    let mut entry = [0; 8];
    if let Err(error) = map.read_exact_at(&mut entry, page as u64 * 8) {
        return held(error);
    }
    match u64::from_ne_bytes(entry) & FRAME {
        0 => held("page frame number is zero"),
        frame => escaped(format!("page frame {frame:#x}")),
    }
}
