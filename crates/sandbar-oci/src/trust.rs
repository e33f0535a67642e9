//! HTTP client for registries, and the certificates it trusts.

use std::{fs, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use reqwest::{
    Certificate, Client,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect::Policy,
};
use sandbar_core::{Error, Result};
use sandbar_resolver::Resolver;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Time without data after which a connection is dropped.
const READ_TIMEOUT: Duration = Duration::from_mins(1);

/// Creates a client that trusts the system's certificates and those in a file. It does not follow
/// redirects itself, because each is checked first.
pub(crate) fn client(certificates: Option<&Path>, loopback: bool) -> Result<Client> {
    let system = rustls_native_certs::load_native_certs();
    for error in &system.errors {
        tracing::debug!("could not read the certificates of the system: {error}");
    }
    let mut trusted: Vec<_> = system
        .certs
        .iter()
        .filter_map(|certificate| Certificate::from_der(certificate).ok())
        .collect();
    if let Some(path) = certificates {
        let unusable = |error: Box<dyn std::error::Error + Send + Sync>| {
            Error::invalid(
                "egress_ca_file",
                format!("`{}` cannot be used", path.display()),
            )
            .with_hint("set it to a file with one or more certificates in PEM")
            .with_source(error)
        };
        let pem = fs::read(path).map_err(|error| unusable(error.into()))?;
        trusted.extend(Certificate::from_pem_bundle(&pem).map_err(|error| unusable(error.into()))?);
    }
    let builder = Client::builder()
        .user_agent(concat!("sandbar/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .dns_resolver(Names(Arc::new(Resolver::system())))
        .tls_certs_only(trusted);
    // A proxy cannot reach our loopback interface.
    let builder = if loopback {
        builder.no_proxy()
    } else {
        builder
    };
    builder.build().map_err(|error| {
        Error::internal("create the HTTP client for registries").with_source(error)
    })
}

/// Name resolution of the client. Its own reads `resolv.conf` only once, and falls back to Google's
/// servers without it.
struct Names(Arc<Resolver>);

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = Arc::clone(&self.0);
        Box::pin(async move {
            let addresses = resolver.addresses_of(name.as_str()).await?;
            // The client sets the port.
            let addresses: Addrs = Box::new(
                addresses
                    .into_iter()
                    .map(|address| SocketAddr::new(address, 0)),
            );
            Ok(addresses)
        })
    }
}
