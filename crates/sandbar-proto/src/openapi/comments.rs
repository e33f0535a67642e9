//! What the `.proto` files say beside the code.

use std::collections::HashMap;

use buffa_descriptor::generated::descriptor::FileDescriptorProto;

/// Field numbers in `descriptor.proto`, of which the path to a thing is made.
pub(super) mod step {
    pub(in crate::openapi) const MESSAGE: i32 = 4;
    pub(in crate::openapi) const ENUM: i32 = 5;
    pub(in crate::openapi) const SERVICE: i32 = 6;
    pub(in crate::openapi) const SYNTAX: i32 = 12;
    /// Of a service.
    pub(in crate::openapi) const METHOD: i32 = 2;
    /// Of a message: its fields, messages and enums inside, and oneofs.
    pub(in crate::openapi) const FIELD: i32 = 2;
    pub(in crate::openapi) const NESTED: i32 = 3;
    pub(in crate::openapi) const NESTED_ENUM: i32 = 4;
    pub(in crate::openapi) const ONEOF: i32 = 8;
    /// Of an enum.
    pub(in crate::openapi) const VALUE: i32 = 2;
}

/// The comments of one file, by the path to what they are about.
#[derive(Debug)]
pub(super) struct Comments(HashMap<Vec<i32>, String>);

impl Comments {
    pub(super) fn of(file: &FileDescriptorProto) -> Self {
        let said = file.source_code_info.location.iter().filter_map(|location| {
            let text = location.leading_comments.as_ref().or(location.trailing_comments.as_ref())?;
            Some((location.path.clone(), without_margin(text)))
        });
        Self(said.collect())
    }

    /// What is said about the thing at the end of a path; nothing is an empty text.
    pub(super) fn at(&self, path: &[i32]) -> &str {
        self.0.get(path).map_or("", String::as_str)
    }
}

/// The text of a comment without the space behind `//`.
fn without_margin(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end()).collect();
    lines.join("\n").trim().to_owned()
}

/// The first sentence, for lists.
pub(super) fn first_sentence(text: &str) -> String {
    let end = text.find(". ").or_else(|| text.find(".\n")).unwrap_or(text.len());
    text[..end].trim_end_matches('.').replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_loses_its_margin_and_keeps_its_shape() {
        assert_eq!(without_margin(" One.\n\n   code\n two \n"), "One.\n\n  code\ntwo");
    }

    #[test]
    fn a_summary_is_one_line() {
        assert_eq!(first_sentence("What is\nknown. Errors: x."), "What is known");
        assert_eq!(first_sentence("Alone."), "Alone");
        assert_eq!(first_sentence(""), "");
    }
}
