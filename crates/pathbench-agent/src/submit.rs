//! `pathbench submit`, and `--submit` of the commands that measure: results go to the outbox, and from there to a
//! collector. A failed submission never changes the exit code of a measurement.

use crate::client::{
    CollectorAddress, CollectorArgs, CollectorClient, CollectorError, ConsentArgs, Delivered, Material,
    Outbox, Settings, SettingsFile, deliver, require_consent, state_directory, submission,
};
use clap::Args;
use pathbench_api::Uuid;
use pathbench_api::consent::Consent;
use pathbench_api::deletion::DeletionAnswer;
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::output;
use pathbench_record::text::duration;
use pathbench_record::time::WallClock;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A wait for a busy collector that a user accepts at a prompt.
const SHORT_WAIT: Duration = Duration::from_secs(5);
const ATTEMPTS: usize = 3;

/// `--submit` of the commands that measure.
#[derive(Debug, Clone, Default, Args)]
pub struct SubmitOptions {
    /// Submit the result to this collector when it is written; a result that the collector does not take now waits in the
    /// outbox (`pathbench submit`)
    #[arg(long, value_name = "URL")]
    pub submit: Option<CollectorAddress>,
    #[command(flatten)]
    pub collector: CollectorArgs,
    #[command(flatten)]
    pub consent: ConsentArgs,
}

#[derive(Debug, Args)]
pub struct SubmitArgs {
    /// Result directories; without any, what waits in the outbox is sent
    #[arg(value_name = "DIR", conflicts_with_all = ["delete", "list"])]
    directories: Vec<PathBuf>,
    /// URL of the collector
    #[arg(long, value_name = "URL", env = "PATHBENCH_COLLECTOR", required_unless_present = "list")]
    collector: Option<CollectorAddress>,
    #[command(flatten)]
    access: CollectorArgs,
    #[command(flatten)]
    consent: ConsentArgs,
    /// Delete all results of this host from the collector and those that wait for it
    #[arg(long, conflicts_with = "list")]
    delete: bool,
    /// List the results that wait in the outbox, and those that a collector rejected
    #[arg(long)]
    list: bool,
}

/// Submits results to one collector, with consent.
#[derive(Debug)]
pub struct Submitter {
    collector: CollectorClient,
    settings: Settings,
    outbox: Outbox,
    clock: Arc<dyn WallClock>,
}

impl SubmitOptions {
    /// Asks for consent and checks everything before the measurement.
    pub fn submitter(&self, clock: &Arc<dyn WallClock>) -> Result<Option<Submitter>, Failure> {
        let Some(address) = &self.submit else { return Ok(None) };
        let collector = self.collector.collector(address)?;
        Submitter::new(collector, &self.consent, clock).map(Some)
    }
}

impl Submitter {
    fn new(
        collector: CollectorClient,
        consent: &ConsentArgs,
        clock: &Arc<dyn WallClock>,
    ) -> Result<Self, Failure> {
        if collector.address.is_exposed() {
            output::note(format_args!(
                "pathbench: {}: without https others on the path can read results and tokens",
                collector.address
            ));
        }
        let mut file = SettingsFile::open(consent.config.as_deref())?;
        let settings = require_consent(&mut file, consent.consent, None)?;
        let outbox = Outbox::open(&state_directory()?, settings.limits.outbox.0, clock.unix_seconds())?;
        Ok(Self { collector, settings, outbox, clock: Arc::clone(clock) })
    }

    /// Submits the result of a finished measurement, and reports the outcome on stderr.
    pub fn submit(&self, directory: &Path) {
        let sent = self.keep(directory).and_then(|id| Ok((id, self.send()?)));
        match sent {
            Ok((id, delivered)) => self.report(id, &delivered),
            Err(failure) => output::note(format_args!("pathbench: not submitted: {}", failure.message)),
        }
    }

    /// Puts the result into the outbox.
    fn keep(&self, directory: &Path) -> Result<Uuid, Failure> {
        let now = self.clock.unix_seconds();
        let made = submission(directory, &self.settings, &self.collector.address, Material::default(), now)?;
        if let Some(reason) = &made.without_raw {
            output::note(format_args!(
                "pathbench: {}: submitted without its raw part: {reason}",
                directory.display()
            ));
        }
        self.outbox.keep(made.id, &self.collector.address, &made.directory, &made.line, now)?;
        Ok(made.id)
    }

    fn send(&self) -> Result<Delivered, Failure> {
        let mut all = Delivered::default();
        for attempt in 1..=ATTEMPTS {
            let delivered = deliver(&self.outbox, &self.collector, || true)?;
            all.acknowledged.extend(delivered.acknowledged);
            all.rejected.extend(delivered.rejected);
            all.error = delivered.error;
            let wait = match &all.error {
                Some(error @ CollectorError::Busy { .. }) => {
                    error.retry_after().unwrap_or(Duration::from_secs(1))
                }
                _ => break,
            };
            if wait > SHORT_WAIT || attempt == ATTEMPTS {
                break;
            }
            self.clock.sleep_until(self.clock.now() + wait);
        }
        Ok(all)
    }

    fn report(&self, id: Uuid, delivered: &Delivered) {
        let name = id.to_string();
        let address = &self.collector.address;
        if delivered.acknowledged.contains(&name) {
            output::note(format_args!("submitted to {address} as {name} ({})", self.settings.consent));
        } else if let Some((_, reason)) = delivered.rejected.iter().find(|(id, _)| *id == name) {
            output::note(format_args!("pathbench: {address} rejects the result: {reason}"));
        } else {
            let reason = delivered.error.as_ref().map(ToString::to_string).unwrap_or_default();
            output::note(format_args!(
                "pathbench: not submitted yet: {reason}\nthe result waits in the outbox; `pathbench submit --collector \
                 {address}` sends it"
            ));
        }
    }
}

pub fn submit(args: &SubmitArgs, clock: &Arc<dyn WallClock>) -> Result<Exit, Failure> {
    let Some(address) = args.collector.as_ref().filter(|_| !args.list) else {
        return list(args, clock.unix_seconds());
    };
    let collector = args.access.collector(address)?;
    if args.delete {
        return delete(args, &collector, clock.unix_seconds());
    }
    let submitter = Submitter::new(collector, &args.consent, clock)?;
    let kept: Vec<Result<Uuid, Failure>> = args.directories.iter().map(|one| submitter.keep(one)).collect();
    let delivered = submitter.send()?;
    for id in &delivered.acknowledged {
        output::print(&format!("{id}\n"))?;
    }
    for (id, reason) in &delivered.rejected {
        output::note(format_args!("pathbench: {address} rejects {id}: {reason}"));
    }
    let waiting = submitter.outbox.waiting().len();
    if waiting > 0 {
        output::note(format_args!("{waiting} in the outbox; `pathbench submit --list` lists them"));
    }
    if let Some(error) = delivered.error {
        return Err(error.into());
    }
    let mut failures = kept.into_iter().filter_map(Result::err);
    if let Some(first) = failures.next() {
        let messages: Vec<String> = failures.map(|failure| failure.message).collect();
        let message = [vec![first.message], messages].concat().join("\n");
        return Err(Failure { exit: first.exit, message });
    }
    Ok(if delivered.rejected.is_empty() { Exit::Done } else { Exit::Refused })
}

fn delete(args: &SubmitArgs, collector: &CollectorClient, now_s: u64) -> Result<Exit, Failure> {
    let file = SettingsFile::open(args.consent.config.as_deref())?;
    let Some(settings) = &file.settings else {
        return Err(Failure::bad_input(format!(
            "{} does not exist, so this host has submitted nothing; --config names another file",
            file.path.display()
        )));
    };
    // First, so that nothing is sent after the deletion.
    let outbox = Outbox::open(&state_directory()?, settings.limits.outbox.0, now_s)?;
    let address = collector.address.to_string();
    for waiting in outbox.waiting().iter().filter(|one| one.collector == address) {
        outbox.remove(waiting)?;
    }
    let owner = collector.with_token(settings.deletion_token_at(&collector.address));
    let answer: DeletionAnswer = owner.delete("/v1/results")?;
    output::print(&format!("deleted: {}\n", answer.deleted))?;
    if settings.consent != Consent::None {
        output::note(format_args!("consent stays `{}`: --consent none ends it", settings.consent));
    }
    Ok(Exit::Done)
}

fn list(args: &SubmitArgs, now_s: u64) -> Result<Exit, Failure> {
    let file = SettingsFile::open(args.consent.config.as_deref())?;
    let limits = file.settings.map(|settings| settings.limits).unwrap_or_default();
    let outbox = Outbox::open(&state_directory()?, limits.outbox.0, now_s)?;
    let mut text = String::new();
    for one in outbox.waiting() {
        let age = duration(Duration::from_secs(now_s.saturating_sub(one.queued_s)));
        let _infallible = writeln!(
            text,
            "{} waits {age} for {}: {} ({} bytes)",
            one.id, one.collector, one.result, one.bytes
        );
    }
    for one in outbox.all_rejected() {
        let _infallible = writeln!(text, "{} rejected: {}", one.id, one.reason);
    }
    if text.is_empty() {
        text.push_str("the outbox is empty\n");
    }
    output::print(&text)?;
    Ok(Exit::Done)
}
