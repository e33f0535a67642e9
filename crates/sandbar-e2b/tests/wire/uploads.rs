//! Requests to `/files`, as SDKs send them.

use bytes::Bytes;
use http_body_util::Full;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::client::{Answer, Sandbox, send};

/// Percent-encodes a text for a URL.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// Builds a form with files, as HTTP libraries encode it.
pub(crate) fn form(files: &[(&str, &[u8])]) -> (String, Bytes) {
    let boundary = "----frontier7MA4YWxk";
    let mut body = Vec::new();
    for (name, content) in files {
        let head = format!("Content-Disposition: form-data; name=\"file\"; filename=\"{name}\"");
        body.extend_from_slice(
            format!("--{boundary}\r\n{head}\r\nContent-Type: text/plain\r\n\r\n").as_bytes(),
        );
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    (
        format!("multipart/form-data; boundary={boundary}"),
        body.into(),
    )
}

impl Sandbox {
    pub(crate) async fn post(
        &self,
        address: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let mut request = self.request("POST", address);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        send(self.address, request.body(Full::new(body.into())).unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = self.request("GET", &format!("/files?path={}", encoded(path)));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        send(self.address, request.body(Full::default()).unwrap()).await
    }

    /// Writes one file as older SDKs do: in a form, with the path in the query.
    pub(crate) async fn write(&self, path: &str, content: &[u8]) -> Value {
        let (kind, body) = form(&[(path, content)]);
        let answer = self
            .post(
                &format!("/files?path={}", encoded(path)),
                &[("content-type", &kind)],
                body,
            )
            .await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// Writes one file as newer SDKs do.
    pub(crate) async fn write_raw(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        content: &[u8],
    ) -> Answer {
        let mut all = vec![("content-type", "application/octet-stream")];
        all.extend_from_slice(headers);
        self.post(
            &format!("/files?path={}", encoded(path)),
            &all,
            content.to_vec(),
        )
        .await
    }

    pub(crate) async fn read(&self, path: &str) -> String {
        let answer = self.get(path, &[]).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.text().to_owned()
    }
}
