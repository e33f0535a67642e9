//! Archives and uploads that cost more than they weigh.

use std::{io::Cursor, path::Path, sync::Arc};

use sandbar_core::{Result, TreeSummary, WriteOptions};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::{
    attacker::{Attacker, answered, assert_no_fault, flood},
    attempt::attempts,
    http,
};

attempts! {
    entry_that_claims_eight_exbibytes,
    entries_without_number,
    names_without_end,
    pax_records_without_end,
    pax_record_of_great_length,
    gnu_names_without_end,
    hard_links_to_one_file,
    links_that_lead_out,
    sparse_entries,
    directories_inside_one_another,
    archive_cut_at_every_kind_of_place,
    archive_of_noise,
    archive_of_zeros,
    uploads_cancelled,
    gzip_bomb_to_files,
    multipart_without_end,
    upload_that_fills_the_quota,
    uploads_to_one_path_at_once,
}

const BLOCK: usize = 512;

/// Returns the header of an entry.
fn header(name: &str, kind: u8, size: u64) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    let bytes = name.as_bytes();
    let length = bytes.len().min(100);
    header.as_gnu_mut().unwrap().name[..length].copy_from_slice(&bytes[..length]);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size);
    header.set_entry_type(tar::EntryType::new(kind));
    header.set_cksum();
    header.as_bytes().to_vec()
}

/// Returns an entry with its content, padded to whole blocks.
fn entry(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = header(name, kind, content.len() as u64);
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    bytes
}

/// Returns an entry that is a link.
fn link(name: &str, kind: tar::EntryType, to: &str) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_path(name).unwrap();
    header.set_mode(0o777);
    header.set_size(0);
    header.set_entry_type(kind);
    let target = &mut header.as_gnu_mut().unwrap().linkname;
    target[..to.len()].copy_from_slice(to.as_bytes());
    header.set_cksum();
    header.as_bytes().to_vec()
}

/// Returns a pax record, whose length counts itself.
fn record(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    format!("{length} {key}={value}\n")
}

impl Attacker {
    async fn import(&self, source: impl AsyncRead + Send + Unpin + 'static) -> Result<TreeSummary> {
        let imported = self
            .client
            .import_tree(&self.id, Path::new("/workspace"), source);
        answered("import_tree", imported).await
    }
}

async fn entry_that_claims_eight_exbibytes(attacker: Arc<Attacker>) {
    for size in [i64::MAX as u64, u64::MAX, 1 << 40] {
        let source =
            Cursor::new(header("huge", b'0', size)).chain(tokio::io::repeat(0).take(8 << 20));
        let _ = attacker.import(source).await;
    }
}

async fn entries_without_number(attacker: Arc<Attacker>) {
    let mut all = Vec::new();
    for number in 0..20_000 {
        all.extend(header(&format!("e/{number}"), b'0', 0));
    }
    let _ = attacker.import(Cursor::new(all)).await;
}

async fn names_without_end(attacker: Arc<Attacker>) {
    let mut all = Vec::new();
    for number in 0..200 {
        let name = record("path", &format!("{}/{number}", "a/".repeat(40_000)));
        all.extend(entry("pax", b'x', name.as_bytes()));
        all.extend(header("short", b'0', 0));
    }
    let _ = attacker.import(Cursor::new(all)).await;
}

async fn pax_records_without_end(attacker: Arc<Attacker>) {
    let records: String = (0..60_000)
        .map(|number| record(&format!("SCHILY.xattr.user.n{number}"), "value"))
        .collect();
    let mut all = entry("pax", b'x', records.as_bytes());
    all.extend(entry("f", b'0', b"x"));
    for _ in 0..5000 {
        all.extend(entry("pax", b'x', record("comment", "nothing").as_bytes()));
    }
    all.extend(entry("g", b'0', b"x"));
    let _ = attacker.import(Cursor::new(all)).await;
}

async fn pax_record_of_great_length(attacker: Arc<Attacker>) {
    for kind in [b'x', b'g'] {
        let size = 120 << 20;
        let source = Cursor::new([header("pax", kind, size), b"125829120 path=".to_vec()].concat())
            .chain(tokio::io::repeat(b'a').take(size));
        let _ = attacker.import(source).await;
    }
}

async fn gnu_names_without_end(attacker: Arc<Attacker>) {
    for kind in [b'L', b'K'] {
        let size = 120 << 20;
        let source = Cursor::new(header("././@LongLink", kind, size))
            .chain(tokio::io::repeat(b'a').take(size))
            .chain(Cursor::new(header("f", b'0', 0)));
        let _ = attacker.import(source).await;
    }
}

async fn hard_links_to_one_file(attacker: Arc<Attacker>) {
    let mut all = entry("first", b'0', b"content");
    for number in 0..8000 {
        all.extend(link(&format!("l{number}"), tar::EntryType::Link, "first"));
    }
    let _ = attacker.import(Cursor::new(all)).await;
}

async fn links_that_lead_out(attacker: Arc<Attacker>) {
    let target = attacker.target.to_string_lossy().into_owned();
    let up = format!("{}{target}", "../".repeat(20));
    for to in ["/", "../../../../../..", "/proc/1/root", "/proc/self/cwd"] {
        let mut all = link("out", tar::EntryType::Symlink, to);
        all.extend(entry("out/etc/written", b'0', b"x"));
        all.extend(entry(&format!("out{}", &target), b'0', b"x"));
        let _ = attacker.import(Cursor::new(all)).await;
    }
    for name in [
        up.as_str(),
        target.as_str(),
        "..",
        "/",
        "",
        "./../x",
        "a/../../x",
    ] {
        let _ = attacker.import(Cursor::new(entry(name, b'0', b"x"))).await;
    }
    for kind in [b'3', b'4', b'6', b'7', b'S', b'V', b'Z', 0xff] {
        let _ = attacker.import(Cursor::new(entry("n", kind, b"x"))).await;
    }
}

async fn sparse_entries(attacker: Arc<Attacker>) {
    let records = [
        record("GNU.sparse.major", "1"),
        record("GNU.sparse.minor", "0"),
        record("GNU.sparse.realsize", "9223372036854775807"),
        record("GNU.sparse.size", "9223372036854775807"),
        record("GNU.sparse.numblocks", "4294967295"),
    ]
    .concat();
    let mut all = entry("pax", b'x', records.as_bytes());
    all.extend(entry("f", b'0', &b"9999999\n0\n1\n".repeat(2000)));
    let _ = attacker.import(Cursor::new(all)).await;
    let _ = attacker
        .import(Cursor::new(entry("g", b'S', &[0; 2048])))
        .await;
}

async fn directories_inside_one_another(attacker: Arc<Attacker>) {
    let mut all = Vec::new();
    for depth in 1..1900 {
        let name = record("path", &"d/".repeat(depth));
        all.extend(entry("pax", b'x', name.as_bytes()));
        all.extend(header("d", b'5', 0));
    }
    let _ = attacker.import(Cursor::new(all)).await;
}

async fn archive_cut_at_every_kind_of_place(attacker: Arc<Attacker>) {
    let whole = [
        entry("pax", b'x', record("path", "a/b/c").as_bytes()),
        entry("f", b'0', &[b'x'; 3000]),
        link("l", tar::EntryType::Symlink, "f"),
    ]
    .concat();
    for cut in (0..whole.len()).step_by(250) {
        let _ = attacker.import(Cursor::new(whole[..cut].to_vec())).await;
    }
}

async fn archive_of_noise(attacker: Arc<Attacker>) {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    })
    .take(500_000)
    .flatten()
    .collect();
    let _ = attacker.import(Cursor::new(noise)).await;
}

async fn archive_of_zeros(attacker: Arc<Attacker>) {
    let _ = attacker.import(tokio::io::repeat(0).take(200 << 20)).await;
}

async fn uploads_cancelled(attacker: Arc<Attacker>) {
    let (client, id) = (attacker.client.clone(), attacker.id.clone());
    flood("import_tree", 60, 20, |number| {
        let (client, id) = (client.clone(), id.clone());
        async move {
            let source = Cursor::new(header(&format!("f{number}"), b'0', 1 << 30))
                .chain(tokio::io::repeat(1).take(1 << 20))
                .chain(tokio::io::empty());
            // The source of some ends, the others are dropped in the middle.
            let import = client.import_tree(&id, Path::new("/workspace/c"), source);
            if number % 2 == 0 {
                let short = std::time::Duration::from_millis(20);
                let _ = tokio::time::timeout(short, import).await;
                return Ok(());
            }
            import.await.map(drop)
        }
    })
    .await;
}

async fn gzip_bomb_to_files(attacker: Arc<Attacker>) {
    // One gigabyte of zeros for a megabyte: made in the box, since it has `gzip`.
    attacker
        .prepare("import gzip\nf=gzip.open('/workspace/bomb.gz','wb',1)\nfor k in range(300): f.write(bytes(1000000))\nf.close()")
        .await;
    let mut bomb = Vec::new();
    attacker
        .client
        .read_file(&attacker.id, Path::new("/workspace/bomb.gz"), &mut bomb)
        .await
        .unwrap();
    let headers = [
        ("content-encoding", "gzip"),
        ("content-type", "application/octet-stream"),
    ];
    let answer = attacker
        .e2b("POST", "/files?path=%2Fworkspace%2Fout", &headers, &bomb)
        .await;
    assert_no_fault("upload", &answer);
    let twice = [
        ("content-encoding", "gzip, gzip"),
        ("content-type", "application/octet-stream"),
    ];
    let answer = attacker
        .e2b("POST", "/files?path=%2Fworkspace%2Fout", &twice, &bomb)
        .await;
    assert_no_fault("upload", &answer);
}

async fn multipart_without_end(attacker: Arc<Attacker>) {
    let part = "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nx\r\n";
    let many = part.repeat(20_000);
    let long = format!(
        "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{}\"\r\n\r\nx\r\n--b--",
        "n".repeat(5 << 20)
    );
    let heads = format!("--b\r\n{}", "x-header: value\r\n".repeat(200_000));
    let boundary = format!("multipart/form-data; boundary={}", "b".repeat(6000));
    for (kind, body) in [
        ("multipart/form-data; boundary=b", many.as_str()),
        ("multipart/form-data; boundary=b", long.as_str()),
        ("multipart/form-data; boundary=b", heads.as_str()),
        (boundary.as_str(), many.as_str()),
        ("multipart/form-data", many.as_str()),
    ] {
        let answer = attacker
            .e2b("POST", "/files", &[("content-type", kind)], body.as_bytes())
            .await;
        assert_no_fault("upload", &answer);
    }
}

async fn upload_that_fills_the_quota(attacker: Arc<Attacker>) {
    let (client, id) = (&attacker.client, &attacker.id);
    for number in 0..3 {
        let path = format!("/workspace/full-{number}");
        let source = tokio::io::repeat(b'x').take(180 << 20);
        let written = client.write_file(id, Path::new(&path), WriteOptions::default(), source);
        let _ = answered("write_file", written).await;
    }
    let said = attacker.run(&["true"]).await;
    drop(said);
}

async fn uploads_to_one_path_at_once(attacker: Arc<Attacker>) {
    let (client, id) = (attacker.client.clone(), attacker.id.clone());
    flood("write_file", 200, 50, |_| {
        let (client, id) = (client.clone(), id.clone());
        async move {
            let source = tokio::io::repeat(b'x').take(200_000);
            client
                .write_file(
                    &id,
                    Path::new("/workspace/one"),
                    WriteOptions::default(),
                    source,
                )
                .await
        }
    })
    .await;
    // A request whose body never comes.
    let target = "/files?path=%2Fworkspace%2Fnever";
    let key = attacker.api_key();
    let headers = [
        ("x-api-key", key.as_str()),
        ("e2b-sandbox-id", attacker.id.as_str()),
        ("e2b-sandbox-port", "49983"),
        ("content-type", "application/octet-stream"),
        ("content-length", "1000000000"),
    ];
    let mut kept = Vec::new();
    for _ in 0..20 {
        let head = http::head("POST", target, &headers);
        kept.push(http::send(attacker.address, head.as_bytes()).await.unwrap());
    }
    attacker.hold(3).await;
}
