//! The catalogue of templates with their builds, tags and layers: one file, replaced at every
//! change.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use jiff::Timestamp;
use sandbar_core::{BaseName, Error, ErrorCode, MutexExt as _, Result};
use serde::{Deserialize, Serialize};
use tokio::{sync::Mutex as AsyncMutex, task::spawn_blocking};

use super::settings::Settings;

const VERSION: u32 = 1;
/// Untagged builds that are kept per template.
const MAX_UNTAGGED_BUILDS: usize = 20;
/// Limit of layers; beyond it, the least recently used are removed.
const MAX_LAYERS: usize = 64;

/// Contents of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Contents {
    version: u32,
    /// By id.
    #[serde(default)]
    pub(crate) templates: BTreeMap<String, TemplateRecord>,
    /// By the hash of their origin and steps.
    #[serde(default)]
    pub(crate) layers: BTreeMap<String, LayerRecord>,
    /// Bases to delete as soon as no session uses them.
    #[serde(default)]
    pub(crate) leftover: BTreeSet<BaseName>,
}

impl Default for Contents {
    fn default() -> Self {
        Self {
            version: VERSION,
            templates: BTreeMap::new(),
            layers: BTreeMap::new(),
            leftover: BTreeSet::new(),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TemplateRecord {
    pub(crate) name: Option<String>,
    pub(crate) created: Timestamp,
    pub(crate) updated: Timestamp,
    pub(crate) public: bool,
    /// By id.
    pub(crate) builds: BTreeMap<String, BuildRecord>,
    /// Build id by tag.
    pub(crate) tags: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BuildRecord {
    pub(crate) status: BuildStatus,
    pub(crate) created: Timestamp,
    pub(crate) updated: Timestamp,
    pub(crate) finished: Option<Timestamp>,
    pub(crate) cpu_count: u32,
    pub(crate) memory_mb: u32,
    /// Tags the build gets when it is ready.
    pub(crate) tags: Vec<String>,
    /// Base for new sandboxes, once the build is ready.
    pub(crate) base: Option<BaseName>,
    #[serde(default)]
    pub(crate) settings: Settings,
    pub(crate) failure: Option<BuildFailure>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BuildStatus {
    /// Not started, or queued.
    Waiting,
    Building,
    Ready,
    Error,
}

/// Why a build failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BuildFailure {
    pub(crate) message: String,
    /// `base`, the number of a step, or `finalize`.
    pub(crate) step: Option<String>,
}

/// Saved result of a step, for builds with the same first steps.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LayerRecord {
    pub(crate) base: BaseName,
    pub(crate) settings: Settings,
    pub(crate) used: Timestamp,
}

impl Contents {
    /// Returns the template with an id or a name.
    pub(crate) fn template(&self, name: &str) -> Option<(&str, &TemplateRecord)> {
        let by_id = || self.templates.get_key_value(name);
        let by_name = || {
            self.templates
                .iter()
                .find(|(_, template)| template.name.as_deref() == Some(name))
        };
        by_id()
            .or_else(by_name)
            .map(|(id, template)| (id.as_str(), template))
    }

    pub(crate) fn build_mut(&mut self, template: &str, build: &str) -> Option<&mut BuildRecord> {
        self.templates.get_mut(template)?.builds.get_mut(build)
    }

    /// Moves the tags of a finished build to it, except those that a newer build has.
    pub(crate) fn tag_ready_build(&mut self, template: &str, build: &str) {
        let Some(record) = self.templates.get_mut(template) else {
            return;
        };
        let Some(ready) = record.builds.get(build).cloned() else {
            return;
        };
        for tag in ready.tags {
            let is_newer = |other: &String| {
                record
                    .builds
                    .get(other)
                    .is_some_and(|other| other.created > ready.created)
            };
            if !record.tags.get(&tag).is_some_and(is_newer) {
                record.tags.insert(tag, build.to_owned());
            }
        }
        record.updated = Timestamp::now();
        self.prune_untagged(template);
    }

    /// Releases the bases of untagged builds, and removes the oldest of these builds.
    pub(crate) fn prune_untagged(&mut self, template: &str) {
        let Some(record) = self.templates.get_mut(template) else {
            return;
        };
        let tagged: BTreeSet<&String> = record.tags.values().collect();
        let mut untagged = Vec::new();
        for (id, build) in &mut record.builds {
            if tagged.contains(id) {
                continue;
            }
            if matches!(build.status, BuildStatus::Ready | BuildStatus::Error) {
                self.leftover.extend(build.base.take());
                untagged.push((build.created, id.clone()));
            }
        }
        untagged.sort();
        for (_, id) in untagged.iter().rev().skip(MAX_UNTAGGED_BUILDS) {
            record.builds.remove(id);
        }
    }

    pub(crate) fn remove_template(&mut self, id: &str) -> Option<TemplateRecord> {
        let removed = self.templates.remove(id)?;
        self.leftover.extend(
            removed
                .builds
                .values()
                .filter_map(|build| build.base.clone()),
        );
        Some(removed)
    }

    pub(crate) fn add_layer(&mut self, key: String, layer: LayerRecord) {
        if let Some(before) = self.layers.insert(key, layer) {
            self.leftover.insert(before.base);
        }
        while self.layers.len() > MAX_LAYERS {
            let Some(oldest) = self
                .layers
                .iter()
                .min_by_key(|(_, layer)| layer.used)
                .map(|(key, _)| key.clone())
            else {
                break;
            };
            self.leftover
                .extend(self.layers.remove(&oldest).map(|layer| layer.base));
        }
    }
}

/// The catalogue file and its contents.
#[derive(Debug)]
pub(crate) struct Catalogue {
    path: PathBuf,
    contents: Mutex<Arc<Contents>>,
    /// Held during a change.
    writer: AsyncMutex<()>,
}

impl Catalogue {
    /// Opens the catalogue. Fails on a file written by a newer version.
    pub(crate) fn open(path: PathBuf) -> Result<Self> {
        let contents = match fs::read(&path) {
            Ok(bytes) => read(&path, &bytes)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Contents::default(),
            Err(error) => return Err(Error::io(format!("read `{}`", path.display()), error)),
        };
        Ok(Self {
            path,
            contents: Mutex::new(Arc::new(contents)),
            writer: AsyncMutex::default(),
        })
    }

    /// Returns the current contents.
    pub(crate) fn view(&self) -> Arc<Contents> {
        Arc::clone(&self.contents.lock_unpoisoned())
    }

    /// Applies a change, which becomes visible once it is on disk.
    pub(crate) async fn change<T, E: From<Error>>(
        &self,
        change: impl FnOnce(&mut Contents) -> Result<T, E>,
    ) -> Result<T, E> {
        let _writer = self.writer.lock().await;
        let mut contents = Contents::clone(&self.view());
        let outcome = change(&mut contents)?;
        let text = serde_json::to_vec(&contents).map_err(|source| {
            Error::internal("catalogue of templates could not be serialised").with_source(source)
        })?;
        let path = self.path.clone();
        match spawn_blocking(move || write(&path, &text)).await {
            Ok(written) => written?,
            Err(error) => {
                return Err(
                    Error::internal("writing the catalogue of templates was interrupted")
                        .with_source(error)
                        .into(),
                );
            }
        }
        *self.contents.lock_unpoisoned() = Arc::new(contents);
        Ok(outcome)
    }
}

fn read(path: &Path, bytes: &[u8]) -> Result<Contents> {
    let unusable = |error: Error| {
        error.with_hint("move the file away to start without templates; their bases are kept")
    };
    let contents: Contents = serde_json::from_slice(bytes).map_err(|source| {
        unusable(
            Error::internal(format!(
                "`{}` is not a catalogue of templates",
                path.display()
            ))
            .with_source(source),
        )
    })?;
    if contents.version > VERSION {
        let message = format!(
            "`{}` was written by a newer version of Sandbar",
            path.display()
        );
        return Err(unusable(Error::new(ErrorCode::InvalidState, message)));
    }
    Ok(contents)
}

fn write(path: &Path, text: &[u8]) -> Result<()> {
    let temporary = path.with_extension("new");
    let save = || {
        let mut file = File::create(&temporary)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    save().map_err(|error| Error::io(format!("write `{}`", path.display()), error))
}
