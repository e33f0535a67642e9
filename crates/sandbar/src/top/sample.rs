//! Samples of a host and its sessions.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use sandbar_client::Client;
use sandbar_core::{
    Capabilities, Error, ErrorCode, Health, NetworkStatus, ProcessInfo, Result, SessionFilter,
    SessionId, SessionInfo,
};

use crate::client::connection::ConnectionOptions;

/// Timeout for the host to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Time between the first two samples; CPU usage is known after the second.
pub(crate) const FIRST_INTERVAL: Duration = Duration::from_millis(300);

/// Connection to a host, with its capabilities.
#[derive(Clone, Debug)]
pub(crate) struct Connected {
    pub(crate) client: Client,
    pub(crate) capabilities: Capabilities,
}

impl Connected {
    async fn open(connection: &ConnectionOptions) -> Result<Self> {
        let client = connection.connect().await?;
        let capabilities = client.capabilities().await?;
        Ok(Self {
            client,
            capabilities,
        })
    }
}

/// One sample.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) taken: Instant,
    pub(crate) health: Health,
    pub(crate) sessions: Vec<SessionInfo>,
    /// Details of the requested session, if it exists.
    pub(crate) details: Option<Details>,
}

/// Details of one session.
#[derive(Clone, Debug)]
pub(crate) struct Details {
    pub(crate) processes: Vec<ProcessInfo>,
    pub(crate) network: NetworkStatus,
}

/// Takes a sample, and connects first without a connection. Returns the connection for the next
/// one.
pub(crate) async fn fetch(
    connection: ConnectionOptions,
    connected: Option<Connected>,
    details: Option<SessionId>,
) -> Result<(Connected, Sample)> {
    let query = async {
        let connected = match connected {
            Some(connected) => connected,
            None => Connected::open(&connection).await?,
        };
        let client = &connected.client;
        let filter = SessionFilter {
            with_usage: true,
            ..SessionFilter::default()
        };
        let (health, sessions) = tokio::try_join!(client.health(), client.all_sessions(&filter))?;
        let taken = Instant::now();
        let details = match details {
            // A session that was destroyed has no details.
            Some(id) => tokio::try_join!(client.list_processes(&id), client.get_network(&id))
                .ok()
                .map(|(processes, network)| Details { processes, network }),
            None => None,
        };
        Ok((
            connected,
            Sample {
                taken,
                health,
                sessions,
                details,
            },
        ))
    };
    tokio::time::timeout(ANSWER_TIMEOUT, query)
        .await
        .unwrap_or_else(|_| {
            Err(Error::new(
                ErrorCode::Timeout,
                format!("no answer within {} s", ANSWER_TIMEOUT.as_secs()),
            )
            .with_hint("the host may be overloaded or stopped; read the output of `sandbar up`"))
        })
}

/// The last two samples of a host.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    pub(crate) url: String,
    pub(crate) capabilities: Capabilities,
    pub(crate) now: Sample,
    before: Option<Sample>,
}

impl Observed {
    /// Connects and takes the first sample.
    pub(crate) async fn begin(connection: &ConnectionOptions) -> Result<(Connected, Self)> {
        let (connected, now) = fetch(connection.clone(), None, None).await?;
        let (url, capabilities) = (
            connected.client.url().to_owned(),
            connected.capabilities.clone(),
        );
        Ok((
            connected,
            Self {
                url,
                capabilities,
                now,
                before: None,
            },
        ))
    }

    /// Takes two samples, so that CPU usage is known.
    pub(crate) async fn twice(connection: &ConnectionOptions) -> Result<Self> {
        let (connected, mut observed) = Self::begin(connection).await?;
        tokio::time::sleep(FIRST_INTERVAL).await;
        let (connected, now) = fetch(connection.clone(), Some(connected), None).await?;
        observed.take(&connected, now);
        Ok(observed)
    }

    pub(crate) fn take(&mut self, connected: &Connected, now: Sample) {
        self.capabilities = connected.capabilities.clone();
        connected.client.url().clone_into(&mut self.url);
        self.before = Some(std::mem::replace(&mut self.now, now));
    }

    /// Returns the CPU usage of sessions between the two samples, where known; 1.0 is one CPU.
    pub(crate) fn cpu_shares(&self) -> HashMap<&SessionId, f64> {
        let Some(before) = &self.before else {
            return HashMap::new();
        };
        let used = |session: &SessionInfo| session.usage.and_then(|usage| usage.cpu_time);
        let earlier: HashMap<_, _> = before
            .sessions
            .iter()
            .filter_map(|session| Some((&session.id, used(session)?)))
            .collect();
        let elapsed = self.now.taken.duration_since(before.taken).as_secs_f64();
        let share = |session| {
            // A restarted box counts from zero again, so the difference may be negative.
            let spent = used(session)?.checked_sub(*earlier.get(&session.id)?)?;
            Some((&session.id, spent.as_secs_f64() / elapsed))
        };
        self.now.sessions.iter().filter_map(share).collect()
    }
}

#[cfg(test)]
impl Observed {
    /// Returns two samples, one second apart.
    pub(crate) fn for_test(sessions: Vec<SessionInfo>, cpu: &[(&str, Duration)]) -> Self {
        use sandbar_core::{ByteCount, Capability, HealthStatus, RuntimeKind, StorageKind};

        let health = Health {
            status: HealthStatus::Healthy,
            reasons: Vec::new(),
            pool_state: "ONLINE".to_owned(),
            space_total: ByteCount::gib(4),
            space_available: ByteCount::gib(3),
            sessions: sessions.len() as u64,
            active_commands: 2,
            active_tools: 0,
            recent_errors: Vec::new(),
            uptime: Duration::from_secs(90),
        };
        let yes = || Capability::Yes;
        let capabilities = Capabilities {
            storage: StorageKind::Btrfs,
            runtime: RuntimeKind::Native,
            isolation: "walls".to_owned(),
            snapshots: yes(),
            rollback: yes(),
            keep_later: yes(),
            fork: yes(),
            quota: yes(),
            constant_time_snapshots: yes(),
            layered: yes(),
            pause: yes(),
            checkpoint: yes(),
            limits: yes(),
            network: yes(),
            users: yes(),
            root_rights: yes(),
        };
        let taken = Instant::now();
        let before = Sample {
            taken,
            health: health.clone(),
            sessions: sessions.clone(),
            details: None,
        };
        let mut now = Sample {
            taken: taken + Duration::from_secs(1),
            health,
            sessions,
            details: None,
        };
        for session in &mut now.sessions {
            let more = cpu
                .iter()
                .find(|(id, _)| *id == session.id.as_str())
                .map_or(Duration::ZERO, |(_, more)| *more);
            if let Some(usage) = &mut session.usage {
                usage.cpu_time = usage.cpu_time.map(|time| time + more);
            }
        }
        Self {
            url: "http://127.0.0.1:9100".to_owned(),
            capabilities,
            now,
            before: Some(before),
        }
    }
}
