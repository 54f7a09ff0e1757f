//! The state that the threads of the agent share: its settings, the collector's last answer, and the running measurement.

use crate::client::{Outbox, Settings, SettingsFile};
use crate::host::AgentHost;
use pathbench_api::check_in::{CheckInAnswer, OfferedServer};
use pathbench_api::consent::Consent;
use pathbench_api::live::{LivePath, LiveReport, MOST_PATHS};
use pathbench_api::name::Name;
use pathbench_program::exit::Failure;
use pathbench_program::exposition::MetricType::{Counter, Gauge};
use pathbench_program::exposition::{Exposition, Metric, metric};
use pathbench_record::live::LiveRecord;
use pathbench_record::transport::TransportLabel;
use pathbench_transport::lock;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Seconds of the chart.
const SECONDS: usize = 120;

/// A measurement that the owner starts from the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MeasurementOrder {
    pub(crate) mobile: bool,
    pub(crate) server: Choice,
}

/// The owner's choice of a server. A collector can name its server like an address that the owner writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    Offered { name: String },
    Own { address: String, fingerprint: Option<String>, token: Option<String> },
}

#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct RunningMeasurement {
    pub(crate) title: String,
    pub(crate) experiment: Option<String>,
    pub(crate) server: String,
    pub(crate) label: String,
    pub(crate) pattern: String,
    pub(crate) runs_done: u32,
    pub(crate) runs_planned: u32,
    /// Path → goodput of the last seconds, in Mbit/s.
    pub(crate) paths: BTreeMap<String, Vec<f64>>,
    /// Latest median delay.
    pub(crate) delay_ms: Option<f64>,
}

#[derive(Debug, Default)]
pub(crate) struct AgentCounts {
    pub(crate) executions: BTreeMap<&'static str, u64>,
    pub(crate) check_ins: u64,
    pub(crate) failed_requests: u64,
    pub(crate) acknowledged: u64,
    pub(crate) rejected: u64,
}

#[derive(Debug, Default)]
pub(crate) struct AgentState {
    pub(crate) answer: Option<CheckInAnswer>,
    /// An answer that the schedule has not taken over.
    pub(crate) is_fresh: bool,
    /// Unix time of the last successful check-in.
    pub(crate) checked_in_s: u64,
    pub(crate) error: Option<String>,
    /// Submissions that wait, and the age of the oldest one.
    pub(crate) outbox: (u32, u32),
    /// Why the last result is not in the outbox.
    pub(crate) outbox_problem: Option<String>,
    /// The collector has acknowledged results since the last look.
    pub(crate) outbox_shrank: bool,
    /// The courier sends a batch.
    pub(crate) is_uploading: bool,
    pub(crate) measurement: Option<RunningMeasurement>,
    pub(crate) last: Option<String>,
    pub(crate) order: Option<MeasurementOrder>,
    pub(crate) counts: AgentCounts,
    /// Interface → bytes used in this month, and the limit.
    pub(crate) budget: BTreeMap<String, (u64, u64)>,
}

#[derive(Debug)]
pub(crate) struct AgentContext {
    pub(crate) host: Arc<AgentHost>,
    file: Mutex<SettingsFile>,
    state: Mutex<AgentState>,
    cancelled: AtomicBool,
    /// Something waits in the outbox.
    waiting: AtomicBool,
}

impl AgentContext {
    pub(crate) fn new(file: SettingsFile, host: Arc<AgentHost>) -> Self {
        Self {
            host,
            file: Mutex::new(file),
            state: Mutex::default(),
            cancelled: AtomicBool::new(false),
            waiting: AtomicBool::new(true),
        }
    }

    /// The owner's settings at this moment, `None` without a decision. Other processes and editors change the file.
    pub(crate) fn settings(&self) -> Option<Settings> {
        let mut file = lock(&self.file);
        let consent = |file: &SettingsFile| file.settings.as_ref().map(|settings| settings.consent);
        match file.refresh(self.host.reload.swap(false, Ordering::Relaxed)) {
            Ok(false) => {}
            Ok(true) => self.host.log("settings", json!({ "consent": consent(&file) })),
            Err(failure) => self.host.log("settings", json!({ "error": failure.message, "consent": null })),
        }
        file.settings.clone()
    }

    /// The settings while the owner consents to submissions.
    pub(crate) fn consented_settings(&self) -> Option<Settings> {
        self.settings().filter(|settings| settings.consent != Consent::None)
    }

    pub(crate) fn decide(&self, consent: Consent) -> Result<(), Failure> {
        lock(&self.file).decide(consent, None).map(drop)
    }

    pub(crate) fn access<T>(&self, act: impl FnOnce(&mut AgentState) -> T) -> T {
        act(&mut lock(&self.state))
    }

    pub(crate) fn log(&self, event: &str, fields: Value) {
        self.host.log(event, fields);
    }

    /// Unix time.
    pub(crate) fn now_s(&self) -> u64 {
        self.host.clock.unix_seconds()
    }

    /// The outbox, which is below the state directory.
    pub(crate) fn open_outbox(&self, settings: &Settings) -> Result<Outbox, Failure> {
        Outbox::open(&self.host.state_directory, settings.limits.outbox.0, self.host.clock.unix_seconds())
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.host.stop.load(Ordering::SeqCst)
    }

    /// Stops the running measurement.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
    }

    pub(crate) fn take_cancellation(&self) -> bool {
        self.cancelled.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn something_waits(&self) {
        self.waiting.store(true, Ordering::SeqCst);
    }

    /// Whether something waits, while no measurement runs: an upload would share the measured link.
    pub(crate) fn take_waiting(&self) -> bool {
        self.access(|state| state.measurement.is_none()) && self.waiting.swap(false, Ordering::SeqCst)
    }

    /// Whether a batch may be sent, which a measurement then waits for.
    pub(crate) fn begin_upload(&self) -> bool {
        self.access(|state| {
            state.is_uploading = state.measurement.is_none();
            state.is_uploading
        })
    }

    pub(crate) fn servers(&self) -> Vec<OfferedServer> {
        self.access(|state| state.answer.as_ref().map(|answer| answer.servers.clone()).unwrap_or_default())
    }

    /// Takes over a live record of the running child.
    pub(crate) fn add_record(&self, record: &LiveRecord) {
        self.access(|state| {
            let Some(measurement) = &mut state.measurement else { return };
            match record {
                LiveRecord::Start(start) => measurement.runs_planned = start.runs,
                LiveRecord::RunStart(start) => {
                    measurement.label.clone_from(&start.label);
                    measurement.pattern.clone_from(&start.pattern);
                }
                LiveRecord::Interval(interval) => {
                    for path in &interval.paths {
                        measurement.add_rate(&path.name, path.rate_mbps);
                    }
                    measurement.delay_ms = interval.delay_ms.as_ref().and_then(|delay| delay.median);
                }
                LiveRecord::RunEnd(_) => measurement.runs_done += 1,
                _ => {}
            }
        });
    }

    /// The report of the running measurement for the collector.
    pub(crate) fn live_report(&self, agent: &Name) -> Option<LiveReport> {
        self.access(|state| state.measurement.as_ref().map(|measurement| measurement.report(agent)))
    }

    pub(crate) fn metrics(&self, now_s: u64) -> Exposition {
        self.access(|state| metrics(state, now_s))
    }
}

impl RunningMeasurement {
    fn add_rate(&mut self, path: &str, rate_mbps: f64) {
        if !self.paths.contains_key(path) && self.paths.len() >= MOST_PATHS {
            return;
        }
        let rates = self.paths.entry(path.to_owned()).or_default();
        rates.push(if rate_mbps.is_finite() { rate_mbps.clamp(0.0, 1e6) } else { 0.0 });
        let over = rates.len().saturating_sub(SECONDS);
        rates.drain(..over);
    }

    fn report(&self, agent: &Name) -> LiveReport {
        let path = |(name, rates): (&String, &Vec<f64>)| LivePath {
            name: Name::nearest(name),
            goodput_mbps: rates.last().copied().unwrap_or(0.0),
        };
        LiveReport {
            agent: agent.clone(),
            experiment: self.experiment.as_deref().map(Name::nearest),
            // Omit servers that the collector did not offer.
            server: self.experiment.as_ref().map(|_| Name::nearest(&self.server)),
            transport: self.label.parse::<TransportLabel>().ok().map(|label| label.transport),
            pattern: (!self.pattern.is_empty()).then(|| Name::nearest(&self.pattern)),
            runs_done: self.runs_done,
            runs_planned: self.runs_planned,
            paths: self.paths.iter().map(path).take(MOST_PATHS).collect(),
        }
    }
}

const METRICS: [Metric; 11] = [
    metric(
        "executions",
        Counter,
        &["outcome"],
        "Finished measurements by outcome: done, failed, stopped, skipped.",
    ),
    metric("running", Gauge, &[], "1 while a measurement runs."),
    metric("check_ins", Counter, &[], "Successful check-ins."),
    metric("failed_requests", Counter, &[], "Requests to the collector that failed."),
    metric("check_in_age_seconds", Gauge, &[], "Time since the last successful check-in."),
    metric("acknowledged", Counter, &[], "Results that the collector has acknowledged."),
    metric("rejected", Counter, &[], "Results that the collector has rejected."),
    metric("outbox", Gauge, &[], "Results that wait in the outbox."),
    metric("outbox_oldest_seconds", Gauge, &[], "Age of the oldest of them."),
    metric("budget_used_bytes", Gauge, &["interface"], "Bytes of measurements in this month."),
    metric("budget_limit_bytes", Gauge, &["interface"], "Limit for the bytes of measurements in a month."),
];

fn metrics(state: &AgentState, now_s: u64) -> Exposition {
    let mut metrics = Exposition::new("pathbench_agent", &METRICS);
    let AgentCounts { executions, check_ins, failed_requests, acknowledged, rejected } = &state.counts;
    for (outcome, count) in executions {
        metrics.add("executions", &[outcome], *count as f64);
    }
    if state.checked_in_s > 0 {
        metrics.add("check_in_age_seconds", &[], now_s.saturating_sub(state.checked_in_s) as f64);
    }
    for (name, value) in [
        ("running", u64::from(state.measurement.is_some())),
        ("check_ins", *check_ins),
        ("failed_requests", *failed_requests),
        ("acknowledged", *acknowledged),
        ("rejected", *rejected),
        ("outbox", state.outbox.0.into()),
        ("outbox_oldest_seconds", state.outbox.1.into()),
    ] {
        metrics.add(name, &[], value as f64);
    }
    for (interface, (used, limit)) in &state.budget {
        metrics.add("budget_used_bytes", &[interface], *used as f64);
        metrics.add("budget_limit_bytes", &[interface], *limit as f64);
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::test_host;

    #[test]
    fn live_records_become_a_bounded_report() {
        let shared = AgentContext::new(SettingsFile::default(), test_host());
        let agent = Name::new("a").unwrap();
        assert!(shared.live_report(&agent).is_none());
        let experiment = Some("e".to_owned());
        shared.access(|state| {
            state.measurement =
                Some(RunningMeasurement { experiment, server: "s".into(), ..RunningMeasurement::default() });
        });
        let paths: Vec<_> = (0..20)
            .map(|n| json!({ "name": format!("eth{n}"), "bytes": 1, "rate_mbps": 7.5, "retransmitted_bytes": 0, "cwnd_bytes": 1 }))
            .collect();
        for record in [
            json!({ "type": "start", "name": "test", "runs": 3, "seed": 1, "started": "", "interval_ms": 1000.0 }),
            json!({ "type": "run-start", "run": "r", "number": 1, "runs": 3, "label": "mptcp", "pattern": "bulk",
                    "variant": {}, "repetition": 1 }),
            json!({ "type": "interval", "run": "r", "from_ms": 0.0, "to_ms": 1000.0, "upload_bytes": 1,
                    "download_bytes": 1, "rate_mbps": 1.0, "paths": paths }),
        ] {
            let record = serde_json::from_value(record).unwrap();
            (0..200).for_each(|_| shared.add_record(&record));
        }
        let report = shared.live_report(&agent).unwrap();
        assert_eq!((report.problem(), report.paths.len(), report.runs_planned), (None, MOST_PATHS, 3));
        assert!(shared.access(|state| state.measurement.as_ref().unwrap().paths["eth0"].len()) <= SECONDS);
    }

    #[test]
    fn metrics_have_help_and_escaped_labels() {
        let shared = AgentContext::new(SettingsFile::default(), test_host());
        shared.access(|state| state.budget.insert("a\"b".to_owned(), (5, 10)));
        let text = shared.metrics(7).text();
        pathbench_testkit::assert_documented(&text, "agent.md");
        assert!(text.contains("pathbench_agent_budget_used_bytes{interface=\"a\\\"b\"} 5\n"), "{text}");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            assert!(line.rsplit_once(' ').is_some_and(|(_, value)| value.parse::<f64>().is_ok()), "{line}");
        }
    }
}
