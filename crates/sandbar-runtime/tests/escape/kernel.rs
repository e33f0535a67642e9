//! Kernel interfaces that a box does not need are closed. The io_uring of gVisor is the sentry's
//! own.

use crate::case::{contained, held};

attempts! {
    no_bpf_map_is_created: held("bpf-map"),
    no_bpf_program_is_loaded: held("bpf-program"),
    perf_does_not_count_own_events: held("perf-itself"),
    perf_does_not_count_events_of_a_processor: held("perf-processor"),
    box_does_not_handle_kernel_page_faults: held("page-faults"),
    box_gets_no_io_uring: contained("io-uring", "created an io_uring"),
    no_kernel_module_is_loaded: held("module-load"),
    no_kernel_module_is_loaded_from_a_file: held("module-load-file"),
    no_kernel_module_is_unloaded: held("module-unload"),
    no_other_kernel_is_loaded: held("kernel-replace"),
    no_other_kernel_is_loaded_from_a_file: held("kernel-replace-file"),
    no_path_is_found_by_cookie: held("cookie-lookup"),
    page_frames_are_hidden: held("page-frames"),
    memory_layout_stays: held("memory-layout"),
    memory_keeps_its_protection: held("personality"),
}
