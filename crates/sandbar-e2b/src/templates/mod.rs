//! Templates: `Template.build` of the SDKs, and what sandboxes are made from.
//!
//! A build is a session that starts from a base (`fromTemplate`), or from an image (`fromImage`), does the steps in order and
//! is kept as a base. What is known of templates, their builds and tags is in one file ([`catalogue`]); archives for the
//! steps that copy lie beside it ([`uploads`]). What a step came to is kept as a base too, a *layer*, so that a build which
//! begins with the same steps goes on from there.
//!
//! Invariant: a build is a base and an entry with a tag, or it is nothing: its session is gone, whatever happens.

mod build;
mod catalogue;
mod finding;
mod name;
mod requests;
mod resolve;
mod settings;
mod start;
mod status;
mod tags;
mod uploads;

use std::sync::Arc;

use axum::{
    Router,
    http::StatusCode,
    routing::{get, patch, post, put},
};
use sandbar_core::{Error, Result};
use tokio::sync::OnceCell;

pub(crate) use build::BUILD_PREFIX;
pub(crate) use settings::StartCommand;
pub(crate) use uploads::UPLOADS;

use crate::{answer::ControlError, surface::Surface};
use build::Builds;
use catalogue::Catalogue;
use uploads::Uploads;

/// What a handler answers.
type Answer<T> = Result<T, ControlError>;

/// What names of bases begin with that builds keep for themselves.
const BUILT_BASE: &str = "e2b-build-";
const LAYER_BASE: &str = "e2b-layer-";
const IMAGE_BASE: &str = "e2b-image-";
const INTERNAL: [&str; 3] = [BUILT_BASE, LAYER_BASE, IMAGE_BASE];

pub(crate) fn routes() -> Router<Arc<Surface>> {
    Router::new()
        .route("/v3/templates", post(requests::third_version))
        .route("/v2/templates", get(finding::list_page).post(requests::second_version))
        .route("/templates", get(finding::list).post(requests::with_docker))
        .route("/templates/tags", post(tags::assign).delete(tags::remove))
        .route("/templates/aliases/{alias}", get(finding::find_alias))
        .route(
            "/templates/{id}",
            get(finding::find).post(requests::with_docker).patch(finding::update).delete(finding::remove),
        )
        .route("/v2/templates/{id}", patch(finding::update))
        .route("/templates/{id}/tags", get(tags::list))
        .route("/templates/{id}/files/{hash}", get(uploads::link))
        .route("/templates/{id}/builds/{build}", post(requests::with_docker))
        .route("/v2/templates/{id}/builds/{build}", post(requests::start))
        .route("/templates/{id}/builds/{build}/status", get(status::status))
        .route("/templates/{id}/builds/{build}/logs", get(status::logs))
}

/// Where archives are sent to: nobody shows a key there, the address is enough.
pub(crate) fn uploads_router(surface: &Arc<Surface>) -> Router {
    Router::new().route(&format!("{UPLOADS}/{{hash}}"), put(uploads::receive)).with_state(Arc::clone(surface))
}

/// What there is of templates, opened when it is first asked for.
#[derive(Debug, Default)]
pub(crate) struct LazyTemplates(OnceCell<Templates>);

#[derive(Debug)]
pub(crate) struct Templates {
    pub(crate) catalogue: Catalogue,
    pub(crate) uploads: Uploads,
    pub(crate) builds: Builds,
}

impl Surface {
    pub(crate) async fn templates(&self) -> Result<&Templates> {
        self.templates.0.get_or_try_init(|| self.open_templates()).await
    }

    async fn open_templates(&self) -> Result<Templates> {
        let directory = self.host.directory_for("e2b")?;
        let templates = Templates {
            catalogue: Catalogue::open(directory.join("templates.json"))?,
            uploads: Uploads::open(directory.join("files"))?,
            builds: Builds::default(),
        };
        self.recover(&templates).await?;
        Ok(templates)
    }
}

fn refuse(why: impl Into<String>) -> ControlError {
    with_status(StatusCode::BAD_REQUEST, why)
}

fn with_status(status: StatusCode, why: impl Into<String>) -> ControlError {
    ControlError::new(status, why)
}

fn not_found(name: &str) -> ControlError {
    let shown: String = name.chars().take(128).collect();
    let why = format!(
        "template '{}' not found (use `base`, the id of a snapshot, or build one with `Template.build`)",
        shown.escape_debug()
    );
    with_status(StatusCode::NOT_FOUND, why)
}

fn no_build(id: &str) -> ControlError {
    let shown: String = id.chars().take(128).collect();
    let why = format!("build '{}' not found (ask for one with `POST /v3/templates`)", shown.escape_debug());
    with_status(StatusCode::NOT_FOUND, why)
}

/// Twenty letters and digits, as ids of E2B's templates have.
fn random_id() -> Result<String> {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz012345";
    let mut bytes = [0; 20];
    random(&mut bytes)?;
    Ok(bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect())
}

/// Ids of builds are UUIDs: SDKs read them as such.
fn random_uuid() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn random(bytes: &mut [u8]) -> Result<()> {
    getrandom::fill(bytes).map_err(|error| Error::internal("there are no random numbers").with_source(error))
}
