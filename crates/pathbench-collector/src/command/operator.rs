//! Tokens, servers, experiments, agents and deletions, on the collector's host.

use super::directory::Opening;
use super::options::{ExperimentAction, ServerAction, StorageArgs, TokenArgs};
use super::{secret, stores};
use crate::keys::KeyPurpose;
use crate::store::record::{KnownAgent, KnownServer, RegisteredServer, put_record, records, remove_server};
use crate::store::{Database, Deletion, Document, DocumentKind, StoreError};
use pathbench_api::Uuid;
use pathbench_api::experiment::Experiment;
use pathbench_api::name::Name;
use pathbench_program::exit::Failure;
use pathbench_record::network::ServerName;
use pathbench_record::text::{duration, printable};
use pathbench_record::time::{SharedClock, WallClock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::path::Path;
use std::time::Duration;

type Print<'a> = &'a mut dyn FnMut(&str);

/// A file of an experiment is not larger.
const LONGEST_FILE_BYTES: u64 = 64 << 10;

pub(super) fn token(
    storage: &StorageArgs,
    args: &TokenArgs,
    clock: &dyn WallClock,
    print: Print<'_>,
) -> Result<(), Failure> {
    let purpose = if args.admin { KeyPurpose::Admin } else { KeyPurpose::Submit };
    let key = secret::keys(storage, Opening::Existing)?.token_key(purpose);
    let token = key.mint(&args.name, clock.unix_ms() / 1000, args.valid.0).map_err(Failure::bad_input)?;
    print(&format!("{token}\n"));
    Ok(())
}

fn put(
    database: &dyn Database,
    kind: DocumentKind,
    key: &Name,
    body: &impl Serialize,
    clock: &SharedClock,
) -> Result<(), Failure> {
    put_record(database, kind, key.as_str(), body, clock.unix_ms()).map_err(Failure::failed)
}

fn all<T: DeserializeOwned>(
    database: &dyn Database,
    kind: DocumentKind,
) -> Result<Vec<(Document, T)>, Failure> {
    records(database, kind).map_err(Failure::failed)
}

fn removed(outcome: Result<bool, StoreError>, kind: DocumentKind, name: &Name) -> Result<(), Failure> {
    match outcome {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::bad_input(format!("there is no {} `{name}`", kind.name()))),
        Err(error) => Err(Failure::failed(error)),
    }
}

/// Time since `then_ms`, in words.
fn ago(clock: &SharedClock, then_ms: u64) -> String {
    let time = Duration::from_millis(clock.unix_ms().saturating_sub(then_ms));
    format!("{} ago", duration(Duration::from_secs(time.as_secs())))
}

pub(super) fn server(
    storage: &StorageArgs,
    action: &ServerAction,
    clock: &SharedClock,
    print: Print<'_>,
) -> Result<(), Failure> {
    let database = stores::database(storage, clock)?;
    match action {
        ServerAction::Add { name, address, key } => {
            if let Some(address) = address {
                ServerName::parse(address, 4433).map_err(Failure::bad_input)?;
            }
            let text = secret::keys(storage, Opening::Existing)?.text(KeyPurpose::Server(name));
            if let Some(file) = key {
                secret::write(file, &format!("{text}\n"))?;
            }
            put(
                database.as_ref(),
                DocumentKind::Server,
                name,
                &RegisteredServer { address: address.clone() },
                clock,
            )?;
            match key {
                None => print(&format!("{text}\n")),
                Some(file) => print(&format!(
                    "{file}: the key of {name}. Copy it to the server and start there:\n  \
                     pathbench serve --token-key {file} --collector URL --collector-name {name}\n",
                    file = file.display()
                )),
            }
            Ok(())
        }
        ServerAction::Remove { name } => {
            removed(remove_server(database.as_ref(), name.as_str()), DocumentKind::Server, name)
        }
        ServerAction::List => {
            let reports: Vec<(Document, KnownServer)> = all(database.as_ref(), DocumentKind::ServerReport)?;
            for (document, registered) in all::<RegisteredServer>(database.as_ref(), DocumentKind::Server)? {
                let report = reports.iter().find(|(report, _)| report.key == document.key);
                let line = match report {
                    None => format!(
                        "{}  {}  never reported",
                        document.key,
                        registered.address.unwrap_or_default()
                    ),
                    Some((report, known)) => format!(
                        "{}  {}  {} of {} tests, reported {}",
                        document.key,
                        known.address,
                        known.report.tests,
                        known.report.max_tests,
                        ago(clock, report.updated_ms)
                    ),
                };
                print(&(printable(&line, 400) + "\n"));
            }
            Ok(())
        }
    }
}

pub(super) fn experiment(
    storage: &StorageArgs,
    action: &ExperimentAction,
    clock: &SharedClock,
    print: Print<'_>,
) -> Result<(), Failure> {
    match action {
        ExperimentAction::Put { file } => {
            let experiment = read_experiment(file)?;
            let database = stores::database(storage, clock)?;
            put(database.as_ref(), DocumentKind::Experiment, &experiment.name, &experiment, clock)
        }
        ExperimentAction::Remove { name } => {
            let outcome =
                stores::database(storage, clock)?.delete_document(DocumentKind::Experiment, name.as_str());
            removed(outcome, DocumentKind::Experiment, name)
        }
        ExperimentAction::List => {
            for (_, experiment) in
                all::<Experiment>(stores::database(storage, clock)?.as_ref(), DocumentKind::Experiment)?
            {
                let kind: &str = experiment.kind.into();
                let every = duration(Duration::from_secs(experiment.schedule.every_s.into()));
                let line = format!("{}  {kind}  every {every}  {}", experiment.name, experiment.description);
                print(&(printable(&line, 400) + "\n"));
            }
            Ok(())
        }
    }
}

fn read_experiment(file: &Path) -> Result<Experiment, Failure> {
    let wrong =
        |problem: &dyn std::fmt::Display| Failure::bad_input(format!("{}: {problem}", file.display()));
    let size = fs::metadata(file).map_err(|error| wrong(&error))?.len();
    if size > LONGEST_FILE_BYTES {
        return Err(wrong(&format!("it has {size} bytes; an experiment has at most {LONGEST_FILE_BYTES}")));
    }
    let text = fs::read_to_string(file).map_err(|error| wrong(&error))?;
    let experiment: Experiment = toml::from_str(&text).map_err(|error| wrong(&error))?;
    match experiment.problem() {
        Some(problem) => Err(wrong(&problem)),
        None => Ok(experiment),
    }
}

pub(super) fn agents(storage: &StorageArgs, clock: &SharedClock, print: Print<'_>) -> Result<(), Failure> {
    for (document, known) in
        all::<KnownAgent>(stores::database(storage, clock)?.as_ref(), DocumentKind::Agent)?
    {
        let check_in = known.check_in;
        let line = format!(
            "{}  {}  {}  {}  checked in {}, {} waiting",
            document.key,
            check_in.name,
            check_in.version,
            check_in.consent,
            ago(clock, document.updated_ms),
            check_in.outbox
        );
        print(&(printable(&line, 400) + "\n"));
    }
    Ok(())
}

pub(super) fn delete(
    storage: &StorageArgs,
    id: Uuid,
    clock: &SharedClock,
    print: Print<'_>,
) -> Result<(), Failure> {
    let deleted = stores::database(storage, clock)?
        .delete(&Deletion::One(id), clock.unix_ms())
        .map_err(Failure::failed)?;
    if deleted == 0 {
        return Err(Failure::bad_input(format!("there is no result {id}")));
    }
    print(&format!("deleted {id}\n"));
    Ok(())
}
