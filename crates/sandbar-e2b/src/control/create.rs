//! Creating sandboxes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use sandbar_core::{ByteCount, ErrorCode, Need, Resources, SessionId, SessionSpec};
use serde_json::Value;

use super::{
    Control, errors::with_e2b_fields, idempotency::id_by_key, network::NetworkPlan, not_offered,
};
use crate::{
    auth::ApiCaller,
    ingress_domain::IngressDomain,
    interpreter,
    rest::{ApiError, ApiResult, Fields, Json, bad_request, seconds},
    sandboxes::{NetworkConfig, SandboxNote, Template, end_after, is_present},
};

type Created = (StatusCode, Json<Value>);

/// Differences between the two versions of the call.
struct Version {
    default_timeout: Duration,
    min_timeout: i64,
}

const FIRST: Version = Version {
    default_timeout: Duration::from_secs(15),
    min_timeout: 0,
};
const SECOND: Version = Version {
    default_timeout: Duration::from_mins(5),
    min_timeout: 1,
};

pub(super) async fn first_version(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    Extension(domain): Extension<IngressDomain>,
    headers: HeaderMap,
    fields: Fields,
) -> ApiResult<Created> {
    create(&control, (&caller, &domain), &headers, fields, &FIRST).await
}

pub(super) async fn second_version(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    Extension(domain): Extension<IngressDomain>,
    headers: HeaderMap,
    fields: Fields,
) -> ApiResult<Created> {
    create(&control, (&caller, &domain), &headers, fields, &SECOND).await
}

async fn create(
    control: &Arc<Control>,
    (caller, domain): (&ApiCaller, &IngressDomain),
    headers: &HeaderMap,
    mut fields: Fields,
    version: &Version,
) -> ApiResult<Created> {
    caller.require(Need::Admin)?;
    let fingerprint = fields.fingerprint();
    let request = NewSandbox::read(&mut fields, version)?;
    let Some(id) = id_by_key(headers, caller)? else {
        return control
            .create_sandbox(&SessionId::random(), request, domain)
            .await;
    };
    // A concurrent request with the same key waits for the first.
    let _lock = control.sandboxes.lock(&id).await;
    match control.created_before(&id, &fingerprint, domain).await? {
        Some(created) => Ok(created),
        None => {
            control
                .create_sandbox(
                    &id,
                    NewSandbox {
                        fingerprint: Some(fingerprint),
                        ..request
                    },
                    domain,
                )
                .await
        }
    }
}

/// Parsed create request.
#[expect(clippy::struct_excessive_bools, reason = "options of the E2B API")]
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
    /// The sandbox is to have E2B's MCP gateway.
    mcp: bool,
    fingerprint: Option<String>,
}

impl NewSandbox {
    fn read(fields: &mut Fields, version: &Version) -> ApiResult<Self> {
        if fields.has("volumeMounts") {
            return Err(not_offered::refuse("`volumeMounts` (volumes)"));
        }
        if fields.has("sidecars") {
            return Err(not_offered::refuse("`sidecars`"));
        }
        if fields.object("iam")?.is_some_and(|iam| iam.has("tokens")) {
            return Err(not_offered::refuse("`iam` (workload identity)"));
        }
        let timeout = seconds::take(fields, "timeout", version.min_timeout)?
            .unwrap_or(version.default_timeout);
        let request = Self {
            template: fields.require("templateID")?,
            // Zero means that the sandbox expires at once; a session needs a positive lifetime.
            timeout: timeout.max(Duration::from_millis(1)),
            metadata: fields.take("metadata")?.unwrap_or_default(),
            env: fields.take("envVars")?.unwrap_or_default(),
            auto_pause: fields.take("autoPause")?.unwrap_or(false),
            keep_memory: fields.take("autoPauseMemory")?.unwrap_or(true),
            auto_resume: auto_resume(fields)?,
            // Secure by default: every SDK sends the token once it has one.
            secure: fields.take("secure")?.unwrap_or(true),
            internet: fields.take("allow_internet_access")?,
            network: NetworkConfig::read(fields)?,
            mcp: fields.has("mcp"),
            fingerprint: None,
        };
        request.check()?;
        Ok(request)
    }

    fn check(&self) -> ApiResult<()> {
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
        if !self.secure
            && self
                .network
                .as_ref()
                .is_some_and(|network| !network.is_public())
        {
            return Err(bad_request(
                "`network.allowPublicTraffic: false` needs `secure`: you cannot create a sandbox without public access \
                 unless you enable secure envd access via 'secure' flag",
            ));
        }
        Ok(())
    }

    /// Returns the note of the new sandbox.
    fn note(&self, template: Template) -> ApiResult<SandboxNote> {
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

/// Reads `autoResume`: `{"enabled": true}`, or `{"policy": "any"}` from SDKs around 2.14.
fn auto_resume(fields: &mut Fields) -> ApiResult<bool> {
    let Some(mut config) = fields.object("autoResume")? else {
        return Ok(false);
    };
    let policy = config.take::<String>("policy")?;
    Ok(config
        .take("enabled")?
        .unwrap_or(policy.as_deref() == Some("any")))
}

impl Control {
    async fn create_sandbox(
        self: &Arc<Self>,
        id: &SessionId,
        request: NewSandbox,
        domain: &IngressDomain,
    ) -> ApiResult<Created> {
        let ceilings = self.sandboxes.ceilings;
        ceilings.check_secure(request.secure)?;
        let mut network = request.network.clone().unwrap_or_default();
        let mut internet = request.internet;
        ceilings.lower(&mut network, &mut internet);
        // Settings that were neither sent nor lowered stay absent.
        let is_lowered = request.network.is_some() || network != NetworkConfig::default();
        let request = NewSandbox {
            network: is_lowered.then_some(network),
            internet,
            ..request
        };
        let template = self.find_template(&request).await?;
        let base = template.base.clone();
        let note = request.note(template)?;
        let network = request.network.unwrap_or_default();
        let plan = NetworkPlan::new(id, &network, request.internet)?;
        ceilings.check(&plan.policy)?;
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
            root_rights: self.sandboxes.root_rights(),
            workspace_user: Some(note.user.clone()),
            ..SessionSpec::new(base)
        };
        self.put_secrets(&plan.secrets).await?;
        let created = match self.host.create_session(spec).await {
            Ok(_) => self.sandboxes.put_note(id, &note).await,
            Err(error) => Err(error),
        };
        if let Err(error) = created {
            self.delete_secrets(id, &[]).await;
            return Err(with_e2b_fields(error));
        }
        if let Some(start) = &note.start {
            self.sandboxes.start_program(id, start).await;
        }
        let handle = self.handle(id, &note, domain).await?;
        interpreter::start_ahead(&self.interpreters, id, &note);
        Ok((StatusCode::CREATED, Json(handle)))
    }

    /// Finds the snapshot or template to create the sandbox from. For `mcp`, SDKs start the gateway
    /// themselves and rely on a template that has it.
    async fn find_template(&self, request: &NewSandbox) -> ApiResult<Template> {
        if let Some(snapshot) = self.sandboxes.snapshot_template(&request.template).await? {
            return Ok(snapshot);
        }
        let found = self.templates.resolve(&request.template).await;
        found.map_err(|error| {
            if request.mcp {
                not_offered::refuse("`mcp`, whose template `mcp-gateway` is E2B's own,")
            } else {
                error
            }
        })
    }

    /// Returns the sandbox that an earlier request with the same key created.
    async fn created_before(
        &self,
        id: &SessionId,
        fingerprint: &str,
        domain: &IngressDomain,
    ) -> ApiResult<Option<Created>> {
        match self.host.get_session(id).await {
            Ok(session) if is_present(session.state) => {}
            Err(error) if error.code() != ErrorCode::SessionNotFound => return Err(error.into()),
            _ => return Ok(None),
        }
        let note = self.sandboxes.note(id).await?;
        // A host that was killed between the two steps has created the session without a note.
        if note
            .request
            .as_deref()
            .is_some_and(|request| request != fingerprint)
        {
            let why =
                "`Idempotency-Key` was used for another request (use a new key for every sandbox)";
            return Err(ApiError::new(StatusCode::CONFLICT, why));
        }
        Ok(Some((
            StatusCode::CREATED,
            Json(self.handle(id, &note, domain).await?),
        )))
    }
}
