//! What the client, the server and the assembly of one run are told: pure functions of the plan.

use super::setting;
use crate::agent::ServePlan;
use crate::scenario::{Link, PatternPlan, VariantPlan};
use pathbench_analysis::assembly::RunSetting;
use pathbench_record::connection::Scheduler;
use pathbench_record::test_id::TestId;
use pathbench_record::transport::{Transport, TransportLabel};
use pathbench_traffic::client::ClientPlan;
use pathbench_transport::{CertificateFingerprint, LocalPath, QuicOptions, Security, SocketOptions, Trust};
use serde_json::{Map, Value};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// How long a connection may take to open.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// One run: a variant, a transport and a pattern.
#[derive(Debug)]
pub(super) struct Assignment<'a> {
    pub(super) id: String,
    pub(super) plan: &'a VariantPlan,
    pub(super) label: &'a TransportLabel,
    pub(super) pattern: &'a PatternPlan,
    pub(super) sample_interval: Duration,
    pub(super) qlog: Option<PathBuf>,
}

struct Start {
    local: IpAddr,
    interface: String,
    remote: IpAddr,
}

impl Assignment<'_> {
    fn transport(&self) -> Transport {
        self.label.transport
    }

    fn is_quic(&self) -> bool {
        matches!(self.transport(), Transport::Quic | Transport::Mpquic)
    }

    /// Whether what travels is encrypted, so that the server needs a certificate.
    pub(super) fn is_encrypted(&self) -> bool {
        self.is_quic() || self.plan.run.tls
    }

    /// The client's links, the one that the connection starts on first: the one it is bound to, else the first.
    fn client_links(&self) -> Vec<(&Link, usize)> {
        let mut links: Vec<_> = self.plan.topology.links_of(&self.plan.run.client).collect();
        // Stable: the others stay in file order.
        links.sort_by_key(|(link, _)| self.label.path.as_ref().is_some_and(|name| *name != link.name));
        links
    }

    /// The client's address on the first link and the server's address to connect to: on the same link where
    /// both are on it, else the server's first of the family.
    fn start(&self) -> Option<Start> {
        let run = &self.plan.run;
        let (link, end) = self.client_links().into_iter().next()?;
        let local = link.ends[end].address(run.family)?;
        let (far, far_end) = self.plan.topology.far_end_of(link, &run.client)?;
        let far = &far.ends[far_end];
        let remote = if far.node == run.server {
            far.address(run.family)?
        } else {
            let mut of_server = self.plan.topology.links_of(&run.server);
            of_server.find_map(|(link, end)| link.ends[end].address(run.family))?
        };
        Some(Start { local, interface: link.ends[end].interface.clone(), remote })
    }

    /// The server's address that the client connects to; `None` where an end has none of the family.
    pub(super) fn server_address(&self) -> Option<IpAddr> {
        self.start().map(|start| start.remote)
    }

    pub(super) fn serve_plan(&self, remote: IpAddr) -> ServePlan {
        let any: IpAddr = if remote.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
        ServePlan {
            transport: self.transport(),
            address: SocketAddr::new(any, 0),
            socket: self.socket_options(),
            quic: self.quic_options(),
            encrypted: self.is_encrypted(),
            sample_interval: self.sample_interval,
        }
    }

    fn socket_options(&self) -> SocketOptions {
        let run = &self.plan.run;
        let (congestion, send_buffer_bytes, receive_buffer_bytes) = match self.pattern {
            PatternPlan::Iperf(iperf) => {
                (&iperf.congestion, iperf.send_buffer_bytes, iperf.receive_buffer_bytes)
            }
            _ => (&run.socket.congestion, None, None),
        };
        let congestion = if self.is_quic() { &run.quic.congestion } else { congestion };
        SocketOptions {
            congestion: congestion.clone(),
            send_buffer_bytes,
            receive_buffer_bytes,
            ..SocketOptions::default()
        }
    }

    fn quic_options(&self) -> QuicOptions {
        let quic = &self.plan.run.quic;
        QuicOptions {
            paths: Vec::new(),
            scheduler: quic.scheduler.clone(),
            heartbeat: quic.heartbeat,
            silence: quic.silence,
            qlog: self.qlog.clone(),
        }
    }

    fn local_paths(&self) -> Vec<LocalPath> {
        let of_link = |(link, end): (&Link, usize)| {
            let address = link.ends[end].address(self.plan.run.family)?;
            let interface = link.ends[end].interface.clone();
            Some(LocalPath { interface, address: Some(address), backup: link.backup, weight: link.weight })
        };
        self.client_links().into_iter().filter_map(of_link).collect()
    }

    /// How long the application waits without progress before it gives up.
    pub(super) fn patience(&self) -> Duration {
        match self.pattern {
            PatternPlan::Iperf(iperf) => iperf.patience,
            _ => self.plan.run.socket.patience,
        }
    }

    /// What the client's agent is to do; `fingerprint` is that of the server's certificate, where it has one.
    pub(super) fn client_plan(
        &self,
        server: SocketAddr,
        fingerprint: Option<CertificateFingerprint>,
    ) -> Option<ClientPlan> {
        let start = self.start()?;
        let security = match fingerprint.filter(|_| self.is_encrypted()) {
            Some(fingerprint) => Security::Tls(Trust::Fingerprint(fingerprint)),
            None => Security::Clear,
        };
        let paths = if self.transport() == Transport::Mpquic { self.local_paths() } else { Vec::new() };
        // Binding a multipath socket to an interface would bind its further paths to it, too.
        let bound = !self.transport().is_multipath();
        let parameters = self.pattern.parameters();
        Some(ClientPlan {
            local: Some(start.local),
            interface: bound.then_some(start.interface),
            socket: self.socket_options(),
            security,
            quic: QuicOptions { paths, ..self.quic_options() },
            sample_interval: self.sample_interval,
            patience: self.patience(),
            connect_timeout: CONNECT_TIMEOUT,
            ..ClientPlan::new(self.transport(), server, test_id(&self.id), parameters)
        })
    }

    pub(super) fn setting(&self) -> RunSetting {
        let mut setting = setting::of_plan(self.plan, self.pattern, self.pattern.parameters());
        if self.is_quic() {
            self.ask_of_quic(&mut setting.asked);
        } else if self.plan.run.tls {
            setting.asked.insert("tls".to_owned(), true.into());
        }
        setting
    }

    /// What of `[run.quic]` goes without saying is left out.
    fn ask_of_quic(&self, asked: &mut Map<String, Value>) {
        let quic = &self.plan.run.quic;
        let usual = QuicOptions::default();
        let mut put = |key: &str, value: Option<Value>| {
            // The kernel's congestion control is not QUIC's.
            asked.remove(key);
            if let Some(value) = value {
                asked.insert(key.to_owned(), value);
            }
        };
        let ms = |time: Duration| Value::from(time.as_secs_f64() * 1e3);
        put("congestion", quic.congestion.clone().map(Value::from));
        put("heartbeat_ms", (quic.heartbeat != usual.heartbeat).then(|| ms(quic.heartbeat)));
        put("silence_ms", (quic.silence != usual.silence).then(|| ms(quic.silence)));
        if self.transport() == Transport::Mpquic {
            put("scheduler", Some(quic.scheduler.name().into()));
            if let Scheduler::Backup { srtt_above, rto_above } = quic.scheduler {
                put("srtt_above_ms", Some(ms(srtt_above)));
                put("rto_above_ms", Some(ms(rto_above)));
            }
        }
    }
}

/// Within a lab nobody guesses ids; the run's own name makes the test easy to find.
fn test_id(run: &str) -> TestId {
    let mut bytes = [0; 16];
    for (byte, letter) in bytes.iter_mut().zip(run.bytes().rev()) {
        *byte = letter;
    }
    TestId(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Overrides, Plan, Source, plan};
    use pathbench_record::pattern::PatternParameters;

    const SCENARIO: &str = r#"
name = "t"
[[path]]
name = "eth"
weight = 3
[[path]]
name = "wlan"
backup = true
[run]
transports = ["tcp", "tcp@wlan", "mptcp@wlan", "quic@wlan", "mpquic", "mpquic@wlan"]
pattern = ["iperf", "ping"]
congestion = "reno"
patience = "4s"
[run.iperf]
congestion = "cubic"
send_buffer = "64KiB"
patience = "2s"
[run.quic]
scheduler = "weighted"
congestion = "bbr3"
qlog = true
"#;

    fn planned() -> Plan {
        plan(&Source::from_text("t.toml", SCENARIO), &Overrides::default()).unwrap()
    }

    fn assignment<'a>(plan: &'a Plan, label: &str, pattern: usize) -> Assignment<'a> {
        let variant = &plan.variants[0];
        let label = variant.run.labels.iter().find(|known| known.to_string() == label).unwrap();
        Assignment {
            id: "01".to_owned(),
            plan: variant,
            label,
            pattern: &variant.run.patterns[pattern],
            sample_interval: plan.sample_interval,
            qlog: Some("/tmp/qlog".into()),
        }
    }

    fn client(assignment: &Assignment<'_>) -> ClientPlan {
        let server = SocketAddr::new(assignment.server_address().unwrap(), 1);
        assignment.client_plan(server, Some(CertificateFingerprint([1; 32]))).unwrap()
    }

    #[test]
    fn single_path_transports_are_bound_and_multipath_ones_are_not() {
        let plan = planned();
        for (label, server, local, interface) in [
            ("tcp", "10.83.0.2", "10.83.0.1", Some("eth")),
            ("tcp@wlan", "10.83.1.2", "10.83.1.1", Some("wlan")),
            ("mptcp@wlan", "10.83.1.2", "10.83.1.1", None),
            ("quic@wlan", "10.83.1.2", "10.83.1.1", Some("wlan")),
            ("mpquic", "10.83.0.2", "10.83.0.1", None),
        ] {
            let client = client(&assignment(&plan, label, 0));
            assert_eq!(client.server.ip().to_string(), server, "{label}");
            assert_eq!(client.local.unwrap().to_string(), local, "{label}");
            assert_eq!(client.interface.as_deref(), interface, "{label}");
        }
    }

    #[test]
    fn mpquic_gets_every_link_and_starts_on_the_one_it_is_bound_to() {
        let plan = planned();
        let paths = |label| {
            let paths = client(&assignment(&plan, label, 0)).quic.paths.into_iter();
            paths.map(|path| (path.interface, path.backup, path.weight)).collect::<Vec<_>>()
        };
        let (eth, wlan) = (("eth".to_owned(), false, 3), ("wlan".to_owned(), true, 1));
        assert_eq!(paths("mpquic"), [eth.clone(), wlan.clone()]);
        assert_eq!(paths("mpquic@wlan"), [wlan, eth]);
        assert_eq!(paths("quic@wlan"), []);
        let client = client(&assignment(&plan, "mpquic", 0));
        assert_eq!(client.quic.scheduler, Scheduler::Weighted);
        assert_eq!(client.quic.qlog, Some(PathBuf::from("/tmp/qlog")));
    }

    #[test]
    fn quic_is_always_encrypted_and_the_kernels_transports_when_asked() {
        let plan = planned();
        let encrypted = |label| client(&assignment(&plan, label, 0)).security.trust().is_some();
        assert!(encrypted("mpquic") && encrypted("quic@wlan"));
        assert!(!encrypted("tcp") && !encrypted("mptcp@wlan"));
        let overrides =
            Overrides { set: vec![("run.tls".to_owned(), "true".to_owned())], ..Overrides::default() };
        let with_tls = crate::scenario::plan(&Source::from_text("t.toml", SCENARIO), &overrides);
        let with_tls = with_tls.unwrap();
        let tcp = assignment(&with_tls, "tcp", 0);
        assert!(client(&tcp).security.trust().is_some());
        assert!(tcp.serve_plan([10, 83, 0, 2].into()).encrypted);
        assert_eq!(tcp.setting().asked["tls"], true);
    }

    #[test]
    fn each_transport_and_pattern_gets_the_options_that_are_for_it() {
        let plan = planned();
        let options = |label, pattern| {
            let client = client(&assignment(&plan, label, pattern));
            (client.socket.congestion.unwrap(), client.socket.send_buffer_bytes, client.patience.as_secs())
        };
        assert_eq!(options("tcp", 0), ("cubic".to_owned(), Some(65_536), 2));
        assert_eq!(options("tcp", 1), ("reno".to_owned(), None, 4));
        assert_eq!(options("mpquic", 0), ("bbr3".to_owned(), Some(65_536), 2));
        assert_eq!(options("mpquic", 1), ("bbr3".to_owned(), None, 4));
        let ping = assignment(&plan, "mpquic", 1);
        assert!(matches!(client(&ping).parameters, PatternParameters::Ping(_)));
        let setting = ping.setting();
        assert_eq!((setting.pattern.as_str(), &setting.asked["count"]), ("ping", &Value::from(5)));
        assert_eq!(
            (&setting.asked["scheduler"], &setting.asked["congestion"]),
            (&"weighted".into(), &"bbr3".into())
        );
        assert!(!setting.asked.contains_key("heartbeat_ms"), "{:?}", setting.asked);
    }
}
