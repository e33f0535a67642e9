//! The HTTP client, and whom it trusts.

use std::{fs, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use reqwest::{
    Certificate, Client,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect::Policy,
};
use sandbar_core::{Error, Result};
use sandbar_resolver::Resolver;

const LONGEST_CONNECT: Duration = Duration::from_secs(20);
/// A registry that sends nothing for so long is gone.
const LONGEST_SILENCE: Duration = Duration::from_mins(1);

/// A client that trusts what the system trusts, and the certificates of a file. It follows no redirects by itself:
/// where they lead is looked at first.
pub(crate) fn client(certificates: Option<&Path>, loopback: bool) -> Result<Client> {
    let system = rustls_native_certs::load_native_certs();
    for error in &system.errors {
        tracing::debug!("certificates of the system cannot be read: {error}");
    }
    let mut trusted: Vec<_> =
        system.certs.iter().filter_map(|certificate| Certificate::from_der(certificate).ok()).collect();
    if let Some(path) = certificates {
        let unusable = |error: Box<dyn std::error::Error + Send + Sync>| {
            Error::invalid("egress_ca_file", format!("`{}` cannot be used", path.display()))
                .with_hint("give a file with one or more certificates in PEM")
                .with_source(error)
        };
        let pem = fs::read(path).map_err(|error| unusable(error.into()))?;
        trusted.extend(Certificate::from_pem_bundle(&pem).map_err(|error| unusable(error.into()))?);
    }
    let builder = Client::builder()
        .user_agent(concat!("sandbar/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .referer(false)
        .connect_timeout(LONGEST_CONNECT)
        .read_timeout(LONGEST_SILENCE)
        .dns_resolver(Names(Arc::new(Resolver::system())))
        .tls_certs_only(trusted);
    // No proxy knows the way to our own loopback.
    let builder = if loopback { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| Error::internal("set up the client for registries").with_source(error))
}

/// Name resolution for the client. Its own reads `resolv.conf` only once, and asks Google when there is none.
struct Names(Arc<Resolver>);

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = Arc::clone(&self.0);
        Box::pin(async move {
            let addresses = resolver.addresses_of(name.as_str()).await?;
            // The client puts in the port.
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}
