//! Comments of the `.proto` files.

use std::collections::HashMap;

use buffa_descriptor::generated::descriptor::FileDescriptorProto;

/// Field numbers of `descriptor.proto`, which form the path of an element.
pub(super) mod step {
    pub(in crate::openapi) const MESSAGE: i32 = 4;
    pub(in crate::openapi) const ENUM: i32 = 5;
    pub(in crate::openapi) const SERVICE: i32 = 6;
    pub(in crate::openapi) const SYNTAX: i32 = 12;
    /// Method of a service.
    pub(in crate::openapi) const METHOD: i32 = 2;
    /// Parts of a message: fields, nested messages and enums, oneofs.
    pub(in crate::openapi) const FIELD: i32 = 2;
    pub(in crate::openapi) const NESTED: i32 = 3;
    pub(in crate::openapi) const NESTED_ENUM: i32 = 4;
    pub(in crate::openapi) const ONEOF: i32 = 8;
    /// Value of an enum.
    pub(in crate::openapi) const VALUE: i32 = 2;
}

/// Comments of one file, keyed by the path of the element.
#[derive(Debug)]
pub(super) struct Comments(HashMap<Vec<i32>, String>);

impl Comments {
    pub(super) fn of(file: &FileDescriptorProto) -> Self {
        let said = file
            .source_code_info
            .location
            .iter()
            .filter_map(|location| {
                let text = location
                    .leading_comments
                    .as_ref()
                    .or(location.trailing_comments.as_ref())?;
                Some((location.path.clone(), without_margin(text)))
            });
        Self(said.collect())
    }

    /// Returns the comment of an element; empty if it has none.
    pub(super) fn at(&self, path: &[i32]) -> &str {
        self.0.get(path).map_or("", String::as_str)
    }
}

/// Returns the text of a comment without the space after `//`.
fn without_margin(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end())
        .collect();
    lines.join("\n").trim().to_owned()
}

/// Returns the first sentence, for summaries.
pub(super) fn first_sentence(text: &str) -> String {
    let end = text
        .find(". ")
        .or_else(|| text.find(".\n"))
        .unwrap_or(text.len());
    text[..end].trim_end_matches('.').replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comment_margin_is_removed() {
        assert_eq!(
            without_margin(" One.\n\n   code\n two \n"),
            "One.\n\n  code\ntwo"
        );
    }

    #[test]
    fn summary_is_one_line() {
        assert_eq!(
            first_sentence("What is\nknown. Errors: x."),
            "What is known"
        );
        assert_eq!(first_sentence("Alone."), "Alone");
        assert_eq!(first_sentence(""), "");
    }
}
