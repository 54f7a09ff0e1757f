//! Tokens, servers, experiments, agents and deletions, on the collector's host.

use super::directory::Opening;
use super::options::{ExperimentAction, ServerAction, StorageArgs, TokenArgs};
use super::{secret, stores};
use crate::assignment::left_out;
use crate::store::record::{
    KnownAgent, RegisteredServer, put_record, record_page, remove_server, server_report,
};
use crate::store::{Database, Deletion, Document, DocumentKind};
use pathbench_api::Uuid;
use pathbench_api::experiment::Experiment;
use pathbench_api::name::Name;
use pathbench_api::token::{Audience, Serial};
use pathbench_program::exit::Failure;
use pathbench_program::random;
use pathbench_record::file;
use pathbench_record::network::ServerName;
use pathbench_record::text::{duration, printable};
use pathbench_record::time::{SharedClock, WallClock};
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
    clock: &SharedClock,
    print: Print<'_>,
) -> Result<(), Failure> {
    if let Some(token) = &args.revoke {
        return revoke(storage, token, clock, print);
    }
    let audience = match (args.admin, args.submit) {
        (true, _) => Audience::Administration,
        (false, true) => Audience::Submission,
        (false, false) => Audience::Agent,
    };
    let name = args.name.clone().unwrap_or_else(|| Name::nearest(<&str>::from(audience)));
    let keys = secret::keys(storage, Opening::Existing)?;
    let token = keys.mint(audience, &name, clock.unix_seconds(), args.valid.0).map_err(Failure::bad_input)?;
    print(&format!("{token}\n"));
    Ok(())
}

fn revoke(storage: &StorageArgs, token: &str, clock: &SharedClock, print: Print<'_>) -> Result<(), Failure> {
    let serial = Serial::from_text(token).ok_or_else(|| {
        Failure::bad_input("--revoke: give a token, or its serial number of 16 hexadecimal digits")
    })?;
    let database = stores::database(storage, clock)?;
    put_record(database.as_ref(), DocumentKind::Revocation, &serial.to_string(), &(), clock.unix_ms())?;
    print(&format!("{serial} is revoked; a running collector knows it within a few seconds\n"));
    Ok(())
}

pub(super) fn rotate_key(
    storage: &StorageArgs,
    keep: Duration,
    clock: &dyn WallClock,
    print: Print<'_>,
) -> Result<(), Failure> {
    let rotated =
        secret::keys(storage, Opening::Existing)?.rotate(random::bytes(), clock.unix_seconds(), keep);
    let path = secret::path(storage, Opening::Existing)?;
    secret::replace(&path, &rotated.file_text())?;
    print(&format!(
        "{}: a new secret; tokens and keys of the earlier one are valid for {}.\nA running collector knows it within a \
         few seconds. Make the keys of test servers anew until then: `server remove NAME`, `server add NAME`.\n",
        path.display(),
        duration(keep)
    ));
    Ok(())
}

fn expect_removed(was_there: bool, kind: DocumentKind, name: &Name) -> Result<(), Failure> {
    if was_there { Ok(()) } else { Err(Failure::bad_input(format!("there is no {} `{name}`", kind.name()))) }
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
            let keys = secret::keys(storage, Opening::Existing)?;
            let text = keys.register(database.as_ref(), name, address.clone(), clock.unix_ms())?;
            if let Some(file) = key {
                secret::write(file, &format!("{text}\n"))?;
            }
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
            expect_removed(remove_server(database.as_ref(), name.as_str())?, DocumentKind::Server, name)
        }
        ServerAction::List => {
            each(database.as_ref(), DocumentKind::Server, |document, registered: RegisteredServer| {
                let key = document.key;
                let line = match server_report(database.as_ref(), &key)? {
                    None => format!("{key}  {}  never reported", registered.address.unwrap_or_default()),
                    Some((reported_ms, known)) => format!(
                        "{key}  {}  {} of {} tests, reported {}",
                        known.address,
                        known.report.tests,
                        known.report.max_tests,
                        ago(clock, reported_ms)
                    ),
                };
                print(&(printable(&line, 400) + "\n"));
                Ok(())
            })
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
            let (name, now_ms) = (experiment.name.as_str(), clock.unix_ms());
            put_record(database.as_ref(), DocumentKind::Experiment, name, &experiment, now_ms)?;
            Ok(())
        }
        ExperimentAction::Remove { name } => {
            let database = stores::database(storage, clock)?;
            let was_there = database.delete_document(DocumentKind::Experiment, name.as_str())?;
            expect_removed(was_there, DocumentKind::Experiment, name)
        }
        ExperimentAction::List => {
            let database = stores::database(storage, clock)?;
            each(database.as_ref(), DocumentKind::Experiment, |_, experiment: Experiment| {
                let kind: &str = experiment.kind.into();
                let every = duration(Duration::from_secs(experiment.schedule.every_s.into()));
                let line = format!("{}  {kind}  every {every}  {}", experiment.name, experiment.description);
                print(&(printable(&line, 400) + "\n"));
                for one in left_out(database.as_ref(), [&experiment])? {
                    let line = format!("  left out: {} ({}): {}", one.agent, one.version, one.reason);
                    print(&(printable(&line, 400) + "\n"));
                }
                Ok(())
            })
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
    let text = file::read_text_named(file, LONGEST_FILE_BYTES).map_err(|error| wrong(&error))?;
    let experiment: Experiment = toml::from_str(&text).map_err(|error| wrong(&error))?;
    match experiment.problem() {
        Some(problem) => Err(wrong(&problem)),
        None => Ok(experiment),
    }
}

pub(super) fn agents(storage: &StorageArgs, clock: &SharedClock, print: Print<'_>) -> Result<(), Failure> {
    let database = stores::database(storage, clock)?;
    each(database.as_ref(), DocumentKind::Agent, |document, known: KnownAgent| {
        let check_in = known.check_in;
        let line = format!(
            "{}  {}  {}  {}  {}  checked in {}, {} waiting",
            document.key,
            check_in.name,
            check_in.version,
            check_in.consent,
            known.token.as_deref().unwrap_or("without a token"),
            ago(clock, document.updated_ms),
            check_in.outbox
        );
        print(&(printable(&line, 400) + "\n"));
        Ok(())
    })
}

/// Calls `visit` with each record of a kind, by key; a page of them is in memory.
fn each<T: DeserializeOwned>(
    database: &dyn Database,
    kind: DocumentKind,
    mut visit: impl FnMut(Document, T) -> Result<(), Failure>,
) -> Result<(), Failure> {
    const RECORDS: usize = 200;
    let mut after = String::new();
    loop {
        let page = record_page(database, kind, (&after, RECORDS))?;
        page.records.into_iter().try_for_each(|(document, record)| visit(document, record))?;
        match page.next {
            Some(next) => after = next,
            None => return Ok(()),
        }
    }
}

pub(super) fn delete(
    storage: &StorageArgs,
    id: Uuid,
    clock: &SharedClock,
    print: Print<'_>,
) -> Result<(), Failure> {
    let deleted = stores::database(storage, clock)?.delete(&Deletion::One(id), clock.unix_ms())?;
    if deleted == 0 {
        return Err(Failure::bad_input(format!("there is no result {id}")));
    }
    print(&format!("deleted {id}\n"));
    Ok(())
}
