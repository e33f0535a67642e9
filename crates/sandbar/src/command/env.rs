//! `sandbar env`.

use std::process::ExitCode;

use clap::Args;
use serde::{Serialize, Serializer};

use crate::{
    connection,
    e2b_environment::{self, E2bEnvironment},
    env_vars,
    failure::Outcome,
    local_files::ServedDomain,
    output,
};

#[derive(Args, Debug)]
#[command(
    about = "Print the lines that point a shell and the programs it starts at this host",
    long_about = "\
Print the lines that point a shell and the programs it starts at this host: SANDBAR_URL and SANDBAR_TOKEN, and
SANDBAR_CA_FILE for a host whose certificate only its own authority vouches for. They are what the command line and the
clients read.

The E2B SDKs for Python and JavaScript read E2B_API_URL, E2B_SANDBOX_URL and E2B_API_KEY, which is the token in another
form. For a host with TLS and a domain of its own it is E2B_DOMAIN in place of the URLs; the names below it have to lead to
the host, which `sandbar up --dns` tells whoever asks there. SSL_CERT_FILE and NODE_EXTRA_CA_CERTS say whom to trust.

The token opens the host to whoever has it. No host has to answer.",
    after_help = "\
Examples:
  eval \"$(sandbar env)\"
  eval \"$(sandbar env --unset)\"
  eval \"$(sandbar env)\"; python3 -c 'from e2b import Sandbox; print(Sandbox.create().commands.run(\"id\").stdout)'
  sandbar --url http://10.0.0.7:9100 env
  curl -H \"authorization: Bearer $(sandbar env --json | jq -r .SANDBAR_TOKEN)\" ..."
)]
pub(crate) struct EnvArgs {
    /// Print the lines that take it back
    #[arg(long, conflicts_with = "json")]
    unset: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Names and values, in the order in which they are told. One without a value is not known here.
#[derive(Debug)]
struct Variables(Vec<(&'static str, Option<String>)>);

impl Serialize for Variables {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

pub(crate) fn execute(args: &EnvArgs, url: Option<&str>) -> Outcome {
    if args.unset {
        let ours = [env_vars::URL, env_vars::TOKEN, env_vars::CA_FILE].into_iter().chain(e2b_environment::OWN);
        let names: Vec<&str> = ours.chain(e2b_environment::own_trust()).collect();
        output::line(format_args!("unset {}", names.join(" ")))?;
        return Ok(ExitCode::SUCCESS);
    }
    let url = connection::server_url(url);
    let ca_file = connection::tls_for(&url).ca_file.filter(|_| url.starts_with("https://"));
    let token = connection::token_for(&url)?;
    let e2b = E2bEnvironment::new(&url, token.as_deref(), ca_file.as_deref());
    let mut variables = vec![(env_vars::URL, Some(url.clone()))];
    // Whom to trust; only where that is not whom this machine trusts anyway.
    variables.extend(ca_file.map(|path| (env_vars::CA_FILE, Some(path.to_string_lossy().into_owned()))));
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
    output::line(format_args!("unset {}", e2b.misleading.join(" ")))?;
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

/// Names do not lead to a host by themselves.
fn explain_names(ServedDomain { name, name_server }: &ServedDomain) {
    match name_server {
        Some(address) => output::say(format_args!(
            "note: names below {name} have to be asked for at {address}: `DNS={address}` and `Domains=~{name}` for \
             systemd-resolved, `server=/{name}/{}#{}` for dnsmasq",
            address.ip(),
            address.port()
        )),
        None => output::say(format_args!(
            "note: names below {name} have to lead to the host: by your own DNS, or by the host's, with \
             `sandbar up --dns 127.0.0.1:5353`"
        )),
    }
}
