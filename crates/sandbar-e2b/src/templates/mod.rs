//! Templates: `Template.build` of the SDKs, and resolving the name a sandbox is created from.
//!
//! A build is a session that starts from a base (`fromTemplate`) or an image (`fromImage`), runs
//! the steps in order and is saved as a base. Templates, builds and tags are recorded in one file
//! ([`catalogue`]); archives for `COPY` steps are stored beside it ([`uploads`]). The result of a
//! step is saved as a base too, a *layer*, from which a build with the same first steps continues.
//!
//! Invariant: a build ends as a base with a tagged entry, or leaves nothing; its session is
//! destroyed in any case, at the latest when the host starts again.

mod build;
mod catalogue;
mod catalogue_api;
mod errors;
mod ids;
mod name;
mod requests;
mod resolve;
mod routes;
mod settings;
mod state;
mod status;
mod tags;
mod uploads;

pub(crate) use build::BUILD_PREFIX;
pub(crate) use routes::{routes, uploads_router};
pub(crate) use state::Templates;
pub(crate) use uploads::UPLOADS;
