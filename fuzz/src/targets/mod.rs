//! Fuzz targets, by the format they parse.

mod core;
mod files;
mod wire;

use crate::target::Target;
use sandbar_e2b::fuzzing as e2b;
use sandbar_egress::fuzzing as net;
use sandbar_host::fuzzing as host;
use sandbar_netns::fuzzing as netns;
use sandbar_oci::fuzzing as oci;
use sandbar_runtime::fuzzing as runtime;
use sandbar_server::fuzzing as server;
use sandbar_storage::fuzzing as storage;
use sandbar_tools::fuzzing as tools;
use sandbar_tree::fuzzing as tree;

/// Words of the JSON of documents and calls.
const JSON: &[&str] = &[
    "{", "}", "[", "]", "\"", ":", ",", "null", "true", "-1", "1e999", "0.5", "\\u0000", "\\ud800",
];

/// Words of HTTP.
const HTTP: &[&str] = &[
    "GET ",
    "CONNECT ",
    "POST ",
    " HTTP/1.1\r\n",
    " HTTP/1.0\n",
    "\r\n\r\n",
    "Host: ",
    "host:",
    "http://",
    "https://",
    "a.example",
    "[::1]",
    ":443",
    "203.0.113.7",
    "%00",
    "@",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
];

/// Words of addresses, names and policies.
const DESTINATIONS: &[&str] = &[
    "*.",
    "example.com",
    "10.0.0.0/8",
    "::/0",
    "fe80::1",
    "::ffff:10.0.0.1",
    ":443",
    ":1-65535",
    "tcp://",
    "udp://",
    "allow=",
    "deny=",
    "none",
    "full",
    ",",
    "..",
    "-",
    "xn--",
];

/// Words of archives.
const ARCHIVE: &[&str] = &[
    "ustar\0",
    "ustar  \0",
    "0000644\0",
    "18446744073709551615",
    "GNU.sparse.major=1\n",
    "GNU.sparse.map=",
    "GNU.sparse.size=",
    "SCHILY.xattr.user.a=",
    "path=",
    "linkpath=",
    "size=",
    "mtime=",
    "uid=",
    "../",
    "./",
    ".wh.",
    ".wh..wh..opq",
    "\n",
];

/// All targets.
pub(crate) const TARGETS: [Target; 51] = [
    Target::new("core_ids", core::ids),
    Target::new("core_quantities", core::quantities)
        .with_words(&["KiB", "G", "ms", "1h30m", "PT1S", "-", ".", "e9"]),
    Target::new("core_destinations", core::destinations).with_words(DESTINATIONS),
    Target::new("core_policies", core::policies).with_words(DESTINATIONS),
    Target::new("core_documents", core::documents).with_words(JSON),
    Target::new("core_choices", core::choices),
    Target::new("e2b_upload_form", e2b::upload_form).with_words(&[
        "\r\n--b\r\n",
        "\r\n--b--",
        "--b",
        "\r\n\r\n",
        "Content-Disposition: form-data; ",
        "name=\"file\"; ",
        "filename=\"",
        "filename*=utf-8''",
    ]),
    Target::new("e2b_content_range", e2b::content_range).with_words(&[
        "bytes=",
        "-",
        ",",
        "18446744073709551615",
    ]),
    Target::new("e2b_file_address", e2b::file_address).with_words(&[
        "/files?",
        "path=",
        "&signature=v1_",
        "&signature_expiration=",
        "&username=",
        "%2F",
        "+",
    ]),
    Target::new("e2b_content_headers", e2b::content_headers).with_words(&[
        "gzip",
        "identity",
        ";q=0",
        "*",
        "boundary=",
        "filename*=utf-8''%C3",
        "\"",
        "\\",
    ]),
    Target::new("host_config", files::host_config).with_words(&[
        "max_sessions = ",
        "[default_resources]\n",
        "\"",
        "=",
        "\n",
        "'''",
        "1979-05-27",
        "inf",
        "nan",
        "{",
        "}",
    ]),
    Target::new("host_object_store", host::object_store_address).with_words(&[
        "s3://",
        "?",
        "&",
        "region=",
        "endpoint=http://",
        "allow_http=true",
        "/",
    ]),
    Target::new("host_page_token", host::page_token),
    Target::new("host_metric_label", host::metric_label).with_words(&["\\", "\"", "\n", "\r", "}"]),
    Target::new("net_connection_opening", net::connection_opening).with_words(HTTP),
    Target::new("net_proxy_opening", net::proxy_opening).with_words(HTTP),
    Target::new("net_host_and_port", net::host_and_port).with_words(DESTINATIONS),
    Target::new("net_requested_host", net::requested_host).with_words(HTTP),
    Target::new("net_dns_message", net::dns_message).with_words(&[
        "\u{3}com\0",
        "\0\u{1}\0\u{1}",
        "\0\u{29}",
    ]),
    Target::new("net_dns_answer", net::dns_answer).with_words(&[
        "\u{3}com\0",
        "\0\u{1}\0\u{1}",
        "\0\u{29}",
    ]),
    Target::new("net_hosts_file", net::hosts_file).with_words(&[
        "127.0.0.1 ",
        "::1\t",
        "localhost",
        "#",
        "\n",
    ]),
    Target::new("net_resolver_file", net::resolver_file).with_words(&[
        "nameserver ",
        "::1%eth0",
        "\n",
        "#",
    ]),
    Target::new("netns_netlink_answers", netns::netlink_answers),
    Target::new("oci_challenge", oci::challenge).with_words(&[
        "Bearer ",
        "Basic ",
        "realm=\"",
        ",service=\"",
        "scope=\"",
        "\\\"",
        ",",
        "=",
    ]),
    Target::new("oci_image_reference", oci::image_reference).with_words(&[
        "docker.io/",
        "localhost:5000/",
        "[::1]:5000/",
        "library/",
        ":latest",
        "@sha256:",
        "/",
        ":",
    ]),
    Target::new("runtime_init_messages", runtime::init_messages),
    Target::new("runtime_spawner_messages", runtime::spawner_messages),
    Target::new("runtime_frames", runtime::frames),
    Target::new("runtime_process_stat", runtime::process_stat).with_words(&[")", "(", " Z ", "-1"]),
    Target::new("runtime_cgroup_files", runtime::cgroup_files).with_words(&[
        "cgroup",
        " ",
        "cpu,",
        "populated 1\n",
    ]),
    Target::new("server_access_headers", server::access_headers).with_words(&[
        "authorization:",
        "Bearer ",
        "x-api-version:",
        "v1",
        "\n",
    ]),
    Target::new("server_ingress_request", server::ingress_request).with_words(&[
        "host:",
        "80-a.boxes.example",
        "x-sandbar-session:",
        "x-sandbar-port:",
        "cookie:",
        "sandbar_traffic_token=",
        "right",
        "; ",
        "connection:",
        "upgrade",
        "x-forwarded-for:",
        "\n",
        "?",
        "//",
    ]),
    Target::new("tree_archive", tree::archive).with_words(ARCHIVE),
    Target::new("storage_archive_contents", storage::archive_contents).with_words(ARCHIVE),
    Target::new("tree_unpack", files::unpack)
        .with_words(ARCHIVE)
        .writing_files(),
    Target::new("tree_pax_records", tree::pax_records).with_words(ARCHIVE),
    Target::new("tree_sparse_map", tree::sparse_map).with_words(&[
        "\n",
        "0\n",
        "18446744073709551615\n",
    ]),
    Target::new("oci_image_documents", oci::image_documents).with_words(JSON),
    Target::new("storage_pack_manifest", storage::pack_manifest).with_words(JSON),
    Target::new("storage_mount_table", storage::mount_table)
        .with_words(&[" - ", "\\040", "\\777", "zfs", "\n"]),
    Target::new("storage_zfs_listing", storage::zfs_listing)
        .with_words(&["\t", "\n", "local", "-"]),
    Target::new("tools_parameters", tools::tool_parameters).with_words(&[
        "{",
        "}",
        "[",
        "]",
        "\"",
        ":",
        ",",
        "null",
        "true",
        "-1",
        "1e999",
        "\"path\":",
        "\"pattern\":",
        "\"glob\":",
        "\"command\":",
        "**/",
        "[^",
        "{a,",
        "(?i)",
        "\\\\",
        "\"timeout\":",
        "\"old_string\":",
        "\"new_string\":",
    ]),
    Target::new("tools_command_output", tools::command_output).with_words(&[
        "\u{20ac}",
        "\u{1f980}",
        "\u{fffd}",
    ]),
    Target::new("tools_edit", tools::edit).with_words(&["\0", "\n", "\r\n", " "]),
    Target::new("tools_ignore_rules", tools::ignore_rules)
        .with_words(&["**/", "!", "/", "[a-", "\\", "#", "{", "\n", "*"]),
    Target::new("wire_requests", wire::requests),
    Target::new("wire_requests_json", wire::requests_json).with_words(JSON),
    Target::new("wire_answers", wire::answers),
    Target::new("wire_errors", wire::errors).with_words(&[
        "sandbar.v1.ErrorDetail",
        "type.googleapis.com/",
        "==",
    ]),
    Target::new("wire_api_version", wire::api_version).with_words(&["v", "1", "+"]),
    Target::new("wire_paths", wire::paths).with_words(&["/", "..", "\0"]),
];
