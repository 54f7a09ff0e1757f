//! `mtu`: the MTU of each path to a server, what the kernel believes of it, and putting the kernel right.
//!
//! The kernel is asked first, because ICMP answers to our own probes teach it; then all paths are probed at the same time,
//! a thread each; then both are compared. What is to be changed is planned and journalled by `pathbench-host`.

mod arguments;
mod examination;
mod judgement;
mod path;

pub(crate) use arguments::MtuArgs;

use crate::client::address::ServerName;
use crate::client::ways::HostNetwork;
use crate::clock::{MonotonicClock, unix_seconds};
use crate::exit::{Exit, Failure};
use crate::result::host_record;
use crate::{report, signals, terminal};
use pathbench_record::calendar::rfc3339_from_unix;
use pathbench_record::document::{MtuRecord, ResultDocument, ScenarioRecord};
use pathbench_record::time::Clock;
use std::sync::Arc;

/// Name of a result of this command.
const NAME: &str = "mtu";

pub(crate) fn mtu(args: &MtuArgs) -> Result<Exit, Failure> {
    let Some(given) = &args.server else {
        return Err(Failure::failed("--undo: to come"));
    };
    let server = ServerName::parse(given, args.port).map_err(Failure::bad_input)?;
    let stop = signals::stop_flag();
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    let started = rfc3339_from_unix(unix_seconds() as i64);
    let servers = path::addresses(&server, args.family())?;
    let network = HostNetwork::read().map_err(Failure::failed)?;
    let choice = path::choose(&network, &args.paths, &servers)?;
    let paths = examination::examine(&choice.paths, args.token.as_deref(), &clock, &stop);
    let record = MtuRecord { server: server.to_string(), paths, notes: choice.notes, ..MtuRecord::default() };
    let document = ResultDocument {
        scenario: ScenarioRecord {
            name: NAME.to_owned(),
            description: format!("The MTU of each path to {server}"),
            origin: "command line".to_owned(),
            ..ScenarioRecord::default()
        },
        host: host_record("user", started),
        mtu: Some(record),
        ..ResultDocument::default()
    };
    if args.output.json {
        report::print_json(&document)?;
    } else if let Some(record) = &document.mtu {
        let _ = (record, terminal::style());
    }
    Ok(Exit::Done)
}
