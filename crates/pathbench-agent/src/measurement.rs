//! A measurement from its order to its submission: the server, the interfaces, the budget, the child process, the outbox.

use crate::arguments::{select_interfaces, server_arguments, test_arguments};
use crate::budget::{DataBudget, Reservation};
use crate::client::{CollectorAddress, Material, Settings, submission};
use crate::courier::note_outbox;
use crate::durable;
use crate::execution::{Execution, ExecutionOutcome};
use crate::history;
use crate::limits::OwnerLimits;
use crate::networks::{HostNetworks, NetworkRules, NetworkState};
use crate::pending::{self, Pending, ResultFate};
use crate::state::{AgentContext, Choice, MeasurementOrder, RunningMeasurement};
use crate::target::{TestTarget, filter_servers, select_nearest};
use pathbench_api::check_in::OfferedServer;
use pathbench_api::consent::Consent;
use pathbench_api::experiment::{Experiment, ExperimentKind, Family};
use pathbench_api::name::Name;
use pathbench_api::summary::{FamilyPair, ReachabilitySummary, family_pairs, reachability};
use pathbench_program::exit::Exit;
use pathbench_record::directory::{ResultDirectory, default_directory_name};
use pathbench_record::document::{Reachability, ResultDocument};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A measurement of the owner ends by its own rules or by the owner.
const UNLIMITED: Duration = Duration::from_secs(86_400);
/// A measurement waits so long for an upload that has begun; a batch has a shorter deadline.
const UPLOAD: Duration = Duration::from_secs(200);
const TICK: Duration = Duration::from_millis(50);

pub(crate) struct Measurer {
    pub(crate) shared: Arc<AgentContext>,
    pub(crate) collector: Option<CollectorAddress>,
    pub(crate) budget: DataBudget,
    /// The directory of all results of the agent.
    pub(crate) results: PathBuf,
}

/// One of the tests of an execution: one of each IP version.
struct Part {
    family: Option<Family>,
    interfaces: Vec<String>,
    arguments: Vec<String>,
}

/// The result of a child, or its attempts to reach the server.
struct Measured {
    family: Option<Family>,
    directory: PathBuf,
    reachability: Vec<Reachability>,
}

impl Measured {
    const fn alone(directory: PathBuf) -> Self {
        Self { family: None, directory, reachability: Vec::new() }
    }

    fn document(&self) -> ResultDocument {
        let attempts =
            || ResultDocument { reachability: self.reachability.clone(), ..ResultDocument::default() };
        ResultDirectory::open(&self.directory).map_or_else(|_| attempts(), |result| result.document)
    }
}

impl Measurer {
    /// Runs an experiment; the outcome goes to the log, the metrics and the outbox.
    pub(crate) fn experiment(&mut self, experiment: &Experiment, limits: &OwnerLimits) {
        let name = experiment.name.to_string();
        match self.run_experiment(experiment, limits) {
            Ok(outcome) => self.count(outcome),
            Err(reason) => {
                self.shared.log("skipped", json!({ "experiment": name, "reason": reason }));
                self.shared.access(|state| state.last = Some(format!("{name}: skipped, {reason}")));
                self.count("skipped");
            }
        }
    }

    fn count(&self, outcome: &'static str) {
        self.shared.access(|state| *state.counts.executions.entry(outcome).or_default() += 1);
    }

    fn run_experiment(
        &mut self,
        experiment: &Experiment,
        limits: &OwnerLimits,
    ) -> Result<&'static str, String> {
        self.retry_full_outbox()?;
        let target = self.target(experiment, limits)?;
        let kinds = self.shared.settings().map(|settings| settings.kinds).unwrap_or_default();
        let rules = NetworkRules { metered: experiment.metered, limits: limits.clone(), kinds };
        let parts = parts(experiment, &target, &rules, self.shared.host.networks.as_ref())?;
        let interfaces: BTreeSet<&String> = parts.iter().flat_map(|part| &part.interfaces).collect();
        let interfaces: Vec<String> = interfaces.into_iter().cloned().collect();
        let reservation =
            self.budget.reserve(self.shared.now_s(), &interfaces, experiment.most_bytes, limits)?;
        self.note_budget(limits);
        let mut used: BTreeMap<String, u64> = interfaces.into_iter().map(|name| (name, 0)).collect();
        let mut results = Vec::new();
        let mut worst = "done";
        let mut lasted = Duration::ZERO;
        for part in parts {
            let spent: u64 = used.values().sum();
            let own_left = |name: &String| (name.clone(), reservation.left[name].saturating_sub(used[name]));
            let execution = Execution {
                arguments: part.arguments,
                token: target.token.clone(),
                directory: self.directory(experiment.name.as_str()),
                left: part.interfaces.iter().map(own_left).collect(),
                most_bytes: experiment.most_bytes.saturating_sub(spent),
                longest: limits.longest.0,
                spent: lasted,
                networks: Some(rules.clone()),
            };
            match self.execute(execution, Some(&experiment.name), (&target.name, true), experiment.kind) {
                Ok((directory, outcome)) => {
                    lasted += outcome.lasted;
                    for name in part.interfaces {
                        // An interface that is gone counts with all that it could have used.
                        let bytes = outcome.used.get(&name).copied().unwrap_or(experiment.most_bytes);
                        *used.entry(name).or_default() += bytes;
                    }
                    worst = match (&outcome.stopped, outcome.is_good()) {
                        (Some(_), _) => "stopped",
                        (None, true) => worst,
                        (None, false) => "failed",
                    };
                    let (family, reachability) = (part.family, outcome.reachability);
                    results.push(Measured { family, directory, reachability });
                }
                Err(problem) => {
                    self.shared.log("failed", json!({ "experiment": experiment.name, "error": problem }));
                    worst = "failed";
                }
            }
            if self.shared.is_stopping() || worst == "stopped" {
                break;
            }
        }
        self.settle(&reservation, &used);
        self.submit_all(&results, Some(&experiment.name), Some(&target.name));
        Ok(worst)
    }

    /// A measurement that the owner orders. The owner's limits are for collectors, and for the servers that they offer.
    pub(crate) fn order(&mut self, order: &MeasurementOrder, limits: &OwnerLimits) {
        let words = self.run_order(order, limits).unwrap_or_else(|reason| {
            self.shared.log("failed", json!({ "error": reason }));
            reason
        });
        self.shared.access(|state| state.last = Some(words));
    }

    fn run_order(&mut self, order: &MeasurementOrder, limits: &OwnerLimits) -> Result<String, String> {
        let is_offered = matches!(order.server, Choice::Offered { .. });
        let target = match &order.server {
            Choice::Offered { name } => {
                let offered = self.shared.servers().into_iter().find(|server| server.name.as_str() == name);
                let offered =
                    offered.ok_or_else(|| format!("the collector does not offer {name} any more"))?;
                TestTarget::new(&offered, limits, self.shared.host.networks.as_ref())?
            }
            Choice::Own { address, fingerprint, token } => TestTarget::without_limits(&OfferedServer {
                name: Name::nearest(address),
                address: address.clone(),
                quic_ports: Vec::new(),
                fingerprint: fingerprint.clone(),
                token: token.clone(),
                load: 0.0,
            })?,
        };
        let address = target.address(None).ok_or_else(|| format!("{} has no address", target.name))?;
        let interfaces = self.shared.host.networks.interfaces_to(address)?;
        let kind = if order.mobile { ExperimentKind::Roam } else { ExperimentKind::Test };
        let mut arguments = server_arguments(kind, &target, address);
        if !order.mobile {
            arguments.extend(["--repeat", "1"].map(str::to_owned));
        }
        let left: BTreeMap<String, u64> = interfaces.into_iter().map(|name| (name, u64::MAX)).collect();
        let execution = Execution {
            arguments,
            token: target.token.clone(),
            directory: self.directory(if order.mobile { "roam" } else { "test" }),
            left: left.clone(),
            most_bytes: u64::MAX,
            longest: UNLIMITED,
            spent: Duration::ZERO,
            networks: None,
        };
        let (directory, outcome) = self.execute(execution, None, (&target.name, is_offered), kind)?;
        self.settle(&Reservation { left, bytes: 0 }, &outcome.used);
        self.submit_all(&[Measured::alone(directory)], None, is_offered.then_some(&target.name));
        self.count(if outcome.is_good() { "done" } else { "failed" });
        let message = outcome.message.lines().last().unwrap_or_default().to_owned();
        Ok(match (&outcome.stopped, outcome.is_good()) {
            (Some(reason), _) => reason.clone(),
            (None, true) => "done".to_owned(),
            (None, false) => format!("failed: {message}"),
        })
    }

    /// The nearest permitted server of an experiment.
    fn target(&self, experiment: &Experiment, limits: &OwnerLimits) -> Result<TestTarget, String> {
        let servers = self.shared.servers();
        let offered = filter_servers(&servers, &experiment.servers);
        if offered.is_empty() {
            return Err("the collector offers no server for it".to_owned());
        }
        let mut reason = String::new();
        let mut targets = Vec::new();
        for server in offered {
            match TestTarget::new(server, limits, self.shared.host.networks.as_ref()) {
                Ok(target) => targets.push(target),
                Err(why) => {
                    self.shared.log("server refused", json!({ "server": server.name, "reason": why }));
                    reason = format!("{}: {why}", server.name);
                }
            }
        }
        select_nearest(targets, self.shared.host.clock.as_ref()).ok_or(reason)
    }

    fn execute(
        &self,
        mut execution: Execution,
        experiment: Option<&Name>,
        (server, is_offered): (&Name, bool),
        kind: ExperimentKind,
    ) -> Result<(PathBuf, ExecutionOutcome), String> {
        let consent = self.shared.settings().map_or(Consent::None, |settings| settings.consent);
        if experiment.is_some() && consent == Consent::None {
            return Err("the owner has withdrawn the consent".to_owned());
        }
        durable::create_directory(&self.results)
            .map_err(|error| format!("cannot create {}: {error}", self.results.display()))?;
        let out = execution.directory.clone();
        execution.arguments.extend(["--json-stream", "--quiet", "--out"].map(str::to_owned));
        execution.arguments.push(out.display().to_string());
        if experiment.is_some() {
            execution.arguments.push("--no-report".to_owned());
        }
        let note = Pending {
            directory: out.clone(),
            experiment: experiment.cloned(),
            server: is_offered.then(|| server.clone()),
            collector: self.collector.as_ref().map(ToString::to_string),
            consent,
        };
        note.note().map_err(|error| format!("cannot write to {}: {error}", self.results.display()))?;
        let title: &'static str = kind.into();
        let measurement = RunningMeasurement {
            title: title.to_owned(),
            experiment: experiment.map(Name::to_string),
            server: server.to_string(),
            ..RunningMeasurement::default()
        };
        let _from_before = self.shared.take_cancellation();
        self.shared.access(|state| state.measurement = Some(measurement));
        self.wait_for_upload();
        self.shared.log("begins", json!({ "experiment": experiment, "server": server, "kind": title }));
        let ended = execution.run(&self.shared);
        self.shared.access(|state| state.measurement = None);
        let outcome = ended.map_err(|error| format!("cannot start the measurement: {error}"))?;
        self.shared.log(
            "ended",
            json!({ "experiment": experiment, "server": server, "exit": outcome.exit, "stopped": outcome.stopped,
                    "bytes": outcome.used, "message": if outcome.is_good() { None } else { Some(&outcome.message) } }),
        );
        Ok((out, outcome))
    }

    /// No other one begins while `state.measurement` is set.
    fn wait_for_upload(&self) {
        let clock = &self.shared.host.clock;
        let deadline = clock.now() + UPLOAD;
        while self.shared.access(|state| state.is_uploading)
            && !self.shared.is_stopping()
            && clock.now() < deadline
        {
            clock.sleep_until(clock.now() + TICK);
        }
    }

    fn directory(&self, name: &str) -> PathBuf {
        let plain: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' })
            .take(40)
            .collect();
        let started = self.shared.host.clock.rfc3339();
        let mut directory = default_directory_name(&self.results, &plain, &started);
        // The second IP version begins in the same second if the first one fails at once, without a directory.
        for number in 2.. {
            if !directory.exists() && Pending::read(&directory).is_none() {
                break;
            }
            directory = default_directory_name(&self.results, &format!("{plain}-{number}"), &started);
        }
        directory
    }

    fn settle(&mut self, reservation: &Reservation, used: &BTreeMap<String, u64>) {
        if let Err(error) = self.budget.settle(self.shared.now_s(), reservation, used) {
            // On the disk the reservation stays, which is more than was used.
            self.shared.log("budget", json!({ "error": error.to_string() }));
        }
    }

    pub(crate) fn note_budget(&mut self, limits: &OwnerLimits) {
        let budget: BTreeMap<String, (u64, u64)> = self
            .budget
            .interfaces(self.shared.now_s())
            .map(|(name, bytes)| (name.to_owned(), (bytes, limits.month_of(name))))
            .collect();
        self.shared.access(|state| state.budget = budget);
    }

    /// Puts the results into the outbox. The last one of two IP versions gets their pairs and the other's attempts.
    fn submit_all(&self, results: &[Measured], experiment: Option<&Name>, server: Option<&Name>) {
        let last = results.iter().rposition(|one| one.directory.exists());
        for (index, own) in results.iter().enumerate() {
            let directory = &own.directory;
            let settings = self.shared.settings();
            let fate = Pending::read(directory).map(|note| note.fate(self.collector.as_ref(), settings));
            match (fate, &self.collector) {
                (Some(ResultFate::Submitted(settings)), Some(collector)) => {
                    let other = results.iter().find(|one| last == Some(index) && one.family != own.family);
                    let (family_pairs, other_reachability) =
                        other.map(|other| both_families(own, other)).unwrap_or_default();
                    let material = Material {
                        experiment: experiment.cloned(),
                        family_pairs,
                        other_reachability,
                        server: server.cloned(),
                    };
                    self.submit_one(directory, &settings, collector, material);
                    self.shared.something_waits();
                }
                (Some(ResultFate::Waits), _) => {}
                _ => pending::forget(directory),
            }
        }
        history::prune(&self.results);
    }

    /// Submits what could not be put into the outbox before.
    pub(crate) fn submit_pending(&self) {
        for Pending { directory, experiment, server, .. } in Pending::all(&self.results) {
            self.shared.log("recovered", json!({ "result": directory.display().to_string() }));
            self.submit_all(&[Measured::alone(directory)], experiment.as_ref(), server.as_ref());
        }
    }

    /// Puts the results for which the outbox had no space into it; the reason if it still has none.
    pub(crate) fn retry_full_outbox(&self) -> Result<(), String> {
        if self.shared.access(|state| state.outbox_problem.take()).is_some() {
            self.submit_pending();
        }
        self.shared.access(|state| state.outbox_problem.clone()).map_or(Ok(()), Err)
    }

    fn submit_one(
        &self,
        directory: &Path,
        settings: &Settings,
        collector: &CollectorAddress,
        material: Material,
    ) {
        // A measurement that failed before its first run has no directory.
        if !directory.exists() {
            return pending::forget(directory);
        }
        let failed = |problem: &str| {
            self.shared
                .log("not submitted", json!({ "result": directory.display().to_string(), "error": problem }));
        };
        let now = self.shared.now_s();
        let made = match submission(directory, settings, collector, material, now) {
            Ok(made) => made,
            Err(failure) => {
                failed(&failure.message);
                // After an error of the disk or the clock the next start tries again.
                if failure.exit == Exit::BadInput {
                    pending::forget(directory);
                }
                return;
            }
        };
        if let Some(reason) = &made.without_raw {
            self.shared.log("without raw part", json!({ "id": made.id, "reason": reason }));
        }
        let kept = self.shared.open_outbox(settings).and_then(|outbox| {
            outbox.keep(made.id, collector, &made.directory, &made.line, now)?;
            note_outbox(&self.shared, &outbox);
            Ok(())
        });
        match kept {
            Ok(()) => pending::forget(directory),
            // The outbox or the disk is full.
            Err(failure) => {
                failed(&failure.message);
                self.shared.access(|state| state.outbox_problem = Some(failure.message));
            }
        }
    }
}

/// The tests of an execution, or why there are none.
fn parts(
    experiment: &Experiment,
    target: &TestTarget,
    rules: &NetworkRules,
    host: &dyn HostNetworks,
) -> Result<Vec<Part>, String> {
    let mut families: Vec<Option<Family>> = experiment.families.iter().copied().map(Some).collect();
    families.dedup();
    if families.is_empty() {
        families.push(None);
    }
    let networks = NetworkState::read(host, &rules.kinds);
    let mut parts = Vec::new();
    let mut reason = format!("{} has no address of the IP version", target.name);
    for family in families {
        let Some(address) = target.address(family) else { continue };
        // A host without a route over one IP version measures over the other one.
        match select_interfaces(experiment, address, host, &networks, &rules.limits) {
            Ok((interfaces, transports)) => {
                let arguments = test_arguments(experiment, target, address, family, &interfaces, &transports);
                parts.push(Part { family, interfaces, arguments });
            }
            Err(why) => reason = why,
        }
    }
    if parts.is_empty() { Err(reason) } else { Ok(parts) }
}

/// The pairs of completion times over IPv4 and IPv6, and the reachability over the other IP version.
fn both_families(own: &Measured, other: &Measured) -> (Vec<FamilyPair>, Vec<ReachabilitySummary>) {
    let [own_document, other_document] = [own, other].map(Measured::document);
    let pairs = if own.family == Some(Family::Ipv4) {
        family_pairs(&own_document, &other_document)
    } else {
        family_pairs(&other_document, &own_document)
    };
    (pairs, reachability(&other_document))
}
