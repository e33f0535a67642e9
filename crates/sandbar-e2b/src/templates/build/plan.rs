//! The request that starts a build.

use sandbar_host::Credentials;

use crate::{
    rest::{ApiError, ApiResult, Fields, bad_request},
    templates::uploads::check_hash,
};

/// Limit of steps.
const MAX_STEPS: usize = 1000;
/// Limit of a command, a value or a name in a step: the kernel passes no longer one to a program.
pub(super) const MAX_TEXT_BYTES: usize = 128 << 10;
/// Limit of the arguments of one step.
const MAX_ARGS: usize = 1000;

/// Parsed request.
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

/// One step. The arguments of each kind are documented in `steps.rs`.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(super) kind: String,
    pub(super) args: Vec<String>,
    pub(super) files_hash: Option<String>,
    pub(super) force: bool,
}

impl Step {
    fn read(mut fields: Fields) -> ApiResult<Self> {
        let step = Self {
            kind: fields.require("type")?,
            args: fields.take("args")?.unwrap_or_default(),
            files_hash: fields.take("filesHash")?,
            force: fields.take("force")?.unwrap_or(false),
        };
        if step.args.len() > MAX_ARGS {
            return Err(bad_request(format!(
                "`args` has {} values; a step has at most {MAX_ARGS}",
                step.args.len()
            )));
        }
        step.args
            .iter()
            .try_for_each(|arg| check_text("args", arg))?;
        if let Some(hash) = step.files_hash.as_deref().filter(|hash| !hash.is_empty()) {
            check_hash(hash)?;
        }
        Ok(step)
    }

    /// Returns the step as shown in the log.
    pub(super) fn text(&self) -> String {
        let args: Vec<&str> = self
            .args
            .iter()
            .map(String::as_str)
            .filter(|arg| !arg.is_empty())
            .collect();
        format!("{} {}", self.kind.to_uppercase(), args.join(" "))
    }
}

/// Credentials for the registry of an image.
#[derive(Debug)]
enum RegistryAccess {
    Registry { username: String, password: String },
    Gcp { service_account_json: String },
    Aws,
}

impl RegistryAccess {
    fn read(mut fields: Fields) -> ApiResult<Self> {
        match fields.require::<String>("type")?.as_str() {
            "registry" => Ok(Self::Registry {
                username: fields.require("username")?,
                password: fields.require("password")?,
            }),
            "gcp" => Ok(Self::Gcp {
                service_account_json: fields.require("serviceAccountJson")?,
            }),
            "aws" => Ok(Self::Aws),
            other => Err(bad_request(format!(
                "`fromImageRegistry.type` is `{}`; use registry, gcp or aws",
                other.escape_debug()
            ))),
        }
    }
}

/// Refuses a text that no program can be given.
fn check_text(field: &str, text: &str) -> ApiResult<()> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(bad_request(format!(
            "`{field}` has a text of {} bytes; at most {MAX_TEXT_BYTES} are allowed",
            text.len()
        )));
    }
    if text.contains('\0') {
        return Err(bad_request(format!("`{field}` contains a zero byte")));
    }
    Ok(())
}

impl BuildPlan {
    pub(crate) fn read(fields: &mut Fields) -> ApiResult<Self> {
        let plan = Self {
            from_image: fields.take("fromImage")?,
            from_template: fields.take("fromTemplate")?,
            from_image_registry: fields
                .object("fromImageRegistry")?
                .map(RegistryAccess::read)
                .transpose()?,
            force: fields.take("force")?.unwrap_or(false),
            steps: fields
                .objects("steps")?
                .into_iter()
                .map(Step::read)
                .collect::<ApiResult<_>>()?,
            start_cmd: fields.take("startCmd")?,
            ready_cmd: fields.take("readyCmd")?,
        };
        let is_set = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
        if is_set(&plan.from_image) == is_set(&plan.from_template) {
            return Err(bad_request(
                "exactly one of `fromImage` and `fromTemplate` is required",
            ));
        }
        for (field, text) in [
            ("fromImage", &plan.from_image),
            ("fromTemplate", &plan.from_template),
            ("startCmd", &plan.start_cmd),
            ("readyCmd", &plan.ready_cmd),
        ] {
            check_text(field, text.as_deref().unwrap_or_default())?;
        }
        if plan.steps.len() > MAX_STEPS {
            return Err(bad_request(format!(
                "`steps` has {}; a template has at most {MAX_STEPS}",
                plan.steps.len()
            )));
        }
        Ok(plan)
    }

    /// Returns the registry credentials. Unusable ones fail the first step instead of the call,
    /// because SDKs then show the line that names the image.
    pub(super) fn credentials(&self) -> ApiResult<Option<Credentials>> {
        match &self.from_image_registry {
            None => Ok(None),
            Some(RegistryAccess::Registry { username, password }) => Ok(Some(Credentials {
                username: username.clone(),
                password: password.clone(),
            })),
            // Google's registries accept the service account key as the password.
            Some(RegistryAccess::Gcp {
                service_account_json,
            }) => Ok(Some(Credentials {
                username: "_json_key".into(),
                password: service_account_json.clone(),
            })),
            Some(RegistryAccess::Aws) => Err(ApiError::new(
                axum::http::StatusCode::NOT_IMPLEMENTED,
                "AWS registries are not offered (get a password with `aws ecr get-login-password`, and use it with the user `AWS`)",
            )),
        }
    }

    pub(super) fn start(&self) -> (&str, &str) {
        (
            self.start_cmd.as_deref().unwrap_or_default(),
            self.ready_cmd.as_deref().unwrap_or_default(),
        )
    }
}
