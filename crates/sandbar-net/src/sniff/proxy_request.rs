//! What is asked of the explicit proxy.

use super::{HostPort, MOST_OPENING};

/// How a connection to the proxy begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProxyOpening {
    /// More bytes are needed. Never said of [`MOST_OPENING`] bytes or more.
    Unfinished,
    /// A tunnel is asked for; its bytes begin after the `head`.
    Connect { target: HostPort, head: usize },
    /// No tunnel: a request to be passed on, if anything.
    Other,
    /// A tunnel to nowhere.
    Bad(&'static str),
}

const MOST_HEADERS: usize = 100;

/// Looks at what the client has sent to the proxy so far.
pub(crate) fn proxy_request(bytes: &[u8]) -> ProxyOpening {
    const METHOD: &[u8] = b"CONNECT ";
    // Empty lines before a request are forgiven, as the parser does.
    let lines = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let method = &bytes[lines..];
    let compared = method.len().min(METHOD.len());
    if method[..compared] != METHOD[..compared] {
        return ProxyOpening::Other;
    }
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(head)) => match request.path.map(|target| HostPort::parse(target, None)) {
            Some(Some(target)) => ProxyOpening::Connect { target, head },
            _ => ProxyOpening::Bad("the target is no `host:port`"),
        },
        Ok(httparse::Status::Partial) if bytes.len() < MOST_OPENING => ProxyOpening::Unfinished,
        Ok(httparse::Status::Partial) => ProxyOpening::Bad("the head of the request is too long"),
        Err(_) => ProxyOpening::Bad("the request is malformed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnel_is_known_when_its_head_is_whole() {
        let request = b"CONNECT example.com:443 HTTP/1.1\r\nHost: other.example\r\n\r\nhello";
        let head = request.len() - 5;
        for cut in 0..head {
            assert_eq!(proxy_request(&request[..cut]), ProxyOpening::Unfinished, "{cut}");
        }
        let target = HostPort::parse("example.com:443", None).unwrap();
        assert_eq!(proxy_request(request), ProxyOpening::Connect { target, head });
        let target = HostPort::parse("[2001:db8::1]:22", None).unwrap();
        let request = b"\r\nCONNECT [2001:db8::1]:22 HTTP/1.0\r\n\r\n";
        assert_eq!(proxy_request(request), ProxyOpening::Connect { target, head: request.len() });
    }

    #[test]
    fn what_is_no_tunnel_is_somebody_elses() {
        for other in ["GET http://example.com/ HTTP/1.1\r\n", "CONNECTION", "connect a:1 HTTP/1.1\r\n\r\n", "\x16\x03"]
        {
            assert_eq!(proxy_request(other.as_bytes()), ProxyOpening::Other, "{other}");
        }
    }

    #[test]
    fn a_tunnel_to_nowhere_is_refused() {
        for target in
            ["example.com", "user@example.com:443", "http://example.com/", "127.1:80", "/", "*", "a:0", "::1:80"]
        {
            let request = format!("CONNECT {target} HTTP/1.1\r\n\r\n");
            assert!(matches!(proxy_request(request.as_bytes()), ProxyOpening::Bad(_)), "{target}");
        }
        for request in ["CONNECT a:1\r\n\r\n", "CONNECT  HTTP/1.1\r\n\r\n", "CONNECT a:1 HTTP/1.1\r\nno colon\r\n\r\n"]
        {
            assert!(matches!(proxy_request(request.as_bytes()), ProxyOpening::Bad(_)), "{request}");
        }
        let endless = [b"CONNECT a:1 HTTP/1.1\r\nx: ".to_vec(), vec![b'a'; MOST_OPENING]].concat();
        assert!(matches!(proxy_request(&endless), ProxyOpening::Bad(_)));
    }
}
