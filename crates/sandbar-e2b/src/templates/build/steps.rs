//! The steps of a template, each as E2B does it.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

use sandbar_core::{Error, ErrorCode, MakeDirOptions, Result};

use super::{
    copy::{self, Owned},
    people::{ensure_user, group_number},
    plan::Step,
    runner::Work,
    shell::{Context, Said, USUAL_PATH},
    variables::expand,
};
use crate::templates::settings::Settings;

/// What a step came to.
pub(super) enum Done {
    /// Something may have changed in the sandbox: worth keeping.
    Changed(Settings),
    /// Doing it again costs nothing.
    Noted(Settings),
    /// Nobody wants the build any more.
    Cancelled,
}

/// A step that failed, in words for whoever wrote it.
pub(super) type StepResult = Result<Done, String>;

impl Work<'_> {
    pub(super) async fn step(&self, step: &Step, settings: Settings, said: &Said<'_>) -> StepResult {
        match step.kind.to_uppercase().as_str() {
            "RUN" => self.run(step, settings, said).await,
            "COPY" | "ADD" => self.copy(step, settings).await,
            "ENV" | "ARG" => Self::set_variables(step, settings),
            "WORKDIR" => self.set_workdir(step, settings).await,
            "USER" => self.set_user(step, settings).await,
            other => Err(format!(
                "steps of type {} are not offered (RUN, COPY, ENV, WORKDIR and USER are)",
                other.escape_debug()
            )),
        }
    }

    /// `[command, user]`.
    async fn run(&self, step: &Step, settings: Settings, said: &Said<'_>) -> StepResult {
        let [command, rest @ ..] = step.args.as_slice() else { return Err("RUN requires command argument".into()) };
        let user = rest.first().filter(|user| !user.is_empty()).unwrap_or(&settings.user);
        let context = Context { user, workdir: settings.workdir.as_deref(), env: &settings.env };
        let ended = self.line(command, &context, Some(said)).await;
        let ended = ended.map_err(|error| format!("failed to run command '{command}': {}", unstarted(&error, user)))?;
        match ended {
            None => Ok(Done::Cancelled),
            Some(ended) if ended.is_success() => Ok(Done::Changed(settings)),
            Some(ended) => {
                let mut message = format!("failed to run command '{command}': {}", ended.reason());
                if !ended.tail.is_empty() {
                    message = format!("{message}\n{}", ended.tail.join("\n"));
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
        let archive =
            self.uploads().find(hash).ok_or_else(|| format!("the files of '{source}' were not sent (build again)"))?;
        let owner = rest.first().filter(|owner| !owner.is_empty()).unwrap_or(&settings.user);
        let mode = rest.get(1).filter(|mode| !mode.is_empty());
        let mode = mode.map(|mode| u32::from_str_radix(mode, 8).map_err(|_| format!("'{mode}' is no mode of a file")));
        let mode = mode.transpose()?.map(|mode| mode & 0o7777);
        let copying = async {
            let (user, group) = self.owner(owner).await?;
            let target = expand(target, &known_variables(&settings));
            let place = self.absolute(&target, &settings).await?;
            let is_directory = self.is_directory(&place).await?;
            let place = format!("{}{}", place.display(), if target.ends_with('/') { "/" } else { "" });
            let becoming = Owned { user, group, mode };
            copy::copy(self.host, self.session, &archive, source, &place, is_directory, becoming).await
        };
        copying.await.map_err(|error| format!("failed to copy '{source}' to '{target}': {}", explain(&error)))?;
        Ok(Done::Changed(settings))
    }

    /// `user`, or `user:group`.
    async fn owner(&self, owner: &str) -> Result<(u32, u32)> {
        let (user, group) = owner.split_once(':').map_or((owner, None), |(user, group)| (user, Some(group)));
        let account = self.host.user_account(self.session, user).await?;
        let group = match group {
            Some(group) if !group.is_empty() && group != user => group_number(self.host, self.session, group).await?,
            _ => account.gid,
        };
        Ok((account.uid, group))
    }

    /// `[key, value, key, value…]`.
    fn set_variables(step: &Step, mut settings: Settings) -> StepResult {
        let args = &step.args;
        if args.is_empty() || !args.len().is_multiple_of(2) {
            return Err(format!("{} requires both a key and value arguments", step.kind.to_uppercase()));
        }
        let values = known_variables(&settings);
        for pair in args.chunks(2) {
            let [name, value] = pair else { continue };
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(format!("'{}' cannot be the name of a variable", name.escape_debug()));
            }
            settings.env.insert(name.clone(), expand(value, &values));
        }
        Ok(Done::Noted(settings))
    }

    /// `[path]`.
    async fn set_workdir(&self, step: &Step, mut settings: Settings) -> StepResult {
        let Some(path) = step.args.first() else { return Err("WORKDIR requires a path argument".into()) };
        let making = async {
            let account = self.host.user_account(self.session, &settings.user).await?;
            // One that is relative begins at the root, as long as no other was set.
            let begin = Settings { workdir: Some(settings.workdir.clone().unwrap_or("/".into())), ..settings.clone() };
            let path = self.absolute(&expand(path, &known_variables(&settings)), &begin).await?;
            if !self.is_directory(&path).await? {
                let options = MakeDirOptions { create_dirs: true, owner: Some((account.uid, account.gid)) };
                self.host.make_dir(self.session, &path, options).await?;
            }
            Result::<_>::Ok(path)
        };
        let path = making.await.map_err(|error| format!("failed to create workdir: {}", explain(&error)))?;
        settings.workdir = Some(path.display().to_string());
        Ok(Done::Noted(settings))
    }

    /// `[name]`. One nobody is called is made.
    async fn set_user(&self, step: &Step, mut settings: Settings) -> StepResult {
        let Some(name) = step.args.first() else { return Err("USER requires a username argument".into()) };
        let name = expand(name, &known_variables(&settings));
        let plain = name.split(':').next().unwrap_or_default();
        let account = ensure_user(self.host, self.session, plain).await;
        let account = account.map_err(|error| format!("failed to create user: {}", explain(&error)))?;
        settings.user = account.name;
        Ok(Done::Noted(settings))
    }

    /// A path of a step: relative ones begin where the step runs, `~` is the home of its user.
    async fn absolute(&self, path: &str, settings: &Settings) -> Result<PathBuf> {
        let home = self.host.user_account(self.session, &settings.user).await?.home;
        let begin = settings.workdir.as_deref().unwrap_or(&home);
        let joined = match path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => PathBuf::from(format!("{home}{rest}")),
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
            Err(error) if matches!(error.code(), ErrorCode::FileNotFound | ErrorCode::InvalidArgument) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// What a shell of root finds in the sandbox.
fn known_variables(settings: &Settings) -> BTreeMap<String, String> {
    let mut values = settings.env.clone();
    for (name, usual) in [("PATH", USUAL_PATH), ("HOME", "/root")] {
        values.entry(name.to_owned()).or_insert_with(|| usual.to_owned());
    }
    values
}

/// Why a command did not even begin. People look for this text when they misspelt a user.
fn unstarted(error: &Error, user: &str) -> String {
    match error.code() {
        ErrorCode::UserNotFound => format!("command failed: unauthenticated: invalid username: '{user}'"),
        _ => explain(error),
    }
}

fn explain(error: &Error) -> String {
    let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("{}{hint}", error.chain())
}
