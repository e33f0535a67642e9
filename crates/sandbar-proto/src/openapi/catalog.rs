//! All messages, enums and calls of the descriptors, with their comments.

use std::collections::BTreeMap;

use buffa_descriptor::generated::descriptor::{
    DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet,
    MethodDescriptorProto,
};

use super::comments::{Comments, step};

/// Content of all files.
#[derive(Debug, Default)]
pub(super) struct Catalog<'a> {
    /// Keyed by full name without the leading dot.
    pub(super) messages: BTreeMap<String, Message<'a>>,
    pub(super) enums: BTreeMap<String, Enum<'a>>,
    pub(super) calls: Vec<Call<'a>>,
    /// Comments of the service and of its file.
    pub(super) introduction: String,
    pub(super) service: String,
}

#[derive(Debug)]
pub(super) struct Message<'a> {
    pub(super) descriptor: &'a DescriptorProto,
    pub(super) comment: String,
    /// Comments in the order of the fields.
    pub(super) field_comments: Vec<String>,
    pub(super) oneof_comments: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Enum<'a> {
    pub(super) descriptor: &'a EnumDescriptorProto,
    pub(super) comment: String,
    /// Comments in the order of the values.
    pub(super) value_comments: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Call<'a> {
    /// Full name of its service.
    pub(super) service: String,
    pub(super) method: &'a MethodDescriptorProto,
    pub(super) comment: String,
}

impl<'a> Catalog<'a> {
    pub(super) fn of(files: &'a FileDescriptorSet) -> Self {
        let mut catalog = Self::default();
        for file in &files.file {
            catalog.add_file(file);
        }
        catalog
    }

    fn add_file(&mut self, file: &'a FileDescriptorProto) {
        let comments = Comments::of(file);
        let package = file.package.as_deref().unwrap_or_default();
        for (index, message) in counted(&file.message_type) {
            self.add_message(&comments, package, message, &[step::MESSAGE, index]);
        }
        for (index, kind) in counted(&file.enum_type) {
            self.add_enum(&comments, package, kind, &[step::ENUM, index]);
        }
        for (index, service) in counted(&file.service) {
            comments
                .at(&[step::SYNTAX])
                .clone_into(&mut self.introduction);
            comments
                .at(&[step::SERVICE, index])
                .clone_into(&mut self.service);
            let name = format!("{package}.{}", service.name.as_deref().unwrap_or_default());
            self.calls
                .extend(counted(&service.method).map(|(position, method)| {
                    Call {
                        service: name.clone(),
                        method,
                        comment: comments
                            .at(&[step::SERVICE, index, step::METHOD, position])
                            .to_owned(),
                    }
                }));
        }
    }

    fn add_message(
        &mut self,
        comments: &Comments,
        parent: &str,
        descriptor: &'a DescriptorProto,
        path: &[i32],
    ) {
        let name = format!(
            "{parent}.{}",
            descriptor.name.as_deref().unwrap_or_default()
        );
        let below = |kind, index| [path, &[kind, index]].concat();
        for (index, nested) in counted(&descriptor.nested_type) {
            self.add_message(comments, &name, nested, &below(step::NESTED, index));
        }
        for (index, nested) in counted(&descriptor.enum_type) {
            self.add_enum(comments, &name, nested, &below(step::NESTED_ENUM, index));
        }
        let all = |kind, count| {
            numbers(count)
                .map(|index| comments.at(&below(kind, index)).to_owned())
                .collect()
        };
        let message = Message {
            descriptor,
            comment: comments.at(path).to_owned(),
            field_comments: all(step::FIELD, descriptor.field.len()),
            oneof_comments: all(step::ONEOF, descriptor.oneof_decl.len()),
        };
        self.messages.insert(name, message);
    }

    fn add_enum(
        &mut self,
        comments: &Comments,
        parent: &str,
        descriptor: &'a EnumDescriptorProto,
        path: &[i32],
    ) {
        let name = format!(
            "{parent}.{}",
            descriptor.name.as_deref().unwrap_or_default()
        );
        let comment = |index| {
            comments
                .at(&[path, &[step::VALUE, index]].concat())
                .to_owned()
        };
        let value_comments = numbers(descriptor.value.len()).map(comment).collect();
        self.enums.insert(
            name,
            Enum {
                descriptor,
                comment: comments.at(path).to_owned(),
                value_comments,
            },
        );
    }
}

fn counted<T>(things: &[T]) -> impl Iterator<Item = (i32, &T)> {
    (0..).zip(things)
}

fn numbers(count: usize) -> impl Iterator<Item = i32> {
    (0..).take(count)
}
