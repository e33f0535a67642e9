//! Making sandboxes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use sandbar_core::{ByteCount, ErrorCode, Need, Resources, RootRights, SessionId, SessionSpec};
use serde_json::Value;

use super::{
    Answer,
    fields::{Fields, bad_request},
    idempotency::id_by_key,
    in_their_words,
    network::{NetworkConfig, NetworkPlan},
    not_offered, seconds,
    template::Template,
};
use crate::{
    answer::ControlError,
    interpreter,
    json::Json,
    keys::Holder,
    reach::Reach,
    sandbox::SandboxNote,
    surface::Surface,
    wake::{end_after, is_there},
};

type Created = (StatusCode, Json<Value>);

/// What the two versions of the call differ in.
struct Version {
    default_timeout: Duration,
    least_timeout: i64,
}

const FIRST: Version = Version { default_timeout: Duration::from_secs(15), least_timeout: 0 };
const SECOND: Version = Version { default_timeout: Duration::from_mins(5), least_timeout: 1 };

pub(super) async fn first_version(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Extension(reach): Extension<Reach>,
    headers: HeaderMap,
    fields: Fields,
) -> Answer<Created> {
    create(&surface, (&holder, &reach), &headers, fields, &FIRST).await
}

pub(super) async fn second_version(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Extension(reach): Extension<Reach>,
    headers: HeaderMap,
    fields: Fields,
) -> Answer<Created> {
    create(&surface, (&holder, &reach), &headers, fields, &SECOND).await
}

async fn create(
    surface: &Arc<Surface>,
    (holder, reach): (&Holder, &Reach),
    headers: &HeaderMap,
    mut fields: Fields,
    version: &Version,
) -> Answer<Created> {
    holder.require(Need::Admin)?;
    let fingerprint = fields.fingerprint();
    let request = NewSandbox::read(&mut fields, version)?;
    let Some(id) = id_by_key(headers, holder)? else {
        return surface.make(&SessionId::random(), request, reach).await;
    };
    // Whoever sends the same request at the same time waits for the first.
    let _turn = surface.turns.take(&id).await;
    match surface.made_before(&id, &fingerprint, reach).await? {
        Some(made) => Ok(made),
        None => surface.make(&id, NewSandbox { fingerprint: Some(fingerprint), ..request }, reach).await,
    }
}

/// A request for a sandbox.
#[expect(clippy::struct_excessive_bools, reason = "what E2B asks about a sandbox")]
#[derive(Debug)]
struct NewSandbox {
    template: String,
    timeout: Duration,
    metadata: BTreeMap<String, String>,
    env: BTreeMap<String, String>,
    auto_pause: bool,
    keep_memory: bool,
    auto_resume: bool,
    secure: bool,
    internet: Option<bool>,
    network: Option<NetworkConfig>,
    /// It is to have the MCP gateway.
    mcp: bool,
    fingerprint: Option<String>,
}

impl NewSandbox {
    fn read(fields: &mut Fields, version: &Version) -> Answer<Self> {
        if fields.has("volumeMounts") {
            return Err(not_offered::refuse("`volumeMounts` (volumes)"));
        }
        if fields.has("sidecars") {
            return Err(not_offered::refuse("`sidecars`"));
        }
        if fields.object("iam")?.is_some_and(|iam| iam.has("tokens")) {
            return Err(not_offered::refuse("`iam` (workload identity)"));
        }
        let timeout = seconds::take(fields, "timeout", version.least_timeout)?.unwrap_or(version.default_timeout);
        let request = Self {
            template: fields.require("templateID")?,
            // A time of zero is up at once, and a session has to have some.
            timeout: timeout.max(Duration::from_millis(1)),
            metadata: fields.take("metadata")?.unwrap_or_default(),
            env: fields.take("envVars")?.unwrap_or_default(),
            auto_pause: fields.take("autoPause")?.unwrap_or(false),
            keep_memory: fields.take("autoPauseMemory")?.unwrap_or(true),
            auto_resume: auto_resume(fields)?,
            // Who says nothing gets a token, which every SDK sends when it has one.
            secure: fields.take("secure")?.unwrap_or(true),
            internet: fields.take("allow_internet_access")?,
            network: NetworkConfig::read(fields)?,
            mcp: fields.has("mcp"),
            fingerprint: None,
        };
        request.check()?;
        Ok(request)
    }

    fn check(&self) -> Answer<()> {
        if self.template.is_empty() {
            return Err(bad_request(
                "`templateID` is empty; use `base`, the id of a snapshot or the name of a template",
            ));
        }
        if self.auto_resume && !self.keep_memory {
            return Err(bad_request(
                "`autoResume` and `autoPauseMemory: false` exclude each other: a request would lose what ran in the sandbox \
                 (leave one out, and resume with `Sandbox.connect`)",
            ));
        }
        if !self.secure && self.network.as_ref().is_some_and(|network| !network.is_public()) {
            return Err(bad_request(
                "`network.allowPublicTraffic: false` needs `secure`: you cannot create a sandbox without public access \
                 unless you enable secure envd access via 'secure' flag",
            ));
        }
        Ok(())
    }

    /// What E2B knows of the sandbox.
    fn note(&self, template: Template) -> Answer<SandboxNote> {
        let mut env = template.defaults.env;
        env.extend(self.env.clone());
        Ok(SandboxNote {
            template: template.id,
            alias: template.alias,
            secure: self.secure,
            auto_pause: self.auto_pause,
            auto_resume: self.auto_resume,
            keep_memory: self.keep_memory,
            env,
            paused: None,
            timeout: Some(self.timeout.as_secs()),
            end_at: Some(end_after(self.timeout)?),
            internet: self.internet,
            network: self.network.clone(),
            request: self.fingerprint.clone(),
            ..template.defaults
        })
    }
}

/// `{"enabled": true}`; SDKs around 2.14 wrote `{"policy": "any"}`.
fn auto_resume(fields: &mut Fields) -> Answer<bool> {
    let Some(mut config) = fields.object("autoResume")? else { return Ok(false) };
    let policy = config.take::<String>("policy")?;
    Ok(config.take("enabled")?.unwrap_or(policy.as_deref() == Some("any")))
}

impl Surface {
    async fn make(self: &Arc<Self>, id: &SessionId, request: NewSandbox, reach: &Reach) -> Answer<Created> {
        let template = self.choose(&request).await?;
        let base = template.base.clone();
        let note = request.note(template)?;
        let network = request.network.unwrap_or_default();
        let plan = NetworkPlan::new(id, &network, request.internet)?;
        let resources = Resources {
            cpus: note.cpu_count.map(f64::from),
            memory: note.memory_mb.map(|mib| ByteCount::mib(u64::from(mib))),
            ..Resources::default()
        };
        let spec = SessionSpec {
            id: Some(id.clone()),
            labels: request.metadata,
            env: note.env.clone(),
            resources,
            time_to_live: Some(request.timeout),
            on_expiry: note.on_expiry(),
            network: Some(plan.policy),
            root_rights: self.root_rights(),
            workspace_user: Some(note.user.clone()),
            ..SessionSpec::new(base)
        };
        self.put_secrets(&plan.secrets).await?;
        let made = match self.host.create_session(spec).await {
            Ok(_) => self.keep_note(id, &note).await,
            Err(error) => Err(error),
        };
        if let Err(error) = made {
            self.forget_secrets(id, &[]).await;
            return Err(in_their_words(error));
        }
        if let Some(start) = &note.start {
            self.start_program(id, start).await;
        }
        let handle = self.handle(id, &note, reach).await?;
        interpreter::start_ahead(self, id, note);
        Ok((StatusCode::CREATED, Json(handle)))
    }

    /// What a sandbox is made from: a snapshot, or a template. SDKs start the MCP gateway in the sandbox themselves, from a
    /// template that has it.
    async fn choose(&self, request: &NewSandbox) -> Answer<Template> {
        if let Some(snapshot) = self.snapshot_template(&request.template).await? {
            return Ok(snapshot);
        }
        let found = self.template(&request.template).await;
        found.map_err(|error| {
            if request.mcp { not_offered::refuse("`mcp`, whose template `mcp-gateway` is E2B's own,") } else { error }
        })
    }

    /// In sandboxes of E2B `sudo` and package managers work; here where the host can give them that.
    pub(crate) fn root_rights(&self) -> RootRights {
        if self.host.capabilities().root_rights.is_yes() { RootRights::Own } else { RootRights::Bare }
    }

    /// The sandbox an earlier request with the same key has made.
    async fn made_before(&self, id: &SessionId, fingerprint: &str, reach: &Reach) -> Answer<Option<Created>> {
        match self.host.get_session(id).await {
            Ok(session) if is_there(session.state) => {}
            Err(error) if error.code() != ErrorCode::SessionNotFound => return Err(error.into()),
            _ => return Ok(None),
        }
        let note = self.note(id).await?;
        // A host that was killed between the two steps has made the session and written no note.
        if note.request.as_deref().is_some_and(|request| request != fingerprint) {
            let why = "`Idempotency-Key` was used for another request (use a new key for every sandbox)";
            return Err(ControlError::new(StatusCode::CONFLICT, why));
        }
        Ok(Some((StatusCode::CREATED, Json(self.handle(id, &note, reach).await?))))
    }
}
