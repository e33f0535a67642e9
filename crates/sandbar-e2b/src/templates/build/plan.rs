//! What to build, as the SDKs say it.

use sandbar_host::Credentials;

use crate::{
    control::Fields,
    templates::{Answer, refuse, with_status},
};

/// More steps than any template has.
const MOST_STEPS: usize = 1000;

/// The body of the call that starts a build.
#[derive(Debug)]
pub(crate) struct BuildPlan {
    pub(super) from_image: Option<String>,
    pub(super) from_template: Option<String>,
    from_image_registry: Option<RegistryAccess>,
    pub(super) force: bool,
    pub(super) steps: Vec<Step>,
    start_cmd: Option<String>,
    ready_cmd: Option<String>,
}

/// One step. What a step of a kind takes is written down where it is done.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(super) kind: String,
    pub(super) args: Vec<String>,
    pub(super) files_hash: Option<String>,
    pub(super) force: bool,
}

impl Step {
    fn read(mut fields: Fields) -> Answer<Self> {
        Ok(Self {
            kind: fields.require("type")?,
            args: fields.take("args")?.unwrap_or_default(),
            files_hash: fields.take("filesHash")?,
            force: fields.take("force")?.unwrap_or(false),
        })
    }

    /// As the log shows it.
    pub(super) fn text(&self) -> String {
        let args: Vec<&str> = self.args.iter().map(String::as_str).filter(|arg| !arg.is_empty()).collect();
        format!("{} {}", self.kind.to_uppercase(), args.join(" "))
    }
}

/// Who we are to the registry an image comes from.
#[derive(Debug)]
enum RegistryAccess {
    Registry { username: String, password: String },
    Gcp { service_account_json: String },
    Aws,
}

impl RegistryAccess {
    fn read(mut fields: Fields) -> Answer<Self> {
        match fields.require::<String>("type")?.as_str() {
            "registry" => {
                Ok(Self::Registry { username: fields.require("username")?, password: fields.require("password")? })
            }
            "gcp" => Ok(Self::Gcp { service_account_json: fields.require("serviceAccountJson")? }),
            "aws" => Ok(Self::Aws),
            other => {
                Err(refuse(format!("`fromImageRegistry.type` is `{}`; use registry, gcp or aws", other.escape_debug())))
            }
        }
    }
}

impl BuildPlan {
    pub(crate) fn read(fields: &mut Fields) -> Answer<Self> {
        let plan = Self {
            from_image: fields.take("fromImage")?,
            from_template: fields.take("fromTemplate")?,
            from_image_registry: fields.object("fromImageRegistry")?.map(RegistryAccess::read).transpose()?,
            force: fields.take("force")?.unwrap_or(false),
            steps: fields.objects("steps")?.into_iter().map(Step::read).collect::<Answer<_>>()?,
            start_cmd: fields.take("startCmd")?,
            ready_cmd: fields.take("readyCmd")?,
        };
        let said = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
        if said(&plan.from_image) == said(&plan.from_template) {
            return Err(refuse("give one of `fromImage` and `fromTemplate`"));
        }
        if plan.steps.len() > MOST_STEPS {
            return Err(refuse(format!("`steps` has {}; a template has at most {MOST_STEPS}", plan.steps.len())));
        }
        Ok(plan)
    }

    /// What cannot be used fails the first step and not the call: SDKs show then where the image was named.
    pub(super) fn credentials(&self) -> Answer<Option<Credentials>> {
        match &self.from_image_registry {
            None => Ok(None),
            Some(RegistryAccess::Registry { username, password }) => {
                Ok(Some(Credentials { username: username.clone(), password: password.clone() }))
            }
            // Google's registries take the whole key as a password.
            Some(RegistryAccess::Gcp { service_account_json }) => {
                Ok(Some(Credentials { username: "_json_key".into(), password: service_account_json.clone() }))
            }
            Some(RegistryAccess::Aws) => Err(with_status(
                axum::http::StatusCode::NOT_IMPLEMENTED,
                "AWS registries are not offered (ask `aws ecr get-login-password`, and use it with the user `AWS`)",
            )),
        }
    }

    pub(super) fn start(&self) -> (&str, &str) {
        (self.start_cmd.as_deref().unwrap_or_default(), self.ready_cmd.as_deref().unwrap_or_default())
    }
}
