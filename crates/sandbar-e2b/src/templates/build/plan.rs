//! What to build, as the SDKs say it.

use sandbar_host::Credentials;
use serde::Deserialize;

use crate::templates::{Answer, refuse, with_status};

/// More steps than any template has.
const MOST_STEPS: usize = 1000;

/// The body of the call that starts a build.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BuildPlan {
    pub(super) from_image: Option<String>,
    pub(super) from_template: Option<String>,
    from_image_registry: Option<RegistryAccess>,
    #[serde(default)]
    pub(super) force: Option<bool>,
    #[serde(default)]
    pub(super) steps: Vec<Step>,
    start_cmd: Option<String>,
    ready_cmd: Option<String>,
}

/// One step. What a step of a kind takes is written down where it is done.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Step {
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) args: Option<Vec<String>>,
    pub(super) files_hash: Option<String>,
    #[serde(default)]
    pub(super) force: Option<bool>,
}

impl Step {
    pub(super) fn args(&self) -> &[String] {
        self.args.as_deref().unwrap_or_default()
    }

    /// As the log shows it.
    pub(super) fn text(&self) -> String {
        let args: Vec<&str> = self.args().iter().map(String::as_str).filter(|arg| !arg.is_empty()).collect();
        format!("{} {}", self.kind.to_uppercase(), args.join(" "))
    }

    pub(super) fn is_forced(&self) -> bool {
        self.force == Some(true)
    }
}

/// Who we are to the registry an image comes from.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
enum RegistryAccess {
    Registry {
        username: String,
        password: String,
    },
    #[serde(rename_all = "camelCase")]
    Gcp {
        service_account_json: String,
    },
    Aws,
}

impl BuildPlan {
    pub(crate) fn check(&self) -> Answer<()> {
        let said = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
        if said(&self.from_image) == said(&self.from_template) {
            return Err(refuse("give one of `fromImage` and `fromTemplate`"));
        }
        if self.steps.len() > MOST_STEPS {
            return Err(refuse(format!("a template has at most {MOST_STEPS} steps")));
        }
        Ok(())
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
