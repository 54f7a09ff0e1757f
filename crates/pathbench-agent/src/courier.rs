//! The thread that talks to the collector: check-in, what waits in the outbox, and live reports. A measurement waits
//! only for a batch that is being sent.

use crate::answer::accept;
use crate::client::{Backoff, CollectorClient, CollectorError, Outbox, Settings, deliver, renewal};
use crate::networks::NetworkRules;
use crate::state::AgentContext;
use crate::target::resolve;
use pathbench_api::check_in::{CheckIn, CheckInAnswer};
use pathbench_api::experiment::Pattern;
use pathbench_api::name::Name;
use pathbench_program::exit::Failure;
use pathbench_program::random;
use pathbench_record::time::Timestamp;
use serde_json::json;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(500);
/// For the resolver only.
const HTTPS: u16 = 443;
const LIVE_INTERVAL: Duration = Duration::from_secs(3);
/// Interval between two looks at a network over which results must not go.
const FORBIDDEN: Duration = Duration::from_secs(300);

/// The reason for the end of a delivery.
pub(crate) enum Flushed {
    /// The end of the outbox, or a measurement.
    Done,
    Failed(CollectorError),
    /// The network to the collector.
    Forbidden,
}

pub(crate) struct Courier {
    pub(crate) collector: CollectorClient,
    pub(crate) shared: Arc<AgentContext>,
}

impl Courier {
    /// Runs until the agent stops.
    pub(crate) fn run(&self) {
        let (mut check_in_backoff, mut outbox_backoff) = (Backoff::default(), Backoff::default());
        let mut check_in_due = self.now();
        let mut outbox_due = check_in_due;
        let mut live_due = check_in_due;
        while !self.shared.is_stopping() {
            let now = self.now();
            // The owner can withdraw the consent while a request takes its time.
            if now >= check_in_due
                && let Some(settings) = self.shared.consented_settings()
            {
                check_in_due = self.next_check_in(&settings, &mut check_in_backoff);
            }
            // A result that has just been made does not end the wait after a failure.
            if now >= outbox_due
                && let Some(settings) = self.shared.consented_settings()
                && self.shared.take_waiting()
            {
                outbox_due = self.flush_outbox(&settings, &mut outbox_backoff);
            }
            if now >= live_due
                && let Some(settings) = self.shared.consented_settings()
            {
                live_due = now + LIVE_INTERVAL;
                self.report_live(&settings);
            }
            self.shared.host.clock.sleep_until(now + TICK);
        }
    }

    fn now(&self) -> Timestamp {
        self.shared.host.clock.now()
    }

    fn next_check_in(&self, settings: &Settings, backoff: &mut Backoff) -> Timestamp {
        match self.check_in(settings) {
            Ok(next) => {
                backoff.reset();
                // A tenth of jitter, so that agents do not come together.
                self.now() + next.mul_f64(0.9 + 0.2 * random::fraction())
            }
            Err(error) => self.note_failure(&error, backoff, "check-in"),
        }
    }

    fn note_failure(&self, error: &CollectorError, backoff: &mut Backoff, event: &str) -> Timestamp {
        let wait = backoff.next_wait(error.retry_after(), u64::from_ne_bytes(random::bytes()));
        self.shared
            .log(event, json!({ "error": error.to_string(), "again_in_s": wait.as_secs_f64().round() }));
        self.shared.access(|state| {
            state.counts.failed_requests += 1;
            state.error = Some(error.to_string());
        });
        self.now() + wait
    }

    /// Reports the agent and takes over the answer; returns the time until the next check-in.
    pub(crate) fn check_in(&self, settings: &Settings) -> Result<Duration, CollectorError> {
        let (outbox, oldest_s) = self.shared.access(|state| state.outbox);
        let mut request = CheckIn {
            agent: settings.agent,
            name: settings.name.clone(),
            version: Name::nearest(env!("CARGO_PKG_VERSION")),
            consent: settings.consent,
            outbox,
            oldest_s,
            patterns: Some(Pattern::ALL.iter().map(|pattern| Name::nearest(pattern.name())).collect()),
        };
        let mut answer = self.collector.post("/v1/check-in", &request);
        // Collectors of earlier versions reject keys that they do not know.
        if let Err(CollectorError::Refused { status: 422, .. }) = &answer {
            request.patterns = None;
            answer = self.collector.post("/v1/check-in", &request);
        }
        let mut answer: CheckInAnswer = answer?;
        let next = accept(&mut answer, &settings.name);
        if let Some(token) = answer.token.take() {
            self.renew_token(&token);
        }
        self.shared.log(
            "check-in",
            json!({ "servers": answer.servers.len(), "experiments": answer.experiments.len(), "next_s": next.as_secs() }),
        );
        self.shared.access(|state| {
            state.answer = Some(answer);
            state.is_fresh = true;
            state.checked_in_s = self.shared.now_s();
            state.error = None;
            state.counts.check_ins += 1;
        });
        Ok(next)
    }

    /// Takes over a renewed token, which is worth nothing before it is on the disk.
    fn renew_token(&self, new: &str) {
        let Some(old) = self.collector.token() else { return };
        match renewal::keep(&self.shared.host.state_directory, &self.collector.address, &old, new) {
            Ok(true) => self.collector.replace_token(new.to_owned()),
            Ok(false) => {
                self.shared.log("token", json!({ "error": "the collector's new token is no renewal" }));
            }
            Err(error) => self.shared.log("token", json!({ "error": format!("cannot keep it: {error}") })),
        }
    }

    fn flush_outbox(&self, settings: &Settings, backoff: &mut Backoff) -> Timestamp {
        match self.flush(settings) {
            Ok(Flushed::Done) => {
                backoff.reset();
                self.now()
            }
            Ok(Flushed::Forbidden) => self.now() + FORBIDDEN,
            Ok(Flushed::Failed(error)) => {
                self.shared.something_waits();
                self.note_failure(&error, backoff, "outbox")
            }
            Err(failure) => {
                self.shared.log("outbox", json!({ "error": failure.message }));
                self.shared.something_waits();
                self.now() + Duration::from_secs(60)
            }
        }
    }

    /// Sends the submissions that wait.
    pub(crate) fn flush(&self, settings: &Settings) -> Result<Flushed, Failure> {
        let outbox = self.shared.open_outbox(settings)?;
        let objection = Cell::new(None);
        let may_send = || {
            let reason = self.shared.begin_upload().then(|| self.objection(settings));
            let may_send = matches!(reason, Some(None)) && self.shared.consented_settings().is_some();
            if !may_send {
                self.shared.something_waits();
            }
            objection.set(reason.flatten());
            may_send
        };
        let delivered = deliver(&outbox, &self.collector, may_send);
        self.shared.access(|state| state.is_uploading = false);
        let delivered = delivered?;
        for id in &delivered.acknowledged {
            self.shared.log("acknowledged", json!({ "id": id }));
        }
        for (id, reason) in &delivered.rejected {
            self.shared.log("rejected", json!({ "id": id, "reason": reason }));
        }
        self.shared.access(|state| {
            state.counts.acknowledged += delivered.acknowledged.len() as u64;
            state.counts.rejected += delivered.rejected.len() as u64;
            state.outbox_shrank |= !delivered.acknowledged.is_empty();
        });
        note_outbox(&self.shared, &outbox);
        if let Some(reason) = objection.take() {
            self.shared.log("outbox", json!({ "waits": reason }));
            self.shared.access(|state| state.error = Some(format!("results wait: {reason}")));
            return Ok(Flushed::Forbidden);
        }
        Ok(delivered.error.map_or(Flushed::Done, Flushed::Failed))
    }

    /// Why results must not go over the network to the collector.
    fn objection(&self, settings: &Settings) -> Option<String> {
        let Settings { limits, kinds, .. } = settings.clone();
        let rules = NetworkRules { metered: true, limits, kinds };
        // Without an address the request itself fails.
        let addresses = resolve(self.collector.address.host(), HTTPS).unwrap_or_default();
        let networks = self.shared.host.networks.as_ref();
        rules.objection(networks, &networks.interfaces_used(&addresses))
    }

    /// A lost report is replaced by the next one.
    fn report_live(&self, settings: &Settings) {
        let Some(report) = self.shared.live_report(&settings.name) else { return };
        if self.collector.put(&format!("/v1/live/{}", settings.agent), &report).is_err() {
            self.shared.access(|state| state.counts.failed_requests += 1);
        }
    }
}

/// Puts the state of the outbox into the agent's state.
pub(crate) fn note_outbox(shared: &AgentContext, outbox: &Outbox) {
    let waiting = outbox.waiting();
    let now = shared.now_s();
    let oldest = waiting.first().map_or(0, |first| now.saturating_sub(first.queued_s));
    let entry = (waiting.len() as u32, u32::try_from(oldest).unwrap_or(u32::MAX));
    shared.access(|state| state.outbox = entry);
}
