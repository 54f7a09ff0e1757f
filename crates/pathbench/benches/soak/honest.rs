//! Clients that run tests as they should: each must complete, every byte verified.

use super::{Random, Soak, address_of};
use pathbench_record::direction::DataDirection;
use pathbench_record::end::TestId;
use pathbench_record::pattern::{
    Amount, BulkParameters, InteractiveParameters, PatternParameters, PingParameters, ThroughputParameters,
};
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use pathbench_testkit::MonotonicClock;
use pathbench_traffic::client::{ClientPlan, Unobserved, fetch_record, run_client};
use pathbench_transport::{Security, Trust, mptcp_available};
use std::sync::Arc;
use std::time::Duration;

/// Between two tests of one client.
const PAUSE_MS: std::ops::Range<u64> = 1000..5000;

pub(crate) fn run(soak: &Soak, client: u32) {
    let mut random = Random::new(client);
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    while soak.runs() {
        let plan = plan(soak, client, &mut random);
        let what = format!("{} {}", plan.transport, plan.parameters.name());
        let outcome = run_client(&plan, &clock, &Unobserved);
        match (&outcome.error, outcome.completed) {
            (None, true) => soak.count(&format!("honest tests completed: {what}")),
            (error, _) => {
                let error = error.as_ref().map(ToString::to_string).unwrap_or_default();
                let errors = [&outcome.client.errors[..], &[error]].concat().join("; ");
                soak.fail(format!("client {client}, {what}: {errors}"));
            }
        }
        if outcome.completed && random.number_below(4) == 0 {
            match fetch_record(&plan, true, &outcome.client, &clock) {
                Ok(_) => soak.count("honest FETCH answered"),
                Err(error) => soak.fail(format!("client {client}, FETCH after {what}: {error}")),
            }
        }
        soak.pause(random.milliseconds(PAUSE_MS));
    }
}

fn plan(soak: &Soak, client: u32, random: &mut Random) -> ClientPlan {
    let transports: &[Transport] = if mptcp_available().is_ok() {
        &[Transport::Tcp, Transport::Quic, Transport::Mpquic, Transport::Mptcp]
    } else {
        &[Transport::Tcp, Transport::Quic, Transport::Mpquic]
    };
    let transport = transports[random.number_below(transports.len() as u64) as usize];
    let quic = matches!(transport, Transport::Quic | Transport::Mpquic);
    let encrypted = quic || random.number_below(2) == 0;
    let mut test = TestId([0; 16]);
    test.0.copy_from_slice(&random.bytes(16));
    ClientPlan {
        local: Some(address_of(client).into()),
        security: match soak.server.fingerprint.parse() {
            Ok(fingerprint) if encrypted => Security::Tls(Trust::Fingerprint(fingerprint)),
            _ => Security::Clear,
        },
        connect_timeout: Duration::from_secs(20),
        ..ClientPlan::new(
            transport,
            if quic { soak.server.quic } else { soak.server.tcp },
            test,
            parameters(random),
        )
    }
}

fn parameters(random: &mut Random) -> PatternParameters {
    match random.number_below(4) {
        0 => PatternParameters::Ping(PingParameters::default()),
        1 => PatternParameters::Bulk(BulkParameters {
            bytes: 1 + random.number_below(2_000_000),
            upload_bytes: random.number_below(500_000),
            streams: 1 + random.number_below(3) as u32,
        }),
        2 => PatternParameters::Throughput(ThroughputParameters {
            direction: DataDirection::ALL[random.number_below(3) as usize],
            streams: 1 + random.number_below(4) as u32,
            amount: Amount::Bytes(100_000 + random.number_below(1_000_000)),
            ..ThroughputParameters::default()
        }),
        _ => PatternParameters::Interactive(InteractiveParameters {
            duration: Duration::from_secs(1),
            ..InteractiveParameters::default()
        }),
    }
}
