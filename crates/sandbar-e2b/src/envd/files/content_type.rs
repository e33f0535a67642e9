//! Content type of a file.

use std::path::Path;

const BINARY: &str = "application/octet-stream";
const TEXT: &str = "text/plain; charset=utf-8";

/// Returns the content type by the file name extension, otherwise by the first bytes.
pub(super) fn content_type(path: &Path, start: &[u8]) -> &'static str {
    let extension = path
        .extension()
        .map(|extension| extension.to_string_lossy().to_ascii_lowercase());
    match extension.as_deref() {
        Some("avif") => "image/avif",
        Some("css") => "text/css; charset=utf-8",
        Some("csv") => "text/csv; charset=utf-8",
        Some("gif") => "image/gif",
        Some("gz") => "application/gzip",
        Some("htm" | "html") => "text/html; charset=utf-8",
        Some("jpeg" | "jpg") => "image/jpeg",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("json") => "application/json",
        Some("md") => "text/markdown; charset=utf-8",
        Some("pdf") => "application/pdf",
        Some("png") => "image/png",
        Some("svg") => "image/svg+xml",
        Some("txt") => TEXT,
        Some("wasm") => "application/wasm",
        Some("webp") => "image/webp",
        Some("xml") => "text/xml; charset=utf-8",
        Some("zip") => "application/zip",
        _ if start
            .iter()
            .any(|byte| matches!(byte, 0..=8 | 11 | 14..=26 | 28..=31)) =>
        {
            BINARY
        }
        _ => TEXT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_takes_precedence_over_content() {
        assert_eq!(
            content_type(Path::new("/a/b.JSON"), b"\0"),
            "application/json"
        );
        assert_eq!(content_type(Path::new("/a/b"), b"text\n"), TEXT);
        assert_eq!(content_type(Path::new("/a/b.bin"), b"\x7fELF\0"), BINARY);
    }
}
