//! The origin of a build: a template, a base or an image.

use sandbar_core::{BaseInfo, BaseName, ErrorCode};
use sandbar_host::ImageReference;

use super::{
    failure::{Failure, Part},
    images::ImageHold,
    log::Level,
    plan::BuildPlan,
    run::{Build, CANCELLED},
};
use crate::templates::{ids::IMAGE_BASE, settings::Settings};

/// Images of E2B's own templates; the template `base` stands for them.
const E2B_IMAGES: [&str; 3] = ["e2bdev/base", "e2bdev/code-interpreter", "e2bdev/desktop"];

/// Start of a build.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) base: BaseName,
    pub(super) settings: Settings,
    /// Equal for equal origins. Absent if the base does not exist yet: the host creates it with its
    /// first session.
    pub(super) identity: Option<String>,
    /// The base is a plain image, without the user that E2B adds.
    pub(super) is_bare: bool,
    /// Keeps the image until a session uses it.
    pub(super) hold: Option<ImageHold>,
}

impl Build {
    pub(super) async fn origin(&self, plan: &BuildPlan) -> Result<Origin, Failure> {
        let template = plan
            .from_template
            .as_deref()
            .filter(|name| !name.is_empty());
        if let Some(name) = template {
            self.log.add(
                Level::Info,
                Some("base"),
                format!("[base] FROM TEMPLATE {name}"),
            );
            return self.template_origin(name).await;
        }
        let image = plan.from_image.as_deref().unwrap_or_default();
        self.log
            .add(Level::Info, Some("base"), format!("[base] FROM {image}"));
        let short = image.strip_prefix("docker.io/").unwrap_or(image);
        if E2B_IMAGES.contains(&short.split(['@', ':']).next().unwrap_or_default()) {
            return self.template_origin("base").await;
        }
        match self.local_base(image).await? {
            Some(origin) => Ok(origin),
            None => self.image_origin(image, plan).await,
        }
    }

    async fn template_origin(&self, name: &str) -> Result<Origin, Failure> {
        let found = self
            .templates
            .resolve(name)
            .await
            .map_err(|error| Part::Base.refused(&error))?;
        let identity = self.identity(&found.base).await?;
        Ok(Origin {
            base: found.base,
            settings: found.defaults.into(),
            identity,
            is_bare: false,
            hold: None,
        })
    }

    /// Returns a base of the host with the name of the image: `debian:12` may be `debian-12`.
    async fn local_base(&self, image: &str) -> Result<Option<Origin>, Failure> {
        let names = [image.to_owned(), image.replace(['/', ':', '@'], "-")];
        for name in names
            .into_iter()
            .filter_map(|name| BaseName::new(name).ok())
        {
            if let Some(base) = self.base(&name).await? {
                let identity = Some(identity_of(&base));
                let settings = settings_of(base);
                return Ok(Some(Origin {
                    base: name,
                    settings,
                    identity,
                    is_bare: true,
                    hold: None,
                }));
            }
        }
        Ok(None)
    }

    async fn base(&self, name: &BaseName) -> Result<Option<BaseInfo>, Failure> {
        let bases = self
            .templates
            .host
            .list_bases()
            .await
            .map_err(|error| Part::Base.because(&error))?;
        Ok(bases.into_iter().find(|base| base.name == *name))
    }

    /// Returns the identity of a base, if it exists.
    pub(super) async fn identity(&self, name: &BaseName) -> Result<Option<String>, Failure> {
        Ok(self.base(name).await?.as_ref().map(identity_of))
    }

    async fn image_origin(&self, image: &str, plan: &BuildPlan) -> Result<Origin, Failure> {
        let failed = |error: sandbar_core::Error| Part::Base.because(&error);
        let reference: ImageReference = image.parse().map_err(failed)?;
        let credentials = plan
            .credentials()
            .map_err(|error| Part::Base.refused(&error))?;
        self.log.add(
            Level::Info,
            Some("base"),
            format!("[base] pulling {reference}"),
        );
        let host = &self.templates.host;
        let pulled = tokio::select! {
            pulled = host.pull_image(&reference, credentials, |_| {}) => pulled.map_err(failed)?,
            () = self.cancelled.cancelled() => return Err(Part::Base.failed(CANCELLED)),
        };
        let digest = pulled.digest().to_owned();
        let short = digest
            .strip_prefix("sha256:")
            .unwrap_or(&digest)
            .get(..32)
            .unwrap_or_default();
        let base = BaseName::new(format!("{IMAGE_BASE}{short}")).map_err(failed)?;
        let hold = self
            .templates
            .store()
            .await
            .map_err(failed)?
            .builds
            .hold_images()
            .await;
        if self.base(&base).await?.is_none() {
            self.log.add(
                Level::Info,
                Some("base"),
                format!("[base] unpacking {digest}"),
            );
            let imported = tokio::select! {
                imported = host.import_pulled(&base, pulled, |_| {}) => imported,
                () = self.cancelled.cancelled() => return Err(Part::Base.failed(CANCELLED)),
            };
            match imported {
                // A concurrent build has imported it.
                Err(error) if error.code() == ErrorCode::BaseExists => {}
                imported => drop(imported.map_err(failed)?),
            }
        }
        let settings = self.base(&base).await?.map(settings_of).unwrap_or_default();
        Ok(Origin {
            base,
            settings,
            identity: Some(digest),
            is_bare: true,
            hold: Some(hold),
        })
    }
}

fn identity_of(base: &BaseInfo) -> String {
    format!("{} {}", base.name, base.created)
}

/// Returns the settings of an image, so that steps see its variables. `HOME` depends on the user
/// and is dropped.
fn settings_of(mut base: BaseInfo) -> Settings {
    base.env.remove("HOME");
    Settings {
        env: base.env,
        ..Settings::default()
    }
}
