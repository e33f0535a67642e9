//! Other ways into the kernel are closed as well.

use crate::case::held;

attempts! {
    it_gets_no_ports: held("ports-all"),
    it_gets_no_single_port: held("ports-one"),
    its_segments_stay: held("segment-table"),
    the_32_bit_calls_are_no_way_around: held("calls-of-32-bit"),
    the_32_bit_calls_make_no_keyring: held("calls-of-32-bit-keys"),
    the_x32_calls_are_no_way_around: held("calls-of-x32"),
    a_call_number_with_high_bits_is_no_way_around: held("calls-with-high-bits"),
}
