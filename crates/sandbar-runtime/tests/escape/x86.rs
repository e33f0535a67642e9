//! Other ways into the kernel are closed as well.

use crate::case::held;

attempts! {
    box_gets_no_io_ports: held("ports-all"),
    box_gets_no_single_io_port: held("ports-one"),
    segment_table_is_unchanged: held("segment-table"),
    calls_of_32_bit_are_filtered: held("calls-of-32-bit"),
    calls_of_32_bit_create_no_keyring: held("calls-of-32-bit-keys"),
    calls_of_x32_are_filtered: held("calls-of-x32"),
    call_number_with_high_bits_is_filtered: held("calls-with-high-bits"),
}
