//! `sandbar base`.

use std::{path::Path, process::ExitCode};

use clap::{Arg, ArgMatches, Command};
use sandbar_client::{Client, ImportProgress};
use sandbar_core::{BaseInfo, BaseName, ByteCount, Error, Result, SaveBase, SessionId};

use crate::{
    arguments::{id, json, many, optional, pairs, quiet, required, snapshot},
    failure::{Outcome, exit, say_error},
    output, parse,
    progress::Progress,
    view::{BaseView, age},
};

#[derive(Debug)]
pub(crate) enum BaseCommand {
    Ls { quiet: bool, json: bool },
    Import { name: BaseName, origin: Origin, json: bool },
    Save { id: SessionId, request: SaveBase, json: bool },
    Rm { names: Vec<BaseName> },
}

/// What a base is made from.
#[derive(Debug)]
pub(crate) enum Origin {
    Source(String),
    Image(String),
}

pub(crate) fn define() -> Command {
    let name = || Arg::new("name").value_name("NAME").required(true).value_parser(parse::word::<BaseName>);
    Command::new("base")
        .about("List, import, save and remove bases: the read-only trees sandboxes start from")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("ls")
                .about("List bases")
                .after_help("Examples:\n  sandbar base ls\n  sandbar base ls --json")
                .args([quiet("Print names only"), json()]),
        )
        .subcommand(
            Command::new("import")
                .about("Make a base and print its name")
                .long_about(
                    "\
Make a base and print its name.

SOURCE is `host` (this machine's programs and libraries), or a path on the host's disk: a directory, a tar (also .gz or
.zst), an OCI layout or a docker-archive. Which one it is is found by looking. With `--image` the host fetches an image
from its registry instead.",
                )
                .after_help(
                    "\
Examples:
  sandbar base import debian ./debian.tar.zst
  sandbar base import rootfs /srv/rootfs
  sandbar base import python --image python:3.13
  docker save alpine -o alpine.tar && sandbar base import alpine alpine.tar
  sandbar base import fresh host",
                )
                .arg(name().help("Its name"))
                .arg(
                    Arg::new("source")
                        .value_name("SOURCE")
                        .required_unless_present("image")
                        .conflicts_with("image")
                        .help("What to import; `./host` is a path"),
                )
                .arg(
                    Arg::new("image")
                        .long("image")
                        .value_name("IMAGE")
                        .help("An image to fetch: `debian:12`, `registry.example/team/tool@sha256:…`"),
                )
                .arg(json()),
        )
        .subcommand(
            Command::new("save")
                .about("Make a base from a sandbox and print its name")
                .long_about(
                    "\
Make a base from a sandbox and print its name.

The base has the files of the sandbox, as they are now or at a snapshot. Neither needs the other afterwards, and
sandboxes made from the base stay when it is removed.",
                )
                .after_help(
                    "\
Examples:
  sandbar base save build-42 warm && sandbar new --base warm
  sandbar base save build-42 warm --snapshot clean -e PATH=/opt/tool/bin:/usr/bin:/bin",
                )
                .arg(id())
                .arg(name().help("The name of the base"))
                .arg(snapshot("snapshot", "SNAPSHOT", "A snapshot to make it from, instead of now").long("snapshot"))
                .arg(pairs("env", "Set a variable in sandboxes made from it; may be given several times").short('e'))
                .arg(json()),
        )
        .subcommand(
            Command::new("rm")
                .about("Remove bases: saved ones at any time, others when no sandbox stands on them")
                .after_help("Examples:\n  sandbar base rm debian")
                .arg(name().num_args(1..).help("The bases")),
        )
}

impl BaseCommand {
    pub(crate) fn read(matches: &mut ArgMatches) -> Result<Self> {
        match matches.remove_subcommand() {
            Some((verb, mut given)) if verb == "import" => Ok(Self::Import {
                name: required(&mut given, "name")?,
                origin: match given.remove_one("image") {
                    Some(image) => Origin::Image(image),
                    None => Origin::Source(required(&mut given, "source")?),
                },
                json: given.get_flag("json"),
            }),
            Some((verb, mut given)) if verb == "save" => Ok(Self::Save {
                id: required(&mut given, "id")?,
                request: SaveBase {
                    from: optional(&mut given, "snapshot"),
                    env: many(&mut given, "env").into_iter().collect(),
                    ..SaveBase::new(required(&mut given, "name")?)
                },
                json: given.get_flag("json"),
            }),
            Some((verb, mut given)) if verb == "rm" => Ok(Self::Rm { names: many(&mut given, "name") }),
            Some((_, given)) => Ok(Self::Ls { quiet: given.get_flag("quiet"), json: given.get_flag("json") }),
            None => Err(Error::internal("there is no verb after `base`")),
        }
    }
}

pub(crate) async fn execute(command: BaseCommand, client: &Client) -> Outcome {
    match command {
        BaseCommand::Ls { quiet, json } => list(quiet, json, client).await,
        BaseCommand::Import { name, origin, json } => import(&name, &origin, json, client).await,
        BaseCommand::Save { id, request, json } => {
            let base = Progress::text("saving").during(client.save_base(&id, request)).await?;
            print(&base, json)
        }
        BaseCommand::Rm { names } => remove(&names, client).await,
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
        let rows = bases
            .iter()
            .map(|base| [base.name.to_string(), base.source.clone(), age(base.created), base.size.to_string()]);
        output::table(["NAME", "SOURCE", "CREATED", "SIZE"], rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn import(name: &BaseName, origin: &Origin, json: bool, client: &Client) -> Outcome {
    let progress = Progress::text("importing");
    let show = |so_far: ImportProgress| match so_far.total {
        Some(total) => progress.set(so_far.bytes, total),
        None => progress.show(format!("{} entries, {}", so_far.entries, ByteCount(so_far.bytes))),
    };
    let base = match origin {
        Origin::Image(image) => client.import_image(name, image, show).await?,
        Origin::Source(source) if source == "host" => client.import_base(name, source, show).await?,
        Origin::Source(source) => client.import_base(name, &absolute(source)?, show).await?,
    };
    drop(progress);
    print(&base, json)
}

/// A base that was made.
fn print(base: &BaseInfo, json: bool) -> Outcome {
    if json {
        output::json(&BaseView::from(base))?;
    } else {
        output::line(&base.name)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The host has a working directory of its own: paths are made absolute here.
fn absolute(source: &str) -> Result<String> {
    let complain = |why: &str| {
        Error::invalid("source", format!("`{}` {why}", source.escape_debug()))
            .with_hint("give `host`, or the path of a directory, tar, OCI layout or docker-archive")
    };
    let path = std::path::absolute(Path::new(source)).map_err(|_| complain("is not a path"))?;
    path.into_os_string().into_string().map_err(|_| complain("is not UTF-8"))
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
