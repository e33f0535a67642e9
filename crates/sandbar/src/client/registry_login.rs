//! Credentials for image registries, in the file Docker keeps them in: `~/.docker/config.json`.

use std::{
    fs::{self, File},
    io::{self, BufReader},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use docker_credential::{CredentialRetrievalError, DockerCredential, get_credential_from_reader};
use sandbar_client::RegistryCredentials;
use sandbar_core::{Error, Result};
use sandbar_host::ImageReference;
use serde_json::{Map, Value, json};

use crate::{env_vars, local_host::discovery, terminal::output};

const DOCKER_HUB: &str = "docker.io";
/// Key under which Docker and its credential helpers store credentials of Docker Hub.
const DOCKER_HUB_KEY: &str = "https://index.docker.io/v1/";
/// Message of a working helper that has no credentials for a registry.
const NOT_FOUND: &str = "credentials not found";

/// Reads a registry as a host name, perhaps with a port; Docker Hub has several names.
pub(crate) fn parse_registry(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("https://").unwrap_or(text);
    let host = host.split('/').next().unwrap_or(host);
    let image: ImageReference = format!("{host}/team/image")
        .parse()
        .map_err(|error: Error| error.to_string())?;
    if image.registry() == DOCKER_HUB && !host.ends_with(DOCKER_HUB) {
        return Err(format!(
            "`{text}` is not a registry — write its host name, for example `ghcr.io`"
        ));
    }
    Ok(image.registry().to_owned())
}

/// Returns what the user's Docker configuration, or a credential helper it names, has for the
/// registry of an image.
///
/// A helper that fails is reported and skipped: most images are public.
pub(crate) fn credentials_for(image: &str) -> Result<Option<RegistryCredentials>> {
    let image: ImageReference = image.parse()?;
    let Some(path) = config_path() else {
        return Ok(None);
    };
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(Error::io(
                format!("could not read `{}`", path.display()),
                error,
            ));
        }
    };
    let without = |why: &dyn std::fmt::Display| {
        output::say(format_args!(
            "note: no credentials for registry `{}`: {why}",
            image.registry()
        ));
        Ok(None)
    };
    match get_credential_from_reader(BufReader::new(file), key(image.registry())) {
        Ok(DockerCredential::UsernamePassword(username, password)) => {
            Ok(Some(RegistryCredentials { username, password }))
        }
        Ok(DockerCredential::IdentityToken(_)) => without(
            &"Docker has an identity token for it; log in with a password by `sandbar base login`",
        ),
        Err(CredentialRetrievalError::NoCredentialConfigured) => Ok(None),
        Err(CredentialRetrievalError::HelperFailure { stdout, .. })
            if stdout.contains(NOT_FOUND) =>
        {
            Ok(None)
        }
        // Without its output, which could hold a secret.
        Err(CredentialRetrievalError::HelperFailure { helper, .. }) => {
            without(&format_args!("`{helper}` failed"))
        }
        Err(
            error @ (CredentialRetrievalError::HelperCommunicationError
            | CredentialRetrievalError::MalformedHelperResponse),
        ) => without(&error),
        Err(error) => Err(unusable(&path).with_source(error)),
    }
}

/// Stores credentials for a registry in the user's Docker configuration; returns its path.
/// Everything else in the file stays as it is, and only its owner can read it.
pub(crate) fn store(registry: &str, credentials: &RegistryCredentials) -> Result<PathBuf> {
    let path = config_path().ok_or_else(|| {
        Error::invalid("registry", "no home directory to store credentials in")
            .with_hint("set DOCKER_CONFIG")
    })?;
    let directory = path.parent().unwrap_or(&path);
    let failed = |error| Error::io(format!("could not write `{}`", path.display()), error);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(failed)?;
    // Keeps a symbolic link in place.
    let path = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
    let mut config = match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice::<Map<String, Value>>(&bytes)
            .map_err(|error| unusable(&path).with_source(error))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Map::new(),
        Err(error) => return Err(failed(error)),
    };
    add(&mut config, key(registry), credentials).ok_or_else(|| unusable(&path))??;
    let text = serde_json::to_string_pretty(&config).map_err(|error| {
        Error::internal("could not write the Docker configuration").with_source(error)
    })?;
    discovery::replace(&path, text.as_bytes(), 0o600)?;
    Ok(path)
}

/// Adds credentials to the configuration; `None` if it does not have Docker's form.
fn add(
    config: &mut Map<String, Value>,
    key: &str,
    credentials: &RegistryCredentials,
) -> Option<Result<()>> {
    if let Some(helper) = config
        .get("credHelpers")
        .and_then(|helpers| helpers.get(key))
        .and_then(Value::as_str)
    {
        let message =
            format!("registry `{key}` has the credential helper `docker-credential-{helper}`");
        return Some(Err(Error::invalid("registry", message)
            .with_hint("log in with the program the helper is from")));
    }
    let pair = STANDARD.encode(format!("{}:{}", credentials.username, credentials.password));
    let auths = config
        .entry("auths")
        .or_insert_with(|| json!({}))
        .as_object_mut()?;
    auths.insert(key.to_owned(), json!({ "auth": pair }));
    Some(Ok(()))
}

fn key(registry: &str) -> &str {
    if registry == DOCKER_HUB {
        DOCKER_HUB_KEY
    } else {
        registry
    }
}

fn config_path() -> Option<PathBuf> {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let directory =
        set(env_vars::DOCKER_CONFIG).or_else(|| set("HOME").map(|home| home.join(".docker")));
    directory.map(|directory| directory.join("config.json"))
}

fn unusable(path: &Path) -> Error {
    Error::invalid(
        "image",
        format!("`{}` is not a Docker configuration", path.display()),
    )
    .with_hint("correct the file, or name another directory with DOCKER_CONFIG")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_names_parse_and_docker_hub_has_several() {
        for (text, expected) in [
            ("ghcr.io", "ghcr.io"),
            ("https://ghcr.io/", "ghcr.io"),
            ("localhost:5000", "localhost:5000"),
            ("docker.io", "docker.io"),
            ("index.docker.io", "docker.io"),
            (DOCKER_HUB_KEY, "docker.io"),
        ] {
            assert_eq!(parse_registry(text).as_deref(), Ok(expected), "{text}");
        }
        for bad in ["", "ghcr", "a b.io", "https://"] {
            assert!(parse_registry(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn stored_credentials_keep_the_rest_of_the_file() {
        let me = RegistryCredentials {
            username: "me".into(),
            password: "pa:ss".into(),
        };
        let config = json!({
            "auths": { "ghcr.io": { "auth": "eDp5" } },
            "credsStore": "pass",
            "credHelpers": { "helped.example": "gcloud" },
        });
        let Value::Object(mut config) = config else {
            panic!()
        };
        add(&mut config, key(DOCKER_HUB), &me).unwrap().unwrap();
        assert_eq!(
            config["auths"][DOCKER_HUB_KEY],
            json!({ "auth": "bWU6cGE6c3M=" })
        );
        assert_eq!(
            (&config["auths"]["ghcr.io"]["auth"], &config["credsStore"]),
            (&json!("eDp5"), &json!("pass"))
        );
        let error = add(&mut config, "helped.example", &me)
            .unwrap()
            .unwrap_err();
        assert!(
            error.message().contains("docker-credential-gcloud"),
            "{error}"
        );
        let read = get_credential_from_reader(json!(config).to_string().as_bytes(), DOCKER_HUB_KEY)
            .unwrap();
        assert_eq!(
            read,
            DockerCredential::UsernamePassword("me".into(), "pa:ss".into())
        );
        let Value::Object(mut broken) = json!({ "auths": 7 }) else {
            panic!()
        };
        assert!(add(&mut broken, "ghcr.io", &me).is_none());
    }
}
