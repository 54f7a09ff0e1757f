//! `[run.quic]`: what quic and mpquic take.

use crate::scenario::keys;
use crate::scenario::mistake::MistakeKind;
use crate::scenario::plan::QuicPlan;
use crate::scenario::section::Section;
use pathbench_record::connection::Scheduler;
use pathbench_transport::{QLOG_AVAILABLE, QuicOptions};
use std::time::Duration;

/// Congestion controls of the QUIC transport.
const CONGESTION: [(&str, &str); 3] = [("cubic", "cubic"), ("newreno", "newreno"), ("bbr3", "bbr3")];

/// Reads the table; absent keys are as the transport has them.
pub(super) fn read(quic: &Section<'_>) -> QuicPlan {
    quic.only("run.quic", &keys::QUIC);
    let default = QuicOptions::default();
    let times = Duration::from_millis(1)..=Duration::from_secs(60);
    let heartbeat = quic.duration("heartbeat", times.clone()).unwrap_or(default.heartbeat);
    let silence = quic.duration("silence", times).unwrap_or(default.silence);
    if silence <= heartbeat {
        let (key, remedy) = if quic.has("silence") {
            ("silence", "give more than run.quic.heartbeat, several times that to tolerate a loss")
        } else {
            ("heartbeat", "give less than run.quic.silence")
        };
        let problem = "a healthy path is silent between two heartbeats";
        quic.wrong(MistakeKind::Conflict, key, problem, remedy);
    }
    let qlog = quic.flag("qlog").unwrap_or(false);
    if qlog && !QLOG_AVAILABLE {
        let problem = "this pathbench was built without qlog";
        quic.wrong(
            MistakeKind::Value,
            "qlog",
            problem,
            "build it with `cargo build --features qlog`, or remove the key",
        );
    }
    QuicPlan {
        scheduler: scheduler(quic),
        heartbeat,
        silence,
        congestion: quic.choice("congestion", &CONGESTION).map(str::to_owned),
        qlog,
    }
}

fn scheduler(quic: &Section<'_>) -> Scheduler {
    let known = ["lowest-rtt", "round-robin", "weighted", "backup"].map(|name| (name, name));
    let thresholds = Duration::from_millis(1)..=Duration::from_secs(60);
    let above = ["srtt_above", "rto_above"].map(|key| quic.duration(key, thresholds.clone()));
    let name = quic.choice("scheduler", &known).unwrap_or("lowest-rtt");
    if name != "backup" {
        for key in ["srtt_above", "rto_above"].into_iter().filter(|key| quic.has(key)) {
            let problem = format!("the scheduler `{name}` has no threshold");
            quic.wrong(MistakeKind::Conflict, key, problem, "remove it, or make the scheduler \"backup\"");
        }
    }
    match (name, Scheduler::backup()) {
        ("round-robin", _) => Scheduler::RoundRobin,
        ("weighted", _) => Scheduler::Weighted,
        ("backup", Scheduler::Backup { srtt_above, rto_above }) => {
            let [srtt, rto] = above;
            Scheduler::Backup { srtt_above: srtt.unwrap_or(srtt_above), rto_above: rto.unwrap_or(rto_above) }
        }
        _ => Scheduler::LowestRtt,
    }
}
