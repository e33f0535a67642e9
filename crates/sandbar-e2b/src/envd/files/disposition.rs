//! Headers with parameters, such as `form-data; name="file"; filename="a b"`.

use percent_encoding::percent_decode;

/// A header value and its parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parameters {
    /// Lower-case value.
    pub(crate) value: String,
    fields: Vec<(String, String)>,
}

impl Parameters {
    /// Parses a header; `None` if it is malformed.
    pub(crate) fn read(header: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(header);
        let (value, mut rest) = text
            .split_once(';')
            .map_or((&*text, ""), |(value, rest)| (value, rest));
        let mut fields: Vec<(String, String)> = Vec::new();
        loop {
            rest = rest.trim_start_matches([' ', '\t', ';']);
            if rest.is_empty() {
                break;
            }
            let (name, after) = rest.split_once('=')?;
            let name = name.trim().to_ascii_lowercase();
            let (field, after) = field(after.trim_start())?;
            if fields.iter().any(|(known, _)| *known == name) {
                return None;
            }
            fields.push((name, field));
            rest = after.trim_start();
            if !rest.is_empty() && !rest.starts_with(';') {
                return None;
            }
        }
        Some(Self {
            value: value.trim().to_ascii_lowercase(),
            fields,
        })
    }

    /// Returns a parameter. The extended notation (RFC 8187, `filename*=utf-8''%C3%A4`) takes
    /// precedence.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let of = |name: &str| {
            self.fields
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, field)| field)
        };
        if let Some(extended) = of(&format!("{name}*")) {
            let (charset, rest) = extended.split_once('\'')?;
            let (_language, encoded) = rest.split_once('\'')?;
            let is_known =
                charset.eq_ignore_ascii_case("utf-8") || charset.eq_ignore_ascii_case("us-ascii");
            return is_known.then(|| {
                percent_decode(encoded.as_bytes())
                    .decode_utf8_lossy()
                    .into_owned()
            });
        }
        of(name).cloned()
    }
}

/// Parses a token or a quoted string, and returns the rest.
fn field(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([';', ' ', '\t']).unwrap_or(text.len());
        return (end > 0).then(|| (text[..end].to_owned(), &text[end..]));
    };
    let mut field = String::new();
    let mut letters = quoted.char_indices().peekable();
    while let Some((index, letter)) = letters.next() {
        match letter {
            '"' => return Some((field, &quoted[index + 1..])),
            // Only `\"` and `\\` are escapes: some clients send Windows paths unescaped.
            '\\' => match letters.peek() {
                Some((_, escaped @ ('"' | '\\'))) => {
                    field.push(*escaped);
                    letters.next();
                }
                _ => field.push('\\'),
            },
            letter => field.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_parsed_in_every_notation() {
        let read = |text: &str| Parameters::read(text.as_bytes()).unwrap();
        let plain = read("form-data; name=\"file\"; filename=\"/home/user/a b;c.txt\"");
        assert_eq!(plain.value, "form-data");
        assert_eq!(plain.get("name").as_deref(), Some("file"));
        assert_eq!(
            plain.get("filename").as_deref(),
            Some("/home/user/a b;c.txt")
        );
        assert_eq!(plain.get("other"), None);
        assert_eq!(
            read("Multipart/Form-Data;boundary=abc")
                .get("boundary")
                .as_deref(),
            Some("abc")
        );
        assert_eq!(
            read(r#"a; n="x\"y\\z\w""#).get("n").as_deref(),
            Some(r#"x"y\z\w"#)
        );
        assert_eq!(
            read("a; filename=x; filename*=utf-8''%C3%A4%20b")
                .get("filename")
                .as_deref(),
            Some("ä b")
        );
        assert_eq!(
            read("a; filename=\"文件.txt\"").get("filename").as_deref(),
            Some("文件.txt")
        );
        for broken in ["a; b", "a; b=\"c", "a; b=", "a; b=c; b=d", "a; b=\"c\"d"] {
            assert_eq!(Parameters::read(broken.as_bytes()), None, "{broken}");
        }
    }
}
