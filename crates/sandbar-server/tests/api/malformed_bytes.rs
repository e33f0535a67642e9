//! Bytes that begin like HTTP and are malformed.

use crate::malformed_requests::Generator;

impl Generator {
    /// Malformed HTTP/1.1.
    pub(crate) fn http1(&mut self) -> Vec<u8> {
        let (method, content_type) = self.one_of(&[
            ("ListBases", "application/json"),
            ("ListBases", "application/grpc-web+proto"),
            ("ReadFile", "application/connect+json"),
            ("WriteFile", "application/connect+proto"),
            ("WriteFile", "application/grpc-web"),
        ]);
        let head = format!(
            "POST /sandbar.v1.SandboxService/{method} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: \
             {content_type}\r\n",
            self.authority, self.token
        );
        let long = "x".repeat(200_000);
        let tail = match self.random.u8(..22) {
            0 => "content-length: 100\r\n\r\n{}",
            1 => "content-length: 1\r\n\r\n{}",
            2 => "content-length: 2\r\ncontent-length: 3\r\n\r\n{}",
            3 => "content-length: -1\r\n\r\n{}",
            4 => "content-length: 99999999999999999999\r\n\r\n{}",
            5 => "transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
            6 => "transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n{}\r\n0\r\n\r\n",
            7 => "transfer-encoding: chunked\r\n\r\n2\r\n{}x\r\n0\r\n\r\n",
            8 => "transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            9 => "transfer-encoding: gzip, nonsense\r\n\r\n{}",
            10 => "no colon here\r\n\r\n",
            11 => "x: a\r\n folded\r\ncontent-length: 2\r\n\r\n{}",
            12 => "x\0: a\r\n\r\n",
            13 => ": empty\r\n\r\n",
            14 => "host: second\r\ncontent-length: 2\r\n\r\n{}",
            15 => {
                "upgrade: h2c\r\nconnection: upgrade\r\nhttp2-settings: !!\r\ncontent-length: 2\r\n\r\n{}"
            }
            // Three pipelined requests.
            16 => {
                return format!("{head}content-length: 2\r\n\r\n{{}}")
                    .repeat(3)
                    .into_bytes();
            }
            17 => return format!("{head}x: {long}\r\n\r\n").into_bytes(),
            18 => return format!("GET /{long} HTTP/1.1\r\nhost: a\r\n\r\n").into_bytes(),
            19 => {
                let line = self.one_of(&[
                    "GET / HTTP/9.9\r\n\r\n",
                    "GET\r\n\r\n",
                    "\r\n\r\n\r\n",
                    "GET / HTTP/1.1\n\n",
                    " / \r\n\r\n",
                ]);
                return line.into();
            }
            20 => {
                return format!("CONNECT {} HTTP/1.1\r\nhost: x\r\n\r\n", self.authority)
                    .into_bytes();
            }
            _ => return self.garbage(300),
        };
        format!("{head}{tail}").into_bytes()
    }

    /// Malformed HTTP/2.
    pub(crate) fn http2(&mut self) -> Vec<u8> {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        if self.random.u8(..4) > 0 {
            bytes.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
        }
        for _ in 0..self.random.usize(1..12) {
            let payload = match self.random.u8(..4) {
                0 => self.garbage(40),
                1 => vec![0; self.random.usize(..9)],
                // `:method: POST`, `:scheme: http`, `:path: /` from the table.
                2 => vec![0x83, 0x86, 0x84],
                _ => vec![0xff; self.random.usize(..20)],
            };
            let length = match self.random.u8(..8) {
                0 => [0xff, 0xff, 0xff],
                1 => [0, 0x40, 1],
                _ => [0, 0, u8::try_from(payload.len()).unwrap()],
            };
            bytes.extend_from_slice(&length);
            bytes.push(self.random.u8(..12));
            bytes.push(self.random.u8(..));
            bytes.extend_from_slice(&[0, 0, 0, self.random.u8(..6)]);
            bytes.extend_from_slice(&payload);
        }
        bytes
    }
}
