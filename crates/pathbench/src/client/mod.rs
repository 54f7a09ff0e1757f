//! This host as the client of tests: the servers, the paths to them and the transports that work.

use crate::arguments::TestServerArguments;
use pathbench_analysis::assembly::{
    AssembledRun, ClientPath, ClockOffset, Evidence, RunSetting, SeenEvent, assemble,
};
use pathbench_analysis::attribution::CarriedBytes;
use pathbench_host::counters::KernelCounters;
use pathbench_host::paths::HostNetwork;
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::random;
use pathbench_record::connection::Scheduler;
use pathbench_record::direction::DataDirection;
use pathbench_record::end::{EndRecord, TestId};
use pathbench_record::network::{AddressFamily, ServerName};
use pathbench_record::pattern::{Amount, PatternParameters, PingParameters, ThroughputParameters};
use pathbench_record::sample::Side;
use pathbench_record::text::duration;
use pathbench_record::time::{Clock, SharedClock, Timestamp, WallClock};
use pathbench_record::transport::{Transport, TransportLabel};
use pathbench_traffic::client::{
    ClientError, ClientOutcome, ClientPlan, PathProbes, PathToProbe, Progress as Transferred, Unobserved,
    fetch_record, run_client,
};
use pathbench_traffic::protocol::RefusalCode;
use pathbench_transport::{LocalPath, QuicOptions, Security, SocketOptions, Trust};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub(crate) mod discovery;
pub(crate) mod network;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A run without progress for this long ends as not completed.
const PATIENCE: Duration = Duration::from_secs(10);
/// The maximum wait for a busy server, and the wait if the server gives no time to retry.
const LONGEST_BUSY_WAIT: Duration = Duration::from_secs(30);
const BUSY_WAIT: Duration = Duration::from_secs(2);
const CLOCK_BYTES: u64 = 1000;
const CLOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// A server at one address, and the paths to it.
#[derive(Debug, Clone)]
pub(crate) struct ServerTarget {
    pub(crate) address: SocketAddr,
    /// The name in the server's certificate.
    pub(crate) host: String,
    /// The initial path first. Empty if the kernel's routes decide.
    pub(crate) paths: Vec<ClientPath>,
    /// Whether the sockets of a transport on one path are bound to the interface of the first of `paths`.
    pub(crate) is_bound: bool,
}

#[derive(Clone)]
pub(crate) struct TestClient {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) arguments: TestServerArguments,
    pub(crate) scheduler: Scheduler,
    pub(crate) congestion: Option<String>,
    /// The interface of the initial path, if the path that the kernel's routes or the user's list put first is dead.
    pub(crate) initial: Arc<OnceLock<String>>,
}

impl TestClient {
    pub(crate) fn new(
        arguments: &TestServerArguments,
        scheduler: Scheduler,
        congestion: Option<String>,
        clock: &SharedClock,
    ) -> Self {
        Self {
            clock: Arc::<dyn WallClock>::clone(clock),
            arguments: arguments.clone(),
            scheduler,
            congestion,
            initial: Arc::default(),
        }
    }

    /// The current paths to `address`, over the interfaces that the user named.
    pub(crate) fn paths_to(&self, address: SocketAddr) -> Result<Vec<ClientPath>, String> {
        let network = HostNetwork::read().map_err(|error| error.to_string())?;
        let mut paths = network.paths_over(&self.arguments.server.interfaces, address)?;
        if let Some(initial) = self.initial.get() {
            paths.sort_by_key(|path| path.interface != *initial);
        }
        Ok(paths)
    }

    pub(crate) fn plan(
        &self,
        transport: Transport,
        target: &ServerTarget,
        parameters: PatternParameters,
    ) -> ClientPlan {
        let first = target.paths.first();
        let local = first.and_then(|path| path.addresses.first().copied());
        // The kernel binds additional subflows to the interface of the mptcp socket as well.
        let named = !self.arguments.server.interfaces.is_empty();
        let bind = (target.is_bound || named) && !transport.is_multipath();
        let congestion = self.congestion.as_deref().map(|name| known_as(transport, name).to_owned());
        ClientPlan {
            local: local.filter(|local| local.is_ipv4() == target.address.is_ipv4()),
            interface: first.filter(|_| bind).map(|path| path.interface.clone()),
            socket: SocketOptions { congestion, ..SocketOptions::default() },
            security: self.security(transport, &target.host),
            quic: QuicOptions {
                paths: target.paths.iter().map(local_path).collect(),
                scheduler: self.scheduler.clone(),
                ..QuicOptions::default()
            },
            token: self.arguments.server.token.clone(),
            patience: PATIENCE,
            connect_timeout: CONNECT_TIMEOUT,
            ..ClientPlan::new(transport, target.address, TestId(random::bytes()), parameters)
        }
    }

    /// Runs a short test in this thread.
    pub(crate) fn run_short(
        &self,
        transport: Transport,
        target: &ServerTarget,
        parameters: PatternParameters,
        timeout: Duration,
    ) -> ClientOutcome {
        let plan = ClientPlan {
            connect_timeout: timeout,
            patience: timeout,
            ..self.plan(transport, target, parameters)
        };
        run_client(&plan, &self.clock, &Unobserved)
    }

    pub(crate) fn security(&self, transport: Transport, host: &str) -> Security {
        if !transport.is_quic() && !self.arguments.tls {
            return Security::Clear;
        }
        Security::Tls(self.trust(host))
    }

    fn trust(&self, host: &str) -> Trust {
        let name = self.arguments.certificate_name.as_deref().unwrap_or(host).to_owned();
        match (&self.arguments.fingerprint, &self.arguments.ca) {
            (Some(fingerprint), _) => Trust::Fingerprint(*fingerprint),
            (None, Some(file)) => Trust::Authorities { file: file.clone(), name },
            (None, None) => Trust::Public { name },
        }
    }

    /// Lets the server prove its identity over tcp with TLS at the address where clear text is to follow.
    pub(crate) fn authenticate(&self, target: &ServerTarget, timeout: Duration) -> Result<(), ClientError> {
        let ping = PingParameters { count: 1, warm_up: 0, timeout, ..PingParameters::default() };
        let plan = ClientPlan {
            security: Security::Tls(self.trust(&target.host)),
            connect_timeout: timeout,
            patience: timeout,
            ..self.plan(Transport::Tcp, target, PatternParameters::Ping(ping))
        };
        run_client(&plan, &self.clock, &Unobserved).error.map_or(Ok(()), Err)
    }

    /// The offset between both clocks, measured by a short exchange in both directions.
    pub(crate) fn compare_clocks(
        &self,
        server: &ServerName,
        endpoints: &BTreeMap<Transport, SocketAddr>,
    ) -> Option<ClockOffset> {
        let (&transport, &address) = endpoints.first_key_value()?;
        let paths = self.paths_to(address).unwrap_or_default();
        let is_bound = self.initial.get().is_some();
        let target = ServerTarget { address, host: server.host.clone(), paths, is_bound };
        let both = ThroughputParameters {
            direction: DataDirection::Both,
            amount: Amount::Bytes(CLOCK_BYTES),
            ..ThroughputParameters::default()
        };
        let outcome = self.run_short(transport, &target, both.into(), CLOCK_TIMEOUT);
        ClockOffset::of_records(&outcome.client, outcome.server.as_ref()?)
    }

    /// A run's setting, including the host's other interfaces, whose names appear in the result.
    pub(crate) fn run_setting(
        &self,
        server: &ServerName,
        pattern: &str,
        parameters: &PatternParameters,
        paths: Vec<ClientPath>,
        network: &HostNetwork,
    ) -> RunSetting {
        RunSetting {
            variant: BTreeMap::new(),
            client: network::CLIENT.to_owned(),
            server: "server".to_owned(),
            server_address: Some(server.to_string()),
            pattern: pattern.to_owned(),
            parameters: parameters.clone(),
            asked: asked_parameters(pattern, parameters),
            mptcp: network::path_manager_setup(&paths, network),
            other_interfaces: network.other_interfaces(&paths),
            paths,
            far_interfaces: Vec::new(),
            scheduler: self.scheduler.clone(),
            shapers: network::shapers(network),
        }
    }
}

/// The UDP probes of the paths of a test to the server's address `server`: of the bound path, or of all paths.
pub(crate) fn path_probes(server: SocketAddr, paths: &[ClientPath], is_multipath: bool) -> PathProbes {
    let most = if is_multipath { paths.len() } else { 1 };
    let of_family = |address: &&IpAddr| address.is_ipv4() == server.is_ipv4();
    let paths = paths.iter().take(most).map(|path| PathToProbe {
        name: path.name.clone(),
        interface: Some(path.interface.clone()),
        local: path.addresses.iter().find(of_family).copied(),
    });
    PathProbes { server, paths: paths.collect() }
}

/// The difference of the host's protocol counters (SNMP MIB) since `before`.
pub(crate) fn counters_since(before: Option<&KernelCounters>) -> Option<BTreeMap<String, i64>> {
    let after = KernelCounters::read().ok()?;
    Some(KernelCounters::difference(before?, &after))
}

fn local_path(path: &ClientPath) -> LocalPath {
    LocalPath {
        interface: path.interface.clone(),
        address: path.addresses.first().copied(),
        backup: path.backup.unwrap_or(false),
        weight: 1,
    }
}

/// The kernel and the QUIC library have different names for the same algorithms.
fn known_as(transport: Transport, congestion: &str) -> &str {
    match (congestion, transport.is_quic()) {
        ("reno", true) => "newreno",
        ("bbr", true) => "bbr3",
        ("newreno", false) => "reno",
        ("bbr3", false) => "bbr",
        _ => congestion,
    }
}

/// The addresses of `server`, of one family or of both, in the resolver's order of preference (RFC 6724).
pub(crate) fn addresses_of(
    server: &ServerName,
    wanted: Option<AddressFamily>,
) -> Result<Vec<IpAddr>, Failure> {
    let unreachable = |message| Failure { exit: Exit::Unreachable, message };
    let resolved = (server.host.as_str(), server.port)
        .to_socket_addrs()
        .map_err(|error| unreachable(format!("the name {} cannot be resolved: {error}", server.host)))?;
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in resolved.map(|address| address.ip()) {
        if !addresses.contains(&address)
            && wanted.is_none_or(|wanted| AddressFamily::from_address(address) == wanted)
        {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        let wanted = wanted.map_or("IP", AddressFamily::name);
        return Err(unreachable(format!("{server} has no {wanted} address")));
    }
    Ok(addresses)
}

/// The server's first address of each family, in the resolver's order.
pub(crate) fn first_addresses(
    server: &ServerName,
    wanted: Option<AddressFamily>,
) -> Result<Vec<SocketAddr>, Failure> {
    let mut families = BTreeSet::new();
    let mut addresses = addresses_of(server, wanted)?;
    addresses.retain(|at| families.insert(AddressFamily::from_address(*at)));
    Ok(addresses.into_iter().map(|at| SocketAddr::new(at, server.port)).collect())
}

/// The offset between both clocks, if known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Clocks {
    offset: Option<ClockOffset>,
}

impl Clocks {
    pub(crate) fn learn(&mut self, of_this: Option<ClockOffset>) {
        self.offset = match (self.offset, of_this) {
            (Some(known), Some(of_this)) => Some(known.and(of_this)),
            (known, of_this) => of_this.or(known),
        };
    }

    /// The server's record with its times on the client's clock, and a note about their accuracy.
    pub(crate) fn on_clients(
        &mut self,
        client: &EndRecord,
        server: EndRecord,
    ) -> (EndRecord, Option<String>) {
        self.learn(ClockOffset::of_records(client, &server));
        let offset = self.offset.filter(|offset| offset.suits(client, &server));
        let note = match offset {
            None => Some(
                "the clocks of both ends could not be compared: the server's times count from the moment at which the \
                 connection was open"
                    .to_owned(),
            ),
            Some(offset) if !offset.may_be_none() => Some(format!(
                "the server has its own clock: its times are accurate to ±{}",
                duration(offset.uncertainty())
            )),
            Some(_) => None,
        };
        let offset = offset.unwrap_or_else(|| ClockOffset::of_starts(client, &server));
        (offset.apply(server), note)
    }
}

/// The parameters of a pattern under the names of its options.
pub(crate) fn asked_parameters(name: &str, parameters: &PatternParameters) -> Map<String, Value> {
    let ms = |time: Duration| json!(time.as_secs_f64() * 1e3);
    let asked = match parameters {
        PatternParameters::Ping(ping) => json!(ping),
        PatternParameters::Bulk(bulk) => json!({ "bytes": bulk.bytes, "streams": bulk.streams }),
        PatternParameters::Throughput(throughput) => json!({
            "direction": name.trim_start_matches("throughput-"),
            "streams": throughput.streams,
            "duration_ms": parameters.nominal_duration().map(ms),
            "omit_ms": ms(throughput.omit),
        }),
        PatternParameters::Interactive(interactive) => json!(interactive),
        PatternParameters::Responsiveness(response) => json!(response),
        PatternParameters::Datagrams(datagrams) => json!(datagrams),
    };
    let mut asked = match asked {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    if let PatternParameters::Throughput(throughput) = parameters {
        let flags =
            [("zero_copy", throughput.zero_copy), ("skip_receive_copy", throughput.skip_receive_copy)];
        let processors = [
            ("client_processor", throughput.client_processor),
            ("server_processor", throughput.server_processor),
        ];
        let flags = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| (name, json!(true)));
        let processors = processors.into_iter().filter_map(|(name, number)| Some((name, json!(number?))));
        asked.extend(flags.chain(processors).map(|(name, value)| (name.to_owned(), value)));
    }
    asked
}

/// A finished test, and the host's observations during the test.
pub(crate) struct TestEvidence<'a> {
    pub(crate) id: String,
    pub(crate) label: &'a TransportLabel,
    pub(crate) repetition: u32,
    pub(crate) setting: &'a RunSetting,
    pub(crate) outcome: ClientOutcome,
    pub(crate) notifications: Vec<SeenEvent>,
    pub(crate) counters: Option<BTreeMap<String, i64>>,
    /// The bytes that the host's interfaces carried.
    pub(crate) carried: BTreeMap<String, CarriedBytes>,
}

impl TestEvidence<'_> {
    /// The run on the client's clock, and when its first message was due.
    pub(crate) fn assemble(self, clocks: &mut Clocks) -> (AssembledRun, Option<Timestamp>) {
        let ClientOutcome { client, server, completed, error, hung } = self.outcome;
        let (server, note) = server.map(|server| clocks.on_clients(&client, server)).unzip();
        let ends = [Some(&client), server.as_ref()].into_iter().flatten();
        let first_due = ends.flat_map(|end| &end.messages).map(|message| message.due).min();
        let mut assembled = assemble(&Evidence {
            id: self.id,
            setting: self.setting,
            label: self.label,
            repetition: self.repetition,
            gave_up: hung.map(|_| client.ended),
            client: Some(client),
            server,
            completed,
            unreachable: error.as_ref().and_then(ClientError::unreachable_because),
            error: error.map(|error| error.to_string()),
            links: Vec::new(),
            carried: self.carried,
            invalid_because: Vec::new(),
            executed: Vec::new(),
            notifications: self.notifications,
            counters: self.counters.into_iter().map(|counters| (Side::Client, counters)).collect(),
        });
        assembled.record.notes.extend(note.flatten());
        (assembled, first_due)
    }
}

/// Starts the test on a separate thread, which ends with the result.
pub(crate) fn start_test(
    client: &TestClient,
    plan: ClientPlan,
) -> (Receiver<Transferred>, JoinHandle<ClientOutcome>) {
    let (sender, transferred) = channel();
    let clock = client.clock.clone();
    let test = thread::spawn(move || {
        let mut outcome = run_client(&plan, &clock, &sender);
        // If the test's connection could not carry the record, another connection may.
        if outcome.server.is_none() && !outcome.client.streams.is_empty() {
            match fetch_record(&plan, true, &outcome.client, &clock) {
                Ok(record) => outcome.server = Some(record),
                Err(failure) => outcome.report_fetch(&failure),
            }
        }
        outcome
    });
    (transferred, test)
}

/// Time to wait if the server was busy.
pub(crate) fn busy_wait(outcome: &ClientOutcome) -> Option<Duration> {
    match &outcome.error {
        Some(ClientError::Refused { code: RefusalCode::Busy, retry_after_ms, .. }) => {
            let wait = retry_after_ms.map_or(BUSY_WAIT, Duration::from_millis);
            Some(wait.min(LONGEST_BUSY_WAIT))
        }
        _ => None,
    }
}
