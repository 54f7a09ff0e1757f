//! `setup`: endpoints, limits, rules and routes that multipath requires on this host: the plan, its application by
//! netlink with a journal, its undo, its persistence, and a watch that follows interfaces.
//!
//! `pathbench-check` plans, `pathbench-host` applies and undoes.

mod application;
mod arguments;
mod executable;
mod host;
mod managers;
mod presentation;
mod storage;
mod watch;

pub(crate) use arguments::SetupArgs;

use crate::journal;
use application::SetupApplication;
use pathbench_check::setup::{Role, SetupPlan};
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::output;
use pathbench_record::time::SharedClock;
use presentation::SetupDocument;

pub(crate) fn setup(args: &SetupArgs, clock: &SharedClock) -> Result<Exit, Failure> {
    if args.persist {
        // Before anything is changed.
        executable::find(&args.root)?;
    }
    let locate = if args.apply { journal::create_file } else { journal::find_file };
    let journal = locate("setup", args.journal.as_deref())?;
    let mut application = SetupApplication::open(journal, args, clock)?;
    let persist = |application: &SetupApplication, plan: &SetupPlan| {
        storage::write(&args.root, &application.files(plan)?)
    };
    if args.undo {
        return undo(&mut application, args);
    }
    if args.watch {
        if args.persist {
            persist(&application, &application.plan()?)?;
        }
        return watch::watch(&mut application, args, clock);
    }
    let plan = if args.apply { application.apply()? } else { application.plan()? };
    let files = if args.persist { persist(&application, &plan)? } else { Vec::new() };
    if args.json {
        output::print_json(&SetupDocument::new(&plan, args, &files))?;
    } else {
        output::print(&presentation::script(&plan, args.apply))?;
    }
    if args.apply {
        application.verify()?;
    }
    ending(&plan, args.role)
}

fn ending(plan: &SetupPlan, role: Role) -> Result<Exit, Failure> {
    if let Some(why) = plan.why_withheld() {
        return Err(Failure {
            exit: Exit::MultipathNotUsed,
            message: format!("endpoints are missing: {why}"),
        });
    }
    match plan.why_single_path() {
        Some(why) if role == Role::Client => Err(Failure {
            exit: Exit::MultipathNotUsed,
            message: format!("this host has one path at most: {why}"),
        }),
        _ => Ok(Exit::Done),
    }
}

fn undo(application: &mut SetupApplication, args: &SetupArgs) -> Result<Exit, Failure> {
    let undone = application.undo(args.force);
    let printed = output::print(&undone.restored);
    let removed = storage::remove(&args.root, args.force).and_then(|lines| output::print(&lines));
    undone.ending.and(removed).and(printed).map(|()| Exit::Done)
}
