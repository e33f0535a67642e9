//! Parses the first request to the explicit proxy.

use super::{HostPort, MAX_OPENING_BYTES};

/// First request of a connection to the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProxyOpening {
    /// More bytes are needed. Never returned for [`MAX_OPENING_BYTES`] bytes or more.
    Unfinished,
    /// `CONNECT`. The bytes of the tunnel start after `head` bytes.
    Connect { target: HostPort, head: usize },
    /// Not `CONNECT`: a request to forward, or not HTTP at all.
    Other,
    /// `CONNECT` with a malformed head or target.
    Bad(&'static str),
}

const MAX_HEADERS: usize = 100;

/// Parses the bytes that the client has sent to the proxy so far.
pub(crate) fn proxy_request(bytes: &[u8]) -> ProxyOpening {
    const METHOD: &[u8] = b"CONNECT ";
    // `httparse` skips empty lines before a request.
    let lines = bytes
        .iter()
        .take_while(|byte| matches!(byte, b'\r' | b'\n'))
        .count();
    let method = &bytes[lines..];
    let compared = method.len().min(METHOD.len());
    if method[..compared] != METHOD[..compared] {
        return ProxyOpening::Other;
    }
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(head)) => {
            match request.path.map(|target| HostPort::parse(target, None)) {
                Some(Some(target)) => ProxyOpening::Connect { target, head },
                _ => ProxyOpening::Bad("the target is not `host:port`"),
            }
        }
        Ok(httparse::Status::Partial) if bytes.len() < MAX_OPENING_BYTES => {
            ProxyOpening::Unfinished
        }
        Ok(httparse::Status::Partial) => ProxyOpening::Bad("the head of the request is too long"),
        Err(_) => ProxyOpening::Bad("the request is malformed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connect_is_recognised_when_its_head_is_complete() {
        let request = b"CONNECT example.com:443 HTTP/1.1\r\nHost: other.example\r\n\r\nhello";
        let head = request.len() - 5;
        for cut in 0..head {
            assert_eq!(
                proxy_request(&request[..cut]),
                ProxyOpening::Unfinished,
                "{cut}"
            );
        }
        let target = HostPort::parse("example.com:443", None).unwrap();
        assert_eq!(
            proxy_request(request),
            ProxyOpening::Connect { target, head }
        );
        let target = HostPort::parse("[2001:db8::1]:22", None).unwrap();
        let request = b"\r\nCONNECT [2001:db8::1]:22 HTTP/1.0\r\n\r\n";
        assert_eq!(
            proxy_request(request),
            ProxyOpening::Connect {
                target,
                head: request.len()
            }
        );
    }

    #[test]
    fn other_requests_are_not_connect() {
        for other in [
            "GET http://example.com/ HTTP/1.1\r\n",
            "CONNECTION",
            "connect a:1 HTTP/1.1\r\n\r\n",
            "\x16\x03",
        ] {
            assert_eq!(
                proxy_request(other.as_bytes()),
                ProxyOpening::Other,
                "{other}"
            );
        }
    }

    #[test]
    fn connect_with_malformed_target_is_refused() {
        for target in [
            "example.com",
            "user@example.com:443",
            "http://example.com/",
            "127.1:80",
            "/",
            "*",
            "a:0",
            "::1:80",
        ] {
            let request = format!("CONNECT {target} HTTP/1.1\r\n\r\n");
            assert!(
                matches!(proxy_request(request.as_bytes()), ProxyOpening::Bad(_)),
                "{target}"
            );
        }
        for request in [
            "CONNECT a:1\r\n\r\n",
            "CONNECT  HTTP/1.1\r\n\r\n",
            "CONNECT a:1 HTTP/1.1\r\nno colon\r\n\r\n",
        ] {
            assert!(
                matches!(proxy_request(request.as_bytes()), ProxyOpening::Bad(_)),
                "{request}"
            );
        }
        let endless = [
            b"CONNECT a:1 HTTP/1.1\r\nx: ".to_vec(),
            vec![b'a'; MAX_OPENING_BYTES],
        ]
        .concat();
        assert!(matches!(proxy_request(&endless), ProxyOpening::Bad(_)));
    }
}
