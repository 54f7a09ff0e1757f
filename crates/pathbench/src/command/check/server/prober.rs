//! The parts of all probes: the server, the time, counters.

use crate::arguments::ServerArguments;
use crate::client::first_addresses;
use crate::progress::ProgressDisplay;
use pathbench_check::server::counters::{Counters, Rises};
use pathbench_check::server::facts::{ClientEnd, Ending, MptcpProbe};
use pathbench_host::counters::KernelCounters;
use pathbench_program::exit::Failure;
use pathbench_record::network::ServerName;
use pathbench_record::time::{Clock, Timestamp};
use pathbench_transport::CertificateFingerprint;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// No probe begins later than this after the start of the command.
const BUDGET: Duration = Duration::from_secs(25);

/// The addresses of the server and the paths to them.
pub(crate) struct ProbedServer {
    pub(crate) name: ServerName,
    /// The first address of each family.
    pub(crate) servers: Vec<SocketAddr>,
}

impl ProbedServer {
    pub(crate) fn resolve(given: &str, arguments: &ServerArguments) -> Result<Self, Failure> {
        let name = ServerName::parse(given, arguments.port).map_err(Failure::bad_input)?;
        let servers = first_addresses(&name, arguments.family())?;
        Ok(Self { name, servers })
    }

    pub(crate) fn destinations(&self) -> Vec<IpAddr> {
        self.servers.iter().map(SocketAddr::ip).collect()
    }
}

pub(super) struct ServerProber<'a> {
    pub(super) arguments: &'a ServerArguments,
    pub(super) quic_ports: &'a [u16],
    pub(super) fingerprint: Option<CertificateFingerprint>,
    pub(super) target: &'a ProbedServer,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) progress: ProgressDisplay,
    pub(super) began: Timestamp,
}

impl ServerProber<'_> {
    pub(super) fn has_time(&self) -> bool {
        self.clock.now().duration_since(self.began) < BUDGET
    }
}

/// The counters of `MPTcpExt` that rose since `before`.
pub(super) fn rises(before: Option<&KernelCounters>) -> Rises {
    let Some((before, after)) = before.zip(KernelCounters::read().ok()) else { return Rises::default() };
    let rose = KernelCounters::difference(before, &after).into_iter();
    let named = rose.filter_map(|(name, rise)| {
        Some((name.strip_prefix("MPTcpExt.")?.to_owned(), u64::try_from(rise).ok()?))
    });
    Rises(named.collect())
}

/// A probe of which nothing is known but its end.
pub(super) fn unopened_probe(ending: Ending) -> MptcpProbe {
    MptcpProbe {
        ending,
        client: ClientEnd::Unopened,
        server: None,
        counters: Counters::default(),
        subflows: Vec::new(),
        attempts: Vec::new(),
        plain: Vec::new(),
    }
}
