//! `sandbar env`.

use std::process::ExitCode;

use clap::Args;
use serde::{Serialize, Serializer};

use crate::{
    client::{
        connection::{ConnectionOptions, token_for},
        e2b_environment::{self, E2bEnvironment},
    },
    env_vars,
    failure::Outcome,
    local_host::discovery::ServedDomain,
    terminal::output,
};

#[derive(Args, Debug)]
#[command(
    about = "Print the variables by which a shell and its programs use this host",
    long_about = "\
Print the variables by which a shell and its programs use this host: SANDBAR_URL and SANDBAR_TOKEN, and SANDBAR_CA_FILE for
a host with a certificate of its own authority. The command line and the clients read them.

The E2B SDKs for Python and JavaScript read E2B_API_URL, E2B_SANDBOX_URL and E2B_API_KEY, which is the token in another
form. For a host with TLS and a domain, E2B_DOMAIN replaces the URLs; the names below it must resolve to the host, for which
`sandbar up --dns` runs a name server. SSL_CERT_FILE and NODE_EXTRA_CA_CERTS name the authorities to trust.

Anyone with the token can use the host. The host need not be running.",
    after_help = "\
Examples:
  eval \"$(sandbar env)\"
  eval \"$(sandbar env --unset)\"
  eval \"$(sandbar env)\"; python3 -c 'from e2b import Sandbox; print(Sandbox.create().commands.run(\"id\").stdout)'
  sandbar --url http://10.0.0.7:9100 env
  curl -H \"authorization: Bearer $(sandbar env --json | jq -r .SANDBAR_TOKEN)\" ..."
)]
pub(crate) struct EnvArgs {
    /// Print the lines that unset the variables
    #[arg(long, conflicts_with = "json")]
    unset: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Names and values in the order of the output; `None` for a value that is not known here.
#[derive(Debug)]
struct Variables(Vec<(&'static str, Option<String>)>);

impl Serialize for Variables {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

pub(crate) fn execute(args: &EnvArgs, connection: &ConnectionOptions) -> Outcome {
    if args.unset {
        let ours = [env_vars::URL, env_vars::TOKEN, env_vars::CA_FILE]
            .into_iter()
            .chain(e2b_environment::OWN);
        let names: Vec<&str> = ours.chain(e2b_environment::own_trust()).collect();
        output::line(format_args!("unset {}", names.join(" ")))?;
        return Ok(ExitCode::SUCCESS);
    }
    let url = connection.url();
    let ca_file = connection
        .tls_for(&url)
        .ca_file
        .filter(|_| url.starts_with("https://"));
    let token = token_for(&url)?;
    let e2b = E2bEnvironment::new(&url, token.as_deref(), ca_file.as_deref());
    let mut variables = vec![(env_vars::URL, Some(url.clone()))];
    // Only for authorities that this machine does not trust by default.
    variables
        .extend(ca_file.map(|path| (env_vars::CA_FILE, Some(path.to_string_lossy().into_owned()))));
    variables.push((env_vars::TOKEN, token.clone()));
    variables.extend(e2b.variables);
    if args.json {
        output::json(&Variables(variables))?;
        return Ok(ExitCode::SUCCESS);
    }
    for (name, value) in &variables {
        if let Some(value) = value {
            output::line(format_args!("export {name}={}", output::shell_word(value)))?;
        }
    }
    output::line(format_args!("unset {}", e2b.conflicting.join(" ")))?;
    if token.is_none() {
        output::say(format_args!(
            "note: no token for {url} is known here; set {} to one, or {} to the data directory of the host",
            env_vars::TOKEN,
            env_vars::DATA_DIR
        ));
    }
    if let Some(domain) = &e2b.domain {
        explain_names(domain);
    }
    Ok(ExitCode::SUCCESS)
}

/// Explains how names below the domain can be made to resolve to the host.
fn explain_names(ServedDomain { name, name_server }: &ServedDomain) {
    match name_server {
        Some(address) => output::say(format_args!(
            "note: resolve names below {name} at {address}: `DNS={address}` and `Domains=~{name}` for \
             systemd-resolved, `server=/{name}/{}#{}` for dnsmasq",
            address.ip(),
            address.port()
        )),
        None => output::say(format_args!(
            "note: names below {name} must resolve to the host: by your own DNS, or by a name server of the host, \
             `sandbar up --dns 127.0.0.1:5353`"
        )),
    }
}
