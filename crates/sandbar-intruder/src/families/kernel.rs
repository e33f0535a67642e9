//! Parts of the kernel that a box has no business with.

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
        Attempt::new("bpf-map", "makes a BPF map; escaped when it gets one", |_| bpf_map()),
        Attempt::new("bpf-program", "loads a BPF program that does nothing; escaped when it is loaded", |_| {
            bpf_program()
        }),
        Attempt::new("perf-itself", "counts its own events; escaped when it gets a counter", |_| perf(0, -1)),
        Attempt::new(
            "perf-processor",
            "counts the events of everybody on a processor; escaped when it gets a counter",
            |_| perf(-1, 0),
        ),
        Attempt::new("page-faults", "handles page faults of the kernel; escaped when it gets a descriptor", |_| {
            refused(descriptor(call!(SYS_userfaultfd, libc::O_CLOEXEC)), "may stop the kernel in a page fault")
        }),
        Attempt::new("io-uring", "makes a ring for calls no filter sees; escaped when it gets one", |_| {
            let mut parameters = [0_u64; 15];
            refused(descriptor(call!(SYS_io_uring_setup, 1, Argument::write(&mut parameters))), "got a ring")
        }),
        Attempt::new("module-load", "loads an empty kernel module; escaped when it may", |_| {
            not_permitted(call!(SYS_init_module, Argument::read(&[0_u8; 1]), 0, c""), "may load modules")
        }),
        Attempt::new("module-load-file", "loads a kernel module from no file; escaped when it may", |_| {
            not_permitted(call!(SYS_finit_module, -1, c"", 0), "may load modules")
        }),
        Attempt::new("module-unload", "unloads a module that is not there; escaped when it may", |_| {
            not_permitted(call!(SYS_delete_module, c"sandbar_no_such_module", libc::O_NONBLOCK), "may unload modules")
        }),
        Attempt::new("kernel-replace", "loads another kernel, with arguments it refuses; escaped when it may", |_| {
            // Flags that do not exist, and more segments than there can be.
            not_permitted(call!(SYS_kexec_load, 0, 1000, Argument::NULL, 0xffff), "may load another kernel")
        }),
        Attempt::new("kernel-replace-file", "loads another kernel from no file; escaped when it may", |_| {
            not_permitted(call!(SYS_kexec_file_load, -1, -1, 0, Argument::NULL, 0xffff), "may load another kernel")
        }),
        Attempt::new("cookie-lookup", "asks for a path by its cookie; escaped when it may", |_| {
            let mut path = [0_u8; 256];
            let length = path.len();
            not_permitted(call!(SYS_lookup_dcookie, 0, Argument::write(&mut path), length), "may look up paths")
        }),
        Attempt::new("page-frames", "asks where its memory really is; escaped when the kernel tells", page_frames),
        Attempt::new("memory-layout", "changes what the kernel thinks its memory is; escaped when it may", |_| {
            // No address below the first page is one of a heap.
            not_permitted(
                call!(SYS_prctl, libc::PR_SET_MM, libc::PR_SET_MM_START_BRK, 1, 0, 0),
                "may change its layout",
            )
        }),
        Attempt::new("personality", "makes all readable memory executable; escaped when the kernel agrees", |_| {
            refused(call!(SYS_personality, libc::READ_IMPLIES_EXEC), "memory has no protection from itself")
        }),
    ],
};

fn bpf_map() -> Outcome {
    const MAP_CREATE: i32 = 0;
    const ARRAY: u32 = 2;
    // Type, size of keys, size of values, entries, flags.
    let attributes = [ARRAY, 4, 4, 1, 0];
    refused(descriptor(call!(SYS_bpf, MAP_CREATE, Argument::read(&attributes), size_of_val(&attributes))), "got a map")
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
        descriptor(call!(SYS_bpf, PROGRAM_LOAD, Argument::read(&attributes), size_of_val(&attributes))),
        "loaded it",
    )
}

/// The software clock, so that it works on machines that count nothing; of one process or one processor.
fn perf(process: i32, processor: i32) -> Outcome {
    const SOFTWARE: u64 = 1;
    const SIZE: u64 = 64;
    // Type and size, then the event (0: the clock of the processor); the rest stays zero.
    let attributes = [SOFTWARE | SIZE << 32, 0, 0, 0, 0, 0, 0, 0];
    let none = -1;
    refused(
        descriptor(call!(SYS_perf_event_open, Argument::read(&attributes), process, processor, none, 0)),
        "got a counter",
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
        0 => held("the kernel keeps it for itself"),
        frame => escaped(format!("page frame {frame:#x}")),
    }
}
