//! Every environment variable the program reads, declared once.

/// Declares the variables as constants and lists them in [`ALL`], from which
/// `docs/configuration.md` is generated.
macro_rules! variables {
    ($($constant:ident = $name:literal, $meaning:literal;)*) => {
        $(#[doc = $meaning] pub(crate) const $constant: &str = $name;)*

        /// Names and meanings of all variables that override no key of the configuration.
        #[cfg(test)]
        pub(crate) const ALL: &[(&str, &str)] = &[$(($name, $meaning)),*];
    };
}

variables! {
    URL = "SANDBAR_URL", "Address of the host, without `--url`.";
    TOKEN = "SANDBAR_TOKEN", "Access token. The token of a host on the same machine is found without it.";
    CA_FILE = "SANDBAR_CA_FILE", "Authorities to trust for `https://`, PEM, without `--ca-file`.";
    CLIENT_CERT = "SANDBAR_CLIENT_CERT", "Client certificate for a host that asks for one, PEM.";
    CLIENT_KEY = "SANDBAR_CLIENT_KEY", "Private key of the client certificate, PEM.";
    CONFIG = "SANDBAR_CONFIG", "Configuration file of `sandbar up` and `sandbar doctor`, without `--config`.";
    LOG = "SANDBAR_LOG", "Log filter of `sandbar up` in the syntax of `tracing`: `warn`, `info,sandbar_storage=debug`.";
    LOG_FORMAT = "SANDBAR_LOG_FORMAT", "Log format of `sandbar up`: `text` or `json`.";
    DOCKER_CONFIG = "DOCKER_CONFIG", "Directory of Docker's `config.json` with registry credentials.";
    OTLP_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT", "Collector that `sandbar up` exports spans to, OTLP over HTTP.";
    OTLP_TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "The same as the full URL for spans alone.";
    OTEL_SERVICE_NAME = "OTEL_SERVICE_NAME", "Service name of this host in exported spans.";
    TERM = "TERM", "Terminal type, passed on to commands that run at a terminal.";
    NOTIFY_SOCKET = "NOTIFY_SOCKET", "Socket of the service manager, as sd_notify(3) defines it.";
}

/// Data directory of the local host. A key of the configuration; clients read it too, to find the
/// token and the address of a host on the same machine.
pub(crate) const DATA_DIR: &str = "SANDBAR_DATA_DIR";

/// Prefix of variables that override a key of the configuration: `SANDBAR_MAX_SESSIONS=50`.
pub(crate) const PREFIX: &str = "SANDBAR_";

/// Variables that start with [`PREFIX`] and override no key. The last five belong to the tests.
pub(crate) const NOT_KEYS: [&str; 13] = [
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
    "SANDBAR_UPDATE_DOCS",
];
