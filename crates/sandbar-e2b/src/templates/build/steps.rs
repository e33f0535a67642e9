//! The steps of a template, with the semantics of E2B.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

use sandbar_core::{Error, ErrorCode, MakeDirOptions, Result};

use super::{
    copy::{self, Owned},
    log::StepOutput,
    plan::Step,
    run::Work,
    users::{ensure_user, group_id},
    variables::expand,
};
use crate::{
    sandboxes::{Context, USUAL_PATH},
    templates::settings::Settings,
};

/// Limit of the names and values of all variables: the kernel passes no more to a program.
const MAX_VARIABLE_BYTES: usize = 1 << 20;

/// Outcome of a step.
pub(super) enum Done {
    /// Files may have changed: worth saving as a layer.
    Changed(Settings),
    /// Only settings have changed; repeating the step is free.
    Unchanged(Settings),
    /// The build was cancelled.
    Cancelled,
}

/// The error is the message shown to the author of the template.
pub(super) type StepResult = Result<Done, String>;

impl Work<'_> {
    pub(super) async fn step(
        &self,
        step: &Step,
        settings: Settings,
        output: &StepOutput<'_>,
    ) -> StepResult {
        match step.kind.to_uppercase().as_str() {
            "RUN" => self.run(step, settings, output).await,
            "COPY" | "ADD" => self.copy(step, settings).await,
            "ENV" | "ARG" => Self::set_variables(step, settings),
            "WORKDIR" => self.set_workdir(step, settings).await,
            "USER" => self.set_user(step, settings).await,
            other => Err(format!(
                "steps of type {} are not offered (use RUN, COPY, ENV, WORKDIR or USER)",
                other.escape_debug()
            )),
        }
    }

    /// `[command, user]`.
    async fn run(&self, step: &Step, settings: Settings, output: &StepOutput<'_>) -> StepResult {
        let [command, rest @ ..] = step.args.as_slice() else {
            return Err("RUN requires command argument".into());
        };
        let user = rest
            .first()
            .filter(|user| !user.is_empty())
            .unwrap_or(&settings.user);
        let context = Context {
            user,
            workdir: settings.workdir.as_deref(),
            env: &settings.env,
        };
        let finished = self
            .run_line(
                command,
                &context,
                Some(&|stream, line| output.add(stream, line)),
            )
            .await;
        let finished = finished.map_err(|error| {
            format!(
                "failed to run command '{command}': {}",
                start_error(&error, user)
            )
        })?;
        match finished {
            None => Ok(Done::Cancelled),
            Some(finished) if finished.is_success() => Ok(Done::Changed(settings)),
            Some(finished) => {
                let mut message =
                    format!("failed to run command '{command}': {}", finished.reason());
                if !finished.tail.is_empty() {
                    message = format!("{message}\n{}", finished.tail.join("\n"));
                }
                Err(message)
            }
        }
    }

    /// `[source, target, owner, mode]`.
    async fn copy(&self, step: &Step, settings: Settings) -> StepResult {
        let [source, target, rest @ ..] = step.args.as_slice() else {
            return Err("COPY requires a local path and a container path argument".into());
        };
        let hash = step.files_hash.as_deref().filter(|hash| !hash.is_empty());
        let hash = hash.ok_or("COPY requires files hash to be set")?;
        let archive = self
            .uploads()
            .find(hash)
            .ok_or_else(|| format!("files of '{source}' were not uploaded (build again)"))?;
        let owner = rest
            .first()
            .filter(|owner| !owner.is_empty())
            .unwrap_or(&settings.user);
        let mode = rest.get(1).filter(|mode| !mode.is_empty());
        let mode = mode.map(|mode| {
            u32::from_str_radix(mode, 8).map_err(|_| format!("'{mode}' is not a file mode"))
        });
        let mode = mode.transpose()?.map(|mode| mode & 0o7777);
        let copying = async {
            let (user, group) = self.owner(owner).await?;
            let target = expand(target, &known_variables(&settings))?;
            let path = self.absolute(&target, &settings).await?;
            let is_directory = self.is_directory(&path).await?;
            let path = format!(
                "{}{}",
                path.display(),
                if target.ends_with('/') { "/" } else { "" }
            );
            let ownership = Owned { user, group, mode };
            copy::copy(
                self.host,
                self.session,
                &archive,
                source,
                &path,
                is_directory,
                ownership,
            )
            .await
        };
        let copied = tokio::select! {
            biased;
            () = self.cancelled() => return Ok(Done::Cancelled),
            copied = copying => copied,
        };
        copied.map_err(|error| {
            format!(
                "failed to copy '{source}' to '{target}': {}",
                explain(&error)
            )
        })?;
        Ok(Done::Changed(settings))
    }

    /// Resolves `user` or `user:group` to uid and gid.
    async fn owner(&self, owner: &str) -> Result<(u32, u32)> {
        let (user, group) = owner
            .split_once(':')
            .map_or((owner, None), |(user, group)| (user, Some(group)));
        let account = self.host.user_account(self.session, user).await?;
        let group = match group {
            Some(group) if !group.is_empty() && group != user => {
                group_id(self.host, self.session, group).await?
            }
            _ => account.gid,
        };
        Ok((account.uid, group))
    }

    /// `[key, value, key, value…]`.
    fn set_variables(step: &Step, mut settings: Settings) -> StepResult {
        let args = &step.args;
        if args.is_empty() || !args.len().is_multiple_of(2) {
            return Err(format!(
                "{} requires both a key and value arguments",
                step.kind.to_uppercase()
            ));
        }
        let values = known_variables(&settings);
        for pair in args.chunks(2) {
            let [name, value] = pair else { continue };
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(format!(
                    "'{}' is not a valid variable name",
                    name.escape_debug()
                ));
            }
            let value = expand(value, &values).map_err(|error| explain(&error))?;
            settings.env.insert(name.clone(), value);
        }
        let total: usize = settings
            .env
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum();
        if total > MAX_VARIABLE_BYTES {
            return Err(format!(
                "variables have {total} bytes, more than the limit of {MAX_VARIABLE_BYTES}"
            ));
        }
        Ok(Done::Unchanged(settings))
    }

    /// `[path]`.
    async fn set_workdir(&self, step: &Step, mut settings: Settings) -> StepResult {
        let Some(path) = step.args.first() else {
            return Err("WORKDIR requires a path argument".into());
        };
        let creating = async {
            let account = self.host.user_account(self.session, &settings.user).await?;
            // Without an earlier WORKDIR, a relative path starts at the root.
            let begin = Settings {
                workdir: Some(settings.workdir.clone().unwrap_or("/".into())),
                ..settings.clone()
            };
            let path = self
                .absolute(&expand(path, &known_variables(&settings))?, &begin)
                .await?;
            if !self.is_directory(&path).await? {
                let options = MakeDirOptions {
                    create_dirs: true,
                    owner: Some((account.uid, account.gid)),
                };
                self.host.make_dir(self.session, &path, options).await?;
            }
            Result::<_>::Ok(path)
        };
        let path = creating
            .await
            .map_err(|error| format!("failed to create workdir: {}", explain(&error)))?;
        settings.workdir = Some(path.display().to_string());
        Ok(Done::Unchanged(settings))
    }

    /// `[name]`. The user is created if it does not exist.
    async fn set_user(&self, step: &Step, mut settings: Settings) -> StepResult {
        let Some(name) = step.args.first() else {
            return Err("USER requires a username argument".into());
        };
        let name = expand(name, &known_variables(&settings)).map_err(|error| explain(&error))?;
        let plain = name.split(':').next().unwrap_or_default();
        let account = ensure_user(self.host, self.session, plain).await;
        let account =
            account.map_err(|error| format!("failed to create user: {}", explain(&error)))?;
        settings.user = account.name;
        Ok(Done::Unchanged(settings))
    }

    /// Resolves a path of a step: relative to the working directory, `~` is the home of the user.
    async fn absolute(&self, path: &str, settings: &Settings) -> Result<PathBuf> {
        let home = self
            .host
            .user_account(self.session, &settings.user)
            .await?
            .home;
        let begin = settings.workdir.as_deref().unwrap_or(&home);
        let joined = match path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                PathBuf::from(format!("{home}{rest}"))
            }
            _ => Path::new(begin).join(path),
        };
        let mut plain = PathBuf::from("/");
        for part in joined.components() {
            match part {
                Component::Normal(name) => plain.push(name),
                Component::ParentDir => drop(plain.pop()),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        Ok(plain)
    }

    async fn is_directory(&self, path: &Path) -> Result<bool> {
        match self.host.list_dir(self.session, path, 1).await {
            Ok(_) => Ok(true),
            Err(error)
                if matches!(
                    error.code(),
                    ErrorCode::FileNotFound | ErrorCode::InvalidArgument
                ) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the variables for expansion, with defaults for `PATH` and `HOME`.
fn known_variables(settings: &Settings) -> BTreeMap<String, String> {
    let mut values = settings.env.clone();
    for (name, usual) in [("PATH", USUAL_PATH), ("HOME", "/root")] {
        values
            .entry(name.to_owned())
            .or_insert_with(|| usual.to_owned());
    }
    values
}

/// Returns why a command could not be started. The text for an unknown user is E2B's.
fn start_error(error: &Error, user: &str) -> String {
    match error.code() {
        ErrorCode::UserNotFound => {
            format!("command failed: unauthenticated: invalid username: '{user}'")
        }
        _ => explain(error),
    }
}

fn explain(error: &Error) -> String {
    let hint = error
        .hint()
        .map(|hint| format!(" ({hint})"))
        .unwrap_or_default();
    format!("{}{hint}", error.chain())
}
