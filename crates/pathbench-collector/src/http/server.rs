//! The accept loop: connections within bounds, TLS, deadlines, and a graceful end.

use super::metrics::{Metrics, Refused};
use super::write_deadline::WriteDeadline;
use crate::log::Log;
use axum::Router;
use axum::extract::Request;
use axum::http::HeaderMap;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use pathbench_record::network::Client;
use serde_json::json;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

/// Time for the TLS handshake, and for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// Time for a request and its answer. Only downloads of large answers last longer.
const REQUEST_TIME: Duration = Duration::from_secs(240);

/// The longest time of a connection.
const CONNECTION_TIME: Duration = Duration::from_secs(1200);

/// The longest head of a request.
const HEAD_BYTES: usize = 16 << 10;

/// Time for requests in progress after the signal to end.
const GRACE: Duration = Duration::from_secs(20);

/// The client of a request.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

/// The parts that all connections share.
#[derive(Clone)]
pub struct Service {
    pub tls: Option<TlsAcceptor>,
    pub router: Router,
    pub acceptance: Arc<Acceptance>,
    /// Becomes true at the end.
    pub stopping: watch::Receiver<bool>,
    pub log: Log,
    pub metrics: Arc<Metrics>,
}

/// The bounds of connections, and their proxies.
#[derive(Debug)]
pub struct Acceptance {
    pub max_connections: usize,
    /// Of one client, an IPv4 address or an IPv6 /64.
    pub max_connections_per_client: usize,
    /// Proxies whose `X-Forwarded-For` names the client.
    pub trusted_proxies: Vec<IpAddr>,
}

/// Connections by client; a slot is released by its drop.
#[derive(Debug)]
struct Connections {
    metrics: Arc<Metrics>,
    all: AtomicUsize,
    by_client: Mutex<HashMap<Client, usize>>,
}

#[derive(Debug)]
struct Slot {
    connections: Arc<Connections>,
    client: Client,
}

impl Connections {
    fn slot(self: &Arc<Self>, address: IpAddr, acceptance: &Acceptance) -> Result<Slot, Refused> {
        let client = Client::from(address);
        if self.all.load(Ordering::SeqCst) >= acceptance.max_connections {
            return Err(Refused::Connections);
        }
        let mut by_client = self.by_client.lock().unwrap_or_else(PoisonError::into_inner);
        let of_client = by_client.entry(client).or_insert(0);
        // A proxy carries the connections of all clients.
        let is_proxy = acceptance.trusted_proxies.contains(&address.to_canonical());
        if !is_proxy && *of_client >= acceptance.max_connections_per_client {
            return Err(Refused::Client);
        }
        *of_client += 1;
        self.all.fetch_add(1, Ordering::SeqCst);
        self.metrics.connection_opened();
        Ok(Slot { connections: Arc::clone(self), client })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut by_client = self.connections.by_client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = by_client.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                by_client.remove(&self.client);
            }
        }
        self.connections.all.fetch_sub(1, Ordering::SeqCst);
        self.connections.metrics.connection_closed();
    }
}

/// Serves until the end; then it ends the requests in progress.
pub async fn serve(listener: TcpListener, mut service: Service) {
    let (all, by_client) = (AtomicUsize::new(0), Mutex::default());
    let connections = Arc::new(Connections { metrics: Arc::clone(&service.metrics), all, by_client });
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = service.stopping.wait_for(|stopping| *stopping) => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // EMFILE is the most likely error.
                service.log.error("accept", json!({ "error": error.to_string() }));
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let slot = match connections.slot(peer.ip(), &service.acceptance) {
            Ok(slot) => slot,
            Err(reason) => {
                service.metrics.count_refused(reason);
                continue;
            }
        };
        let service = service.clone();
        tokio::spawn(async move {
            // An error of a connection is its client's alone.
            let _ = connection(stream, peer, service).await;
            drop(slot);
        });
    }
    drop(listener);
    let idle = async {
        while connections.all.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let _ = tokio::time::timeout(GRACE, idle).await;
}

async fn connection(stream: TcpStream, peer: SocketAddr, service: Service) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let Some(tls) = service.tls.clone() else { return requests(stream, peer, service).await };
    let shaken = tokio::time::timeout(HEAD_TIME, tls.accept(stream)).await;
    let shaken = shaken.unwrap_or_else(|elapsed| Err(elapsed.into()));
    let stream = shaken.inspect_err(|_| service.metrics.count_refused(Refused::Tls))?;
    requests(stream, peer, service).await
}

async fn requests(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    service: Service,
) -> io::Result<()> {
    let Service { router, acceptance, mut stopping, metrics, .. } = service;
    let stream = WriteDeadline::new(stream, Arc::clone(&metrics));
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        let client = client_address(peer.ip(), request.headers(), &acceptance.trusted_proxies);
        request.extensions_mut().insert(Peer(client));
        let (router, metrics) = (router.clone(), Arc::clone(&metrics));
        async move {
            let answer = router.oneshot(request.map(axum::body::Body::new));
            if let Ok(answer) = tokio::time::timeout(REQUEST_TIME, answer).await {
                return answer.map_err(|never| match never {});
            }
            metrics.count_refused(Refused::Time);
            Err(io::Error::from(io::ErrorKind::TimedOut))
        }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES.max(8192));
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let longest = tokio::time::sleep(CONNECTION_TIME);
    tokio::pin!(longest);
    loop {
        tokio::select! {
            ended = connection.as_mut() => return ended.map_err(io::Error::other),
            () = longest.as_mut() => return Ok(()),
            _ = stopping.wait_for(|stopping| *stopping), if !*stopping.borrow() => {
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// The peer; of a trusted proxy the last address in `X-Forwarded-For` that is none.
fn client_address(peer: IpAddr, headers: &HeaderMap, proxies: &[IpAddr]) -> IpAddr {
    let peer = peer.to_canonical();
    if !proxies.contains(&peer) {
        return peer;
    }
    let forwarded = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
    let addresses: Vec<&str> = forwarded.flat_map(|value| value.split(',')).collect();
    let mut addresses = addresses.iter().rev().map_while(|text| text.trim().parse::<IpAddr>().ok());
    addresses.find(|address| !proxies.contains(&address.to_canonical())).unwrap_or(peer).to_canonical()
}
