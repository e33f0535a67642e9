//! `sandbar base`.

use std::{io, path::Path, process::ExitCode};

use clap::{Args, Subcommand};
use rustix::termios::isatty;
use sandbar_client::{Client, ImportProgress, RegistryCredentials};
use sandbar_core::{BaseInfo, BaseName, ByteCount, Error, Result, SaveBase, SnapshotName};

use crate::{
    cli::{arguments::SandboxArg, parse},
    client::registry_login,
    failure::{Failure, Outcome, exit, say_error},
    terminal::{Progress, output, read_secret},
    view::{BaseView, age},
};

#[derive(Debug, Subcommand)]
#[command(about = "List, import, save and remove bases: the read-only trees sandboxes start from")]
pub(crate) enum BaseCommand {
    #[command(
        about = "List bases",
        after_help = "Examples:\n  sandbar base ls\n  sandbar base ls --json"
    )]
    Ls {
        /// Print names only
        #[arg(short, long, conflicts_with = "json")]
        quiet: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    Import(ImportArgs),
    Save(SaveArgs),
    Login(LoginArgs),
    #[command(
        about = "Remove bases: saved ones at any time, others when no sandbox uses them",
        after_help = "Examples:\n  sandbar base rm debian"
    )]
    Rm {
        /// The bases
        #[arg(value_name = "NAME", required = true, value_parser = parse::word::<BaseName>)]
        names: Vec<BaseName>,
    },
}

#[derive(Args, Debug)]
#[command(
    about = "Make a base and print its name",
    long_about = "\
Make a base and print its name.

SOURCE is `host` (this machine's programs and libraries), or a path on the host's disk: a directory, a tar (also .gz or
.zst), an OCI layout or a docker-archive; the kind is detected. With `--image` the host fetches an image from its registry
instead, with the credentials that `sandbar base login` or `docker login` stored on this machine.",
    after_help = "\
Examples:
  sandbar base import debian ./debian.tar.zst
  sandbar base import rootfs /srv/rootfs
  sandbar base import python --image python:3.13
  docker save alpine -o alpine.tar && sandbar base import alpine alpine.tar
  sandbar base import fresh host"
)]
pub(crate) struct ImportArgs {
    /// Name of the base
    #[arg(value_parser = parse::word::<BaseName>)]
    name: BaseName,
    /// Source to import; `./host` is a path
    #[arg(required_unless_present = "image", conflicts_with = "image")]
    source: Option<String>,
    /// An image to fetch: `debian:12`, `registry.example/team/tool@sha256:…`
    #[arg(long)]
    image: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
#[command(
    about = "Make a base from a sandbox and print its name",
    long_about = "\
Make a base from a sandbox and print its name.

The base has the files of the sandbox, as they are now or at a snapshot. Neither needs the other afterwards, and
sandboxes made from the base stay when it is removed.",
    after_help = "\
Examples:
  sandbar base save build-42 warm && sandbar new --base warm
  sandbar base save build-42 warm --snapshot clean -e PATH=/opt/tool/bin:/usr/bin:/bin"
)]
pub(crate) struct SaveArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// Name of the base
    #[arg(value_parser = parse::word::<BaseName>)]
    name: BaseName,
    /// Snapshot to make it from, instead of the current files
    #[arg(long, value_parser = parse::word::<SnapshotName>)]
    snapshot: Option<SnapshotName>,
    /// Set a variable in sandboxes made from it; may be given several times
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = parse::key_value)]
    env: Vec<(String, String)>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
#[command(
    about = "Store credentials for an image registry and print its name",
    long_about = "\
Store credentials for an image registry and print its name.

They are stored where `docker login` stores them, in ~/.docker/config.json, and `sandbar base import --image` sends them
with its request. At a terminal the password is prompted for and not echoed. The registry is not asked to verify them.",
    after_help = "\
Examples:
  sandbar base login ghcr.io -u me
  pass show ghcr | sandbar base login ghcr.io -u me --password-stdin
  sandbar base import tool --image ghcr.io/team/tool:1"
)]
pub(crate) struct LoginArgs {
    /// Host name of the registry: `ghcr.io`, `docker.io`
    #[arg(value_parser = registry_login::parse_registry)]
    registry: String,
    /// Name of the user
    #[arg(short, long, value_name = "USER")]
    username: String,
    /// Read the password from stdin
    #[arg(long)]
    password_stdin: bool,
}

pub(crate) async fn execute(command: BaseCommand, client: &Client) -> Outcome {
    match command {
        BaseCommand::Ls { quiet, json } => list(quiet, json, client).await,
        BaseCommand::Import(arguments) => import(arguments, client).await,
        BaseCommand::Save(arguments) => save(arguments, client).await,
        BaseCommand::Rm { names } => remove(&names, client).await,
        BaseCommand::Login(arguments) => log_in(arguments).await,
    }
}

async fn list(quiet: bool, json: bool, client: &Client) -> Outcome {
    let bases = client.list_bases().await?;
    if json {
        output::json(&bases.iter().map(BaseView::from).collect::<Vec<_>>())?;
    } else if quiet {
        for base in &bases {
            output::line(&base.name)?;
        }
    } else {
        let rows = bases.iter().map(|base| {
            [
                base.name.to_string(),
                base.source.clone(),
                age(base.created),
                base.size.to_string(),
            ]
        });
        output::table(["NAME", "SOURCE", "CREATED", "SIZE"], rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Stores credentials for a registry.
pub(crate) async fn log_in(arguments: LoginArgs) -> Outcome {
    let LoginArgs {
        registry,
        username,
        password_stdin,
    } = arguments;
    if !password_stdin && !isatty(io::stdin()) {
        let error = Error::invalid(
            "password-stdin",
            "stdin is not a terminal, so the password cannot be prompted for",
        );
        return Err(Failure::Usage(
            error.with_hint("give the password on stdin, with `--password-stdin`"),
        ));
    }
    let password = read_secret(
        "base login",
        format_args!("password of `{username}` at `{registry}`: "),
    )
    .await?;
    let Some(password) = password else {
        return Ok(ExitCode::from(exit::INTERRUPTED));
    };
    if password.is_empty() || username.is_empty() || username.contains(':') {
        let error = Error::invalid(
            "username",
            "user name or password is empty, or the user name contains `:`",
        );
        return Err(Failure::Usage(error));
    }
    let path = registry_login::store(&registry, &RegistryCredentials { username, password })?;
    output::say(format_args!("stored in `{}`", path.display()));
    output::line(registry)?;
    Ok(ExitCode::SUCCESS)
}

async fn import(arguments: ImportArgs, client: &Client) -> Outcome {
    let ImportArgs {
        name,
        source,
        image,
        json,
    } = arguments;
    let progress = Progress::text("importing");
    let show = |so_far: ImportProgress| match so_far.total {
        Some(total) => progress.set(so_far.bytes, total),
        None => progress.show(format!(
            "{} entries, {}",
            so_far.entries,
            ByteCount(so_far.bytes)
        )),
    };
    let base = if let Some(image) = image {
        let credentials = registry_login::credentials_for(&image)?;
        client
            .import_image(&name, &image, credentials, show)
            .await?
    } else {
        // Clap requires it without `--image`.
        let source = source.unwrap_or_default();
        let source = if source == "host" {
            source
        } else {
            absolute(&source)?
        };
        client.import_base(&name, &source, show).await?
    };
    drop(progress);
    print(&base, json)
}

async fn save(arguments: SaveArgs, client: &Client) -> Outcome {
    let SaveArgs {
        sandbox,
        name,
        snapshot,
        env,
        json,
    } = arguments;
    let request = SaveBase {
        from: snapshot,
        env: env.into_iter().collect(),
        ..SaveBase::new(name)
    };
    print(
        &Progress::text("saving")
            .during(client.save_base(&sandbox.id, request))
            .await?,
        json,
    )
}

/// Prints a new base.
fn print(base: &BaseInfo, json: bool) -> Outcome {
    if json {
        output::json(&BaseView::from(base))?;
    } else {
        output::line(&base.name)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes a path absolute: the working directory of the host is another one.
fn absolute(source: &str) -> Result<String> {
    let refuse = |why: &str| {
        Error::invalid("source", format!("`{}` {why}", source.escape_debug()))
            .with_hint("give `host`, or the path of a directory, tar, OCI layout or docker-archive")
    };
    let path = std::path::absolute(Path::new(source)).map_err(|_| refuse("is not a path"))?;
    path.into_os_string()
        .into_string()
        .map_err(|_| refuse("is not UTF-8"))
}

async fn remove(names: &[BaseName], client: &Client) -> Outcome {
    let mut code = ExitCode::SUCCESS;
    for name in names {
        match client.delete_base(name).await {
            Ok(()) => output::line(name)?,
            Err(error) => {
                say_error(&error);
                code = ExitCode::from(exit::FAILED);
            }
        }
    }
    Ok(code)
}
