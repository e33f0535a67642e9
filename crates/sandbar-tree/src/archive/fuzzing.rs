//! Entry points of the fuzzer.

use super::{
    pax::{Records, format_time, parse_time},
    sparse::{SparseForm, is_sound, read_map},
};

/// Extended header records and times that parse are unchanged by a round trip.
pub fn pax_records(bytes: &[u8]) {
    if let Some(records) = Records::decode(bytes) {
        let again = Records::decode(&records.encode());
        assert!(
            again.is_some_and(|again| again.iter().eq(records.iter())),
            "records changed"
        );
        let _ = SparseForm::of(&records);
        let _ = records.xattrs();
    }
    if let Some(time) = parse_time(bytes) {
        let again = parse_time(format_time(time).as_bytes());
        assert_eq!(
            again.map(|again| (again.tv_sec, again.tv_nsec)),
            Some((time.tv_sec, time.tv_nsec))
        );
    }
}

/// Sparse map at the start of a file with holes.
pub fn sparse_map(bytes: &[u8]) {
    if let Ok(Some((segments, read))) = read_map(&mut &bytes[..]) {
        assert!(read <= bytes.len() as u64, "more was read than is there");
        let _ = is_sound(&segments, u64::MAX, 0);
    }
}
