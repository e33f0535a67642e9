//! A number of bytes with its text form.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::{Error, Result};

/// A number of bytes. `2G`, `512M`, `64KiB` and plain `1048576` parse; units are powers of 1024.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ByteCount(pub u64);

impl ByteCount {
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }

    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u32); 5] = [
            ("PiB", 50),
            ("TiB", 40),
            ("GiB", 30),
            ("MiB", 20),
            ("KiB", 10),
        ];
        let Some((unit, shift)) = UNITS.into_iter().find(|(_, shift)| self.0 >> shift > 0) else {
            return f.pad(&format!("{} B", self.0));
        };
        let whole = self.0 >> shift;
        let tenths = ((self.0 >> (shift - 10)) & 1023) * 10 / 1024;
        if whole < 10 && tenths > 0 {
            f.pad(&format!("{whole}.{tenths} {unit}"))
        } else {
            f.pad(&format!("{whole} {unit}"))
        }
    }
}

impl FromStr for ByteCount {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let complain = |why: &str| {
            Error::invalid("bytes", format!("size `{}` {why}", text.escape_debug()))
                .with_hint("write a number with an optional unit: `1048576`, `512M`, `2G`")
        };
        let trimmed = text.trim();
        let digits = trimmed
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits);
        let number: u64 = number
            .parse()
            .map_err(|_| complain("does not start with a whole number"))?;
        let shift = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(complain("has an unknown unit")),
        };
        number
            .checked_mul(1 << shift)
            .map(Self)
            .ok_or_else(|| complain("is too large"))
    }
}

/// A number of bytes, or a text with a unit.
impl<'de> Deserialize<'de> for ByteCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = ByteCount;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes, such as 1048576 or \"512M\"")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> std::result::Result<ByteCount, E> {
                Ok(ByteCount(value))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> std::result::Result<ByteCount, E> {
                u64::try_from(value)
                    .map(ByteCount)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<ByteCount, E> {
                text.parse()
                    .map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_count_parses_with_units() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("1k", 1024),
            ("512M", 512 << 20),
            ("2G", 2 << 30),
            ("2 GiB", 2 << 30),
            ("1T", 1 << 40),
        ] {
            assert_eq!(
                text.parse::<ByteCount>().unwrap(),
                ByteCount(bytes),
                "{text}"
            );
        }
        for bad in ["", "G", "-1", "1.5G", "1X", "99999999999T"] {
            assert!(bad.parse::<ByteCount>().is_err(), "{bad}");
        }
    }

    #[test]
    fn byte_count_prints_with_units() {
        assert_eq!(ByteCount(0).to_string(), "0 B");
        assert_eq!(ByteCount(1536).to_string(), "1.5 KiB");
        assert_eq!(ByteCount::gib(64).to_string(), "64 GiB");
    }
}
