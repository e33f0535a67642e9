//! Fixture: sessions with servers, and requests to them.

use bytes::Bytes;
use http::{Request, request::Builder};
use http_body_util::Full;
use sandbar_core::{
    BaseName, NetworkPolicy, ProcessId, ProcessSpec, Readiness, SessionId, SessionSpec, WaitFor,
    WriteOptions,
};

use crate::{
    raw::{Answer, send},
    world::World,
};

/// Port of servers in sessions.
pub(crate) const PORT: u16 = 8000;

const WEB: &str = include_str!("servers/web.pl");

/// Ingress of a session in an [isolated](World::run_isolated) world: public, or private with a
/// token.
pub(crate) enum Ports {
    Public,
    Private,
}

impl World {
    pub(crate) async fn isolated_session(&self, name: &str, ports: Ports) -> SessionId {
        let mut spec = SessionSpec::new(BaseName::new("host").unwrap());
        spec.id = Some(name.parse().unwrap());
        spec.network = match ports {
            Ports::Public => Some(NetworkPolicy {
                allow_public_ingress: true,
                ..NetworkPolicy::none()
            }),
            Ports::Private => None,
        };
        self.host.create_session(spec).await.unwrap().id
    }

    /// Creates a session with a web server on [`PORT`].
    pub(crate) async fn web_session(&self, name: &str, ports: Ports) -> (SessionId, ProcessId) {
        let id = self.isolated_session(name, ports).await;
        let server = self
            .serve_in(
                &id,
                "web.pl",
                WEB,
                &["perl", "web.pl", &PORT.to_string(), name],
            )
            .await;
        (id, server)
    }

    /// Launches a server on [`PORT`] from a file of a session.
    pub(crate) async fn serve_in(
        &self,
        id: &SessionId,
        file: &str,
        program: &str,
        argv: &[&str],
    ) -> ProcessId {
        let options = WriteOptions {
            create_dirs: true,
            ..WriteOptions::default()
        };
        let mut writer = self
            .host
            .write_file(id, format!("/workspace/{file}").as_ref(), options)
            .await
            .unwrap();
        writer
            .write(Bytes::copy_from_slice(program.as_bytes()))
            .await
            .unwrap();
        writer.commit().await.unwrap();
        let ready = Readiness::Tcp { port: Some(PORT) };
        let spec = ProcessSpec {
            ready,
            ..ProcessSpec::new(argv.iter().copied())
        };
        let process = self.host.launch_process(id, spec).await.unwrap().id;
        self.host
            .wait_process(id, &process, WaitFor::Ready)
            .await
            .unwrap();
        process
    }

    /// Returns the host name of [`PORT`] of a session.
    pub(crate) fn name_of(&self, session: &SessionId) -> String {
        format!("{PORT}-{session}.localhost:{}", self.address.port())
    }

    /// Returns a request to [`PORT`] of a session.
    pub(crate) fn to(&self, session: &SessionId, method: &str, path: &str) -> Builder {
        Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.name_of(session))
    }

    pub(crate) async fn ask(&self, request: Builder) -> Answer {
        send(self.address, request.body(Full::default()).unwrap()).await
    }
}
