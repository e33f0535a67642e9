//! Names of the keys, from the types, and the nearest name to a mistyped one.

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, Visitor, value::Error as ValueError},
};

/// Returns the field names of a struct from its `Deserialize`, so that no second list can become
/// outdated.
pub(crate) fn field_names<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // Fails by design: the call only reveals the field names.
    let _ = T::deserialize(FieldNames(&mut names));
    names
}

struct FieldNames<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = ValueError;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, ValueError> {
        Err(ValueError::custom("only the field names are needed"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Returns the nearest key, if its edit distance is small enough for a hint.
pub(crate) fn nearest<'a>(
    typed: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let typed = typed.to_ascii_lowercase().replace('-', "_");
    let allowed = (typed.chars().count() / 3).max(2);
    known
        .into_iter()
        .map(|key| (distance(&typed, key), key))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, key)| key)
}

/// Returns the Levenshtein distance of two texts.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, left) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = above + 1;
        for (column, right) in other.iter().enumerate() {
            let substituted = diagonal + usize::from(left != *right);
            diagonal = row[column + 1];
            row[column + 1] = substituted.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_names_come_from_the_type() {
        let names = field_names::<sandbar_core::Resources>();
        assert!(
            names.contains(&"pids") && names.contains(&"wall_time"),
            "{names:?}"
        );
    }

    #[test]
    fn nearest_key_is_found_unless_it_is_too_far() {
        let known = ["max_sessions", "storage_backend", "tool_timeout"];
        assert_eq!(nearest("max_session", known), Some("max_sessions"));
        assert_eq!(nearest("storage-backend", known), Some("storage_backend"));
        assert_eq!(nearest("colour", known), None);
    }

    #[test]
    fn distance_is_that_of_levenshtein() {
        for (one, other, expected) in [
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("same", "same", 0),
        ] {
            assert_eq!(distance(one, other), expected);
        }
    }
}
