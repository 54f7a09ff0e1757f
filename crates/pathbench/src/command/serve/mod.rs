//! `pathbench serve`: the test server, from its command line to its shutdown.

pub(crate) use arguments::ServeArgs;
use arguments::{LimitArgs, ServeCommand};
use heartbeat::{Description, Heartbeat};
use log::{PanicCount, ServerLog};
use pathbench_api::name::Name;
use pathbench_host::counters::KernelCounters;
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::{output, random, signals};
use pathbench_record::end::MPTCP_COUNTERS;
use pathbench_record::file;
use pathbench_record::time::{Clock, SharedClock, WallClock};
use pathbench_traffic::server::{
    Access, CounterReader, Server, ServerLimits, ServerOptions, ServerStartError,
};
use pathbench_traffic::token::{Audience, TokenKey};
use pathbench_transport::{BindError, ServerIdentity};
use renewal::{CertificateRenewal, RevocationFile};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

mod arguments;
mod health;
mod heartbeat;
mod listeners;
mod log;
mod renewal;

/// Interval of the per-path samples in the server's records.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

/// Interval between checks during the shutdown.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Time for clients to fetch their records after the last test.
const FETCH_TIME: Duration = Duration::from_secs(3);

/// Maximum time of a test beyond its duration.
const OVERTIME: Duration = Duration::from_secs(60);

pub(crate) fn serve(args: &ServeArgs, clock: &SharedClock) -> Result<Exit, Failure> {
    match &args.command {
        None => run(args, clock),
        Some(ServeCommand::Key { file }) => make_key(file),
        Some(ServeCommand::Token { key, valid, name }) => {
            make_token(key, valid.0, name, clock.unix_seconds())
        }
        Some(ServeCommand::Certificate { cert, key, names }) => make_certificate(cert, key, names),
    }
}

fn run(args: &ServeArgs, clock: &SharedClock) -> Result<Exit, Failure> {
    let (access, mut revocations) = access(args, clock)?;
    let addresses = listeners::ListenAddresses::select(args)?;
    let (identity, mut renewal) = identity(args, &addresses)?;
    let fingerprint = identity.fingerprint();
    // A connection uses two descriptors; a soft limit of 1024 would be reached before --max-connections.
    raise_descriptor_limit();
    let (signal, signals) = channel();
    let reload = signals::reload_flag();
    signals::on_service_signal(move || {
        // The receiver lives until the process ends.
        let _ = signal.send(());
    });
    let log = Arc::new(ServerLog::new(args, clock));
    let panics = PanicCount::start(&log);
    if let Some(lack) = &addresses.lack {
        log.notice(&format!("serving tcp without mptcp: {lack}"));
    }
    let limits = limits(&args.limits);
    let longest = limits.max_duration + OVERTIME;
    let options = ServerOptions {
        limits,
        access,
        identity: Some(Arc::clone(&identity)),
        sample_interval: SAMPLE_INTERVAL,
        mptcp_counters: Some(CounterReader(Arc::new(mptcp_counters))),
        ..ServerOptions::new(addresses.listeners.clone())
    };
    let observer = Arc::clone(&log);
    let server = Server::start_observed(options, Arc::<dyn WallClock>::clone(clock), observer)
        .map_err(start_failure)?;
    let server = Arc::new(server);
    let health = args.health.map(|address| health::start(address, &server, panics)).transpose()?;
    let description =
        Description { addresses: server.addresses().to_vec(), quic_ports: args.quic_ports.clone(), identity };
    let key = args.token_key.as_deref().map(token_key).transpose()?;
    let heartbeat = Heartbeat::start(&args.report, key, description, &server, &log, clock)?;
    output::print(&listeners::announcement(args, server.addresses(), fingerprint))?;
    let failure = await_end(&server, &signals, || {
        let is_requested = reload.swap(false, Ordering::Relaxed);
        if let Some(renewal) = &mut renewal {
            renewal.check(is_requested, clock.now(), &log);
        }
        if let Some(revocations) = &mut revocations {
            revocations.check(is_requested, clock.now(), &log);
        }
    });
    wind_down(&server, &signals, &log, clock.as_ref(), longest);
    drop(heartbeat);
    drop(health);
    drop(server);
    log.notice("stopped");
    failure.map_or(Ok(Exit::Done), Err)
}

/// The MPTCP counters of this network namespace that a server reports to its clients.
fn mptcp_counters() -> Option<BTreeMap<String, u64>> {
    let counters = KernelCounters::read().ok()?;
    let value = |name: &str| u64::try_from(counters.get(&format!("MPTcpExt.{name}"))?).ok();
    Some(MPTCP_COUNTERS.iter().filter_map(|name| Some(((*name).to_owned(), value(name)?))).collect())
}

/// Waits for a signal or for a failed listener. After a failure the other listeners finish their tests, and the exit
/// code makes a service manager restart the server.
fn await_end(server: &Server, signals: &Receiver<()>, mut meanwhile: impl FnMut()) -> Option<Failure> {
    loop {
        meanwhile();
        match signals.recv_timeout(CHECK_INTERVAL) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Some((transport, address)) = server.status().failed.first() {
            return Some(Failure::failed(format!(
                "{address} accepts no {transport} any more, after a panic"
            )));
        }
    }
}

/// Accepts no new tests and waits for running ones; a second signal ends the wait.
fn wind_down(server: &Server, signals: &Receiver<()>, log: &ServerLog, clock: &dyn Clock, longest: Duration) {
    server.drain();
    let tests = server.status().tests;
    if tests > 0 {
        log.notice(&format!(
            "taking no new tests, waiting for the end of {tests}; another signal ends them now"
        ));
    }
    let begun = clock.now();
    let mut last_test = begun;
    loop {
        let (now, status) = (clock.now(), server.status());
        if status.tests > 0 {
            last_test = now;
        }
        let alone =
            status.tests == 0 && (status.connections == 0 || now.duration_since(last_test) > FETCH_TIME);
        if alone || now.duration_since(begun) > longest {
            return;
        }
        match signals.recv_timeout(CHECK_INTERVAL) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn access(args: &ServeArgs, clock: &SharedClock) -> Result<(Access, Option<RevocationFile>), Failure> {
    if args.report.collector.is_some() && args.token_key.is_none() {
        return Err(Failure::bad_input(
            "--collector: the collector checks the server's reports with its key for tokens: give --token-key FILE",
        ));
    }
    match (&args.token_key, args.open) {
        (Some(file), _) => {
            let key = token_key(file)?;
            let revocations = args.revoked.as_deref().map(RevocationFile::open).transpose()?;
            let revoked = revocations.as_ref().map(RevocationFile::revoked).unwrap_or_default();
            Ok((Access::Token { key, clock: Arc::clone(clock), revoked }, revocations))
        }
        (None, true) => Ok((Access::Open, None)),
        (None, false) => Err(Failure::bad_input(
            "choose the clients: --token-key FILE, for clients with a token \
             (make the key with `pathbench serve key FILE`, tokens with `pathbench serve token --key FILE`),\n\
             or --open, for all clients within the limits",
        )),
    }
}

fn token_key(file: &Path) -> Result<TokenKey, Failure> {
    let named = |error: &dyn std::fmt::Display| Failure::bad_input(format!("{}: {error}", file.display()));
    let text = file::read_text_named(file, file::SMALL_FILE_BYTES).map_err(|error| named(&error))?;
    TokenKey::from_text(&text).map_err(|error| named(&error))
}

fn identity(
    args: &ServeArgs,
    addresses: &listeners::ListenAddresses,
) -> Result<(Arc<ServerIdentity>, Option<CertificateRenewal>), Failure> {
    let Some((certificate, key)) = args.cert.as_deref().zip(args.key.as_deref()) else {
        let generated = ServerIdentity::self_signed(&addresses.names()).map_err(Failure::failed)?;
        return Ok((Arc::new(generated), None));
    };
    let (identity, renewal) = CertificateRenewal::open(certificate, key).map_err(Failure::bad_input)?;
    Ok((identity, Some(renewal)))
}

fn limits(args: &LimitArgs) -> ServerLimits {
    let connections = usize::from(args.max_connections);
    ServerLimits {
        max_tests: args.max_tests.into(),
        max_tests_per_client: args.max_tests_per_client.into(),
        max_connections: connections,
        max_connections_per_client: (connections / 4).max(8),
        max_rate_bps: args.max_rate.map(|rate| rate.0),
        max_bytes: Some(args.max_bytes.0),
        max_client_bytes_per_day: args.max_client_bytes_per_day.map(|size| size.0),
        max_bytes_per_day: args.max_bytes_per_day.map(|size| size.0),
        max_duration: args.max_duration.0,
        ..ServerLimits::default()
    }
}

fn start_failure(error: ServerStartError) -> Failure {
    match &error {
        ServerStartError::Bind(BindError::NotALocalAddress { .. }) => Failure::bad_input(error),
        ServerStartError::Bind(BindError::Denied { .. }) => Failure::host_cannot(error),
        _ => Failure::failed(error),
    }
}

fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // If this fails, connections beyond the limit wait in the backlog.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

const SECRET: u32 = 0o600;
const PUBLIC: u32 = 0o644;

pub(super) fn make_key(file: &Path) -> Result<Exit, Failure> {
    output::create_file(file, SECRET, &TokenKey::file_text(random::bytes()))?;
    let file = file.display();
    output::print(&format!(
        "{file}: a key for tokens. Anyone who can read the file can make tokens.\n  \
         pathbench serve token --key {file} --valid 1h\n  pathbench serve --token-key {file}\n"
    ))?;
    Ok(Exit::Done)
}

pub(super) fn make_token(key: &Path, valid: Duration, name: &Name, now_s: u64) -> Result<Exit, Failure> {
    let token = token_key(key)?.mint(Audience::Test, name, random::bytes(), now_s, valid);
    let token = token.map_err(Failure::bad_input)?;
    output::print(&format!("{token}\n"))?;
    Ok(Exit::Done)
}

pub(super) fn make_certificate(cert: &Path, key: &Path, names: &[String]) -> Result<Exit, Failure> {
    let own = [listeners::host_name()];
    let names = if names.is_empty() { &own[..] } else { names };
    let (certificate, private) = ServerIdentity::self_signed_pem(names).map_err(Failure::bad_input)?;
    output::create_file(key, SECRET, &private)?;
    output::create_file(cert, PUBLIC, &certificate)?;
    let identity = ServerIdentity::from_pem_files(cert, key).map_err(Failure::failed)?;
    let (cert, key) = (cert.display(), key.display());
    output::print(&format!(
        "{cert}: a certificate for {}, SHA-256\n  {}\n  pathbench serve --cert {cert} --key {key}\n",
        names.join(", "),
        identity.fingerprint()
    ))?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_record::transport::Transport;
    use pathbench_traffic::server::{ServerEvent, ServerObserver};
    use std::net::{SocketAddr, TcpStream};

    struct Trap;

    impl ServerObserver for Trap {
        fn on_event(&self, event: &ServerEvent<'_>) {
            assert!(!matches!(event, ServerEvent::TooManyConnections { .. }), "on purpose");
        }
    }

    #[test]
    fn the_documented_memory_bound_is_that_of_the_default_limits() {
        #[derive(clap::Parser)]
        struct Defaults {
            #[command(flatten)]
            limits: LimitArgs,
        }
        let defaults: Defaults = clap::Parser::parse_from(["serve"]);
        let bound = limits(&defaults.limits).memory_bound(1);
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let row = format!(
            "| with the default limits | {} MiB | {} MiB |",
            mib(bound.client_bytes),
            mib(bound.server_bytes)
        );
        assert!(include_str!("../../../../../docs/serve.md").contains(&row), "docs/serve.md lacks {row}");
    }

    #[test]
    fn a_listener_that_died_ends_the_server_with_a_failure() {
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let limits = ServerLimits { max_connections: 0, ..ServerLimits::default() };
        let options = ServerOptions { limits, ..ServerOptions::new(vec![(Transport::Tcp, anywhere)]) };
        let clock: Arc<dyn Clock> = Arc::new(pathbench_program::clock::RealClock);
        let server = Server::start_observed(options, Arc::clone(&clock), Arc::new(Trap)).unwrap();
        let address = server.addresses()[0].1;
        let _refused = TcpStream::connect(address).unwrap();
        let (_sender, signals) = channel();
        let failure = await_end(&server, &signals, || {}).unwrap();
        assert_eq!(failure.exit, Exit::Failed);
        assert!(failure.message.contains(&address.to_string()), "{}", failure.message);
        wind_down(&server, &signals, &ServerLog::with_sink(drop), clock.as_ref(), Duration::from_secs(60));
        // A signal ends the server with success.
        let (signal, signals) = channel();
        signal.send(()).unwrap();
        assert!(await_end(&server, &signals, || {}).is_none());
    }
}
