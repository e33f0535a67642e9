//! Parser for the configuration key `object_store`, the store of hibernated sessions.

use std::path::PathBuf;

use sandbar_core::{Error, Result};
use sandbar_storage::pack::{S3Target, Target};

const KEY: &str = "object_store";
const HINT: &str =
    "give an absolute directory, or `s3://bucket?region=...&endpoint=...&allow_http=true`";

/// Parses a directory or `s3://bucket?key=value&...`.
pub(crate) fn parse(text: &str) -> Result<Target> {
    if let Some(location) = text.strip_prefix("s3://") {
        return parse_bucket(location).map(Target::S3);
    }
    let directory = PathBuf::from(text);
    if text.contains("://") || !directory.is_absolute() {
        return Err(refused(format!(
            "`{text}` is neither an absolute directory nor a bucket"
        )));
    }
    Ok(Target::Directory(directory))
}

fn parse_bucket(location: &str) -> Result<S3Target> {
    let (bucket, options) = location.split_once('?').unwrap_or((location, ""));
    if bucket.is_empty() || bucket.contains('/') {
        return Err(refused(format!("bucket name `{bucket}` is invalid")));
    }
    let mut target = S3Target {
        bucket: bucket.into(),
        ..S3Target::default()
    };
    for option in options.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("region", region)) if !region.is_empty() => target.region = Some(region.into()),
            Some(("endpoint", endpoint))
                if endpoint.starts_with("http://") || endpoint.starts_with("https://") =>
            {
                target.endpoint = Some(endpoint.into());
            }
            Some(("allow_http", "true")) => target.allow_http = true,
            Some(("allow_http", "false")) => target.allow_http = false,
            // Shows only the key: the value may be a misplaced secret.
            other => {
                let key = other.map_or(option, |(key, _)| key);
                return Err(refused(format!(
                    "bucket option `{key}` is unknown, or its value is invalid"
                ))
                .with_hint(
                    "use `region`, `endpoint` and `allow_http`; keys come from the environment",
                ));
            }
        }
    }
    if !target.allow_http
        && target
            .endpoint
            .as_ref()
            .is_some_and(|endpoint| endpoint.starts_with("http://"))
    {
        return Err(refused("bucket endpoint is not encrypted".into())
            .with_hint("use `https://`, or add `allow_http=true`"));
    }
    Ok(target)
}

fn refused(message: String) -> Error {
    Error::invalid(KEY, message).with_hint(HINT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_and_buckets_are_parsed() {
        assert!(
            matches!(parse("/srv/packs").unwrap(), Target::Directory(path) if path.as_os_str() == "/srv/packs")
        );
        let Target::S3(plain) = parse("s3://packs").unwrap() else {
            panic!("a bucket")
        };
        assert_eq!(
            (plain.bucket.as_str(), plain.region, plain.endpoint),
            ("packs", None, None)
        );
        let text = "s3://packs?region=eu-1&endpoint=http://127.0.0.1:9000&allow_http=true";
        let Target::S3(own) = parse(text).unwrap() else {
            panic!("a bucket")
        };
        assert_eq!(
            (own.region.as_deref(), own.allow_http),
            (Some("eu-1"), true)
        );
        assert_eq!(own.endpoint.as_deref(), Some("http://127.0.0.1:9000"));
    }

    #[test]
    fn other_targets_are_refused_without_repeating_secrets() {
        let bad = [
            "",
            "packs",
            "./packs",
            "ftp://packs",
            "s3://",
            "s3://packs/below",
            "s3://packs?endpoint=packs.example",
            "s3://packs?endpoint=http://packs.example",
            "s3://packs?allow_http=maybe",
            "s3://packs?secret_access_key=hunter2",
        ];
        for text in bad {
            let error = parse(text).unwrap_err();
            assert_eq!(error.field(), Some("object_store"), "{text}");
            assert!(
                error.hint().is_some() && !error.chain().contains("hunter2"),
                "{text}"
            );
        }
    }
}
