//! `pathbench agent`: a collector's experiments on schedule, within the limits of the host's owner, and the owner's own
//! measurements from a local page.
//!
//! Three threads: this one measures, the courier talks to the collector, the responders answer local requests.

use crate::budget::DataBudget;
use crate::client::{
    CollectorAddress, CollectorArgs, CollectorClient, ConsentArgs, Settings, SettingsFile, load_decision,
    renewal, require_consent,
};
use crate::courier::{Courier, Flushed};
use crate::host::AgentHost;
use crate::limits::{OwnerLimits, ServerPattern};
use crate::measurement::Measurer;
use crate::schedule::{ExperimentRefusal, ExperimentSchedule};
use crate::state::AgentContext;
use crate::{durable, page, status};
use clap::Args;
use pathbench_api::consent::Consent;
use pathbench_api::name::Name;
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::responder::Responder;
use pathbench_program::{output, random};
use rustix::fs::FlockOperation;
use serde_json::json;
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(500);
/// Shortest time between two executions.
const GAP: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub struct AgentArgs {
    /// URL of the collector; with --ui optional
    #[arg(value_name = "URL", required_unless_present = "ui")]
    collector: Option<CollectorAddress>,
    #[command(flatten)]
    access: CollectorArgs,
    #[command(flatten)]
    consent: ConsentArgs,
    /// Name of the agent, in a new configuration file [default: a random one]
    #[arg(long, value_name = "NAME", value_parser = |text: &str| Name::new(text).map_err(|error| error.to_string()))]
    name: Option<Name>,
    /// The only test servers: a host name, *.DOMAIN, an address or a network (repeatable) [default: `limits.servers` of the
    /// configuration file, else all on public addresses]
    #[arg(long, value_name = "PATTERN")]
    allow_servers: Vec<ServerPattern>,
    /// Check in once, run each experiment once, send the results, and end
    #[arg(long, conflicts_with = "ui", requires = "collector")]
    once: bool,
    /// Answer GET /metrics (Prometheus) and GET /health over HTTP here; a loopback address is best
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<SocketAddr>,
    /// Serve a page to measure and to see results
    #[arg(long, value_name = "ADDR:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:8384")]
    ui: Option<SocketAddr>,
}

pub fn run(args: &AgentArgs, host: AgentHost) -> Result<Exit, Failure> {
    let collector = args.collector.as_ref().map(|address| args.access.collector(address)).transpose()?;
    let mut file = SettingsFile::open(args.consent.config.as_deref())?;
    match (&collector, args.ui) {
        (Some(_), None) => drop(require_consent(&mut file, args.consent.consent, args.name.as_ref())?),
        // The page asks for it.
        _ if args.consent.consent.is_none() => {}
        _ => drop(load_decision(&mut file, args.consent.consent, args.name.as_ref())?),
    }
    let directory = host.state_directory.clone();
    let _alone = lock_alone(&directory)?;
    let shared = Arc::new(AgentContext::new(file, Arc::new(host)));
    let measurer = Measurer {
        shared: Arc::clone(&shared),
        collector: args.collector.clone(),
        budget: DataBudget::open(&directory)?,
        results: directory.join("results"),
    };
    if let Some(collector) = &collector
        && let Some(token) = collector.token()
        && let Some(renewed) = renewal::load(&directory, &collector.address, &token)
    {
        collector.replace_token(renewed);
    }
    let metrics = args.metrics.map(|address| status::start(address, &shared)).transpose()?;
    let ui = args.ui.map(|address| page::start(address, &shared, measurer.results.clone())).transpose()?;
    announce(
        args,
        &shared.host,
        metrics.as_ref().map(Responder::address),
        ui.as_ref().map(|ui| ui.url.as_str()),
    )?;
    measurer.submit_pending();
    let service = Service { args, shared, measurer, collector };
    if args.once { service.once() } else { service.run() }
}

fn announce(
    args: &AgentArgs,
    host: &AgentHost,
    metrics: Option<SocketAddr>,
    ui: Option<&str>,
) -> Result<(), Failure> {
    let collector = args.collector.as_ref();
    if collector.is_some_and(CollectorAddress::is_exposed) {
        output::note("pathbench: without https others on the path can read results and tokens");
    }
    let shown = collector.map(ToString::to_string);
    host.log(
        "started",
        json!({ "collector": shown, "metrics": metrics, "version": env!("CARGO_PKG_VERSION") }),
    );
    match ui {
        Some(url) => output::print(&format!("{url}\n")),
        None => Ok(()),
    }
}

/// Two agents would use the budget twice.
fn lock_alone(directory: &Path) -> Result<File, Failure> {
    let file = directory.join("agent.lock");
    let failed = |error: std::io::Error| Failure::failed(format!("cannot lock {}: {error}", file.display()));
    durable::create_directory(directory).map_err(failed)?;
    let lock = pathbench_record::file::append(&file, 0o666).map_err(failed)?;
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(lock),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(Failure::failed(format!(
            "another agent of this user runs: it holds {}; stop it first",
            file.display()
        ))),
        Err(error) => Err(failed(error.into())),
    }
}

struct Service<'a> {
    args: &'a AgentArgs,
    shared: Arc<AgentContext>,
    measurer: Measurer,
    collector: Option<CollectorClient>,
}

impl Service<'_> {
    fn limits(&self, settings: Option<Settings>) -> OwnerLimits {
        let mut limits = settings.map(|settings| settings.limits).unwrap_or_default();
        if !self.args.allow_servers.is_empty() {
            limits.servers.clone_from(&self.args.allow_servers);
        }
        limits
    }

    fn log_refusals(&self, refusals: &[ExperimentRefusal]) {
        for one in refusals {
            self.shared.log("refused", json!({ "experiment": one.experiment, "reason": one.reason }));
        }
    }

    fn run(mut self) -> Result<Exit, Failure> {
        let clock = Arc::clone(&self.shared.host.clock);
        if let Some(collector) = self.collector.clone() {
            let courier = Courier { collector, shared: Arc::clone(&self.shared) };
            std::thread::Builder::new()
                .name("courier".to_owned())
                .spawn(move || courier.run())
                .map_err(Failure::failed)?;
        }
        let mut schedule = ExperimentSchedule::default();
        let mut refused = Vec::new();
        while !self.shared.is_stopping() {
            let now = clock.now();
            let settings = self.shared.settings();
            let consents = settings.as_ref().is_some_and(|settings| settings.consent != Consent::None);
            let limits = self.limits(settings);
            self.measurer.note_budget(&limits);
            let fresh = self.shared.access(|state| {
                let answer = state.answer.as_ref().filter(|_| state.is_fresh && consents)?;
                let experiments = answer.experiments.clone();
                state.is_fresh = false;
                Some(experiments)
            });
            if let Some(experiments) = fresh {
                let refusals = schedule.replace(experiments, &limits, now, random::fraction);
                if refusals != refused {
                    self.log_refusals(&refusals);
                    refused = refusals;
                }
            }
            if self.shared.access(|state| std::mem::take(&mut state.outbox_shrank)) {
                // If it is still full, the next experiment is skipped.
                let _still_full = self.measurer.retry_full_outbox();
            }
            if let Some(order) = self.shared.access(|state| state.order.take()) {
                self.measurer.order(&order, &limits);
            } else if consents && let Some(experiment) = schedule.take_due(&limits, now, random::fraction) {
                self.measurer.experiment(&experiment, &limits);
                // The courier sends a batch, even if the next experiment is due.
                clock.sleep_until(clock.now() + GAP);
            }
            clock.sleep_until(now + TICK);
        }
        self.shared.log("stopped", json!({}));
        Ok(Exit::Done)
    }

    fn once(mut self) -> Result<Exit, Failure> {
        let Some(collector) = self.collector.clone() else { return Ok(Exit::BadInput) };
        let Some(settings) = self.shared.consented_settings() else { return Ok(Exit::BadInput) };
        let limits = self.limits(Some(settings.clone()));
        let courier = Courier { collector, shared: Arc::clone(&self.shared) };
        courier.check_in(&settings)?;
        let offered =
            self.shared.access(|state| state.answer.as_ref().map(|answer| answer.experiments.clone()));
        let mut schedule = ExperimentSchedule::default();
        let refusals =
            schedule.replace(offered.unwrap_or_default(), &limits, self.shared.host.clock.now(), || 0.0);
        self.log_refusals(&refusals);
        for experiment in schedule.experiments() {
            if !self.shared.is_stopping() {
                self.measurer.experiment(experiment, &limits);
            }
        }
        loop {
            let was_full = self.shared.access(|state| state.outbox_problem.is_some());
            if let Flushed::Failed(error) = courier.flush(&settings)? {
                return Err(error.into());
            }
            let has_shrunk = self.shared.access(|state| std::mem::take(&mut state.outbox_shrank));
            if !(was_full && has_shrunk) {
                return Ok(Exit::Done);
            }
            let _still_full = self.measurer.retry_full_outbox();
        }
    }
}
