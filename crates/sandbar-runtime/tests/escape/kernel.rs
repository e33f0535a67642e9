//! Parts of the kernel a box has no business with are closed. The rings of gVisor are the sentry's own.

use crate::case::{contained, held};

attempts! {
    no_bpf_map_is_made: held("bpf-map"),
    no_bpf_program_is_loaded: held("bpf-program"),
    it_does_not_count_its_own_events: held("perf-itself"),
    it_does_not_count_the_events_of_a_processor: held("perf-processor"),
    it_does_not_handle_page_faults_of_the_kernel: held("page-faults"),
    it_gets_no_ring: contained("io-uring", "got a ring"),
    no_kernel_module_is_loaded: held("module-load"),
    no_kernel_module_is_loaded_from_a_file: held("module-load-file"),
    no_kernel_module_is_unloaded: held("module-unload"),
    no_other_kernel_is_loaded: held("kernel-replace"),
    no_other_kernel_is_loaded_from_a_file: held("kernel-replace-file"),
    no_path_is_found_by_cookie: held("cookie-lookup"),
    page_frames_are_not_told: held("page-frames"),
    its_memory_layout_stays: held("memory-layout"),
    its_memory_keeps_its_protection: held("personality"),
}
