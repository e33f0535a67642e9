//! Every environment variable the program reads, declared once.

/// Address of the server, when `--url` does not say.
pub(crate) const URL: &str = "SANDBAR_URL";
/// Bearer token, when the server is not this machine's own.
pub(crate) const TOKEN: &str = "SANDBAR_TOKEN";
/// Authorities to trust for `https://`, when `--ca-file` does not say.
pub(crate) const CA_FILE: &str = "SANDBAR_CA_FILE";
/// Certificate to show to a host that asks for one.
pub(crate) const CLIENT_CERT: &str = "SANDBAR_CLIENT_CERT";
/// The key of that certificate.
pub(crate) const CLIENT_KEY: &str = "SANDBAR_CLIENT_KEY";
/// Data directory of the local host. The client looks there for the token and the address of a local server.
pub(crate) const DATA_DIR: &str = "SANDBAR_DATA_DIR";
/// Configuration file of `sandbar up`.
pub(crate) const CONFIG: &str = "SANDBAR_CONFIG";
/// What `sandbar up` logs, in the syntax of `tracing`: `warn`, `info,sandbar_storage=debug`.
pub(crate) const LOG: &str = "SANDBAR_LOG";
/// Format of the log of `sandbar up`: `text` or `json`.
pub(crate) const LOG_FORMAT: &str = "SANDBAR_LOG_FORMAT";
/// Directory of Docker's configuration, where credentials for image registries are.
pub(crate) const DOCKER_CONFIG: &str = "DOCKER_CONFIG";
/// Collector that `sandbar up` exports spans to, by OTLP over HTTP; OpenTelemetry defines this and the next two.
pub(crate) const OTLP_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// The same, as a whole URL that is for spans alone.
pub(crate) const OTLP_TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
/// Name of this host in exported spans.
pub(crate) const OTEL_SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
/// What kind of terminal we were started on; a command with a terminal is told the same.
pub(crate) const TERM: &str = "TERM";
/// What every variable that overrides a key of the configuration starts with: `SANDBAR_MAX_SESSIONS=50`.
pub(crate) const PREFIX: &str = "SANDBAR_";

/// Variables that start with [`PREFIX`] and override no key. The last four belong to the test suite.
pub(crate) const NOT_KEYS: [&str; 12] = [
    URL,
    TOKEN,
    CA_FILE,
    CLIENT_CERT,
    CLIENT_KEY,
    CONFIG,
    LOG,
    LOG_FORMAT,
    "SANDBAR_SDK_REPORT",
    "SANDBAR_SKIP_REPORT",
    "SANDBAR_TEST_RUN",
    "SANDBAR_TEST_SCALE",
];
