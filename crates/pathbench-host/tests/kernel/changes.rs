//! Changes of a multipath set-up (rules, routes, endpoints, limits, settings): their undo after an interruption at any
//! point, their roll-back, and changes by other programs.

use crate::fixture::wire_name;
use crate::remedies::{Bench, FAMILIES, SUBFLOW, same, stopped};
use libtest_mimic::Failed;
use pathbench_host::change::{Applier, ApplyError, ChangePlan, Operation, UndoOutcome};
use pathbench_host::mptcp::{EndpointFlags, MptcpEndpoint, MptcpLimits, PathManager};
use pathbench_host::netlink::{Route, RoutingRule};
use pathbench_host::sysctl;
use pathbench_record::network::{DEFAULT_V4, DEFAULT_V6, IpNet};
use pathbench_testkit::{TrialOutcome, ensure, tests};
use std::net::IpAddr;

tests!(
    an_interrupted_set_up_is_undone,
    an_interrupted_undo_of_a_set_up_can_be_continued,
    a_failed_step_rolls_back_the_steps_before_it,
    a_roll_back_keeps_earlier_steps,
    a_part_is_undone_alone,
    set_ups_changed_by_other_programs_are_kept,
    an_obstacle_stops_a_set_up,
    an_endpoint_with_an_id_of_the_kernel_is_removed,
);

fn setting() -> String {
    format!("net/ipv4/conf/{}/rp_filter", wire_name(1))
}

/// The setting, read in the client.
fn filter(bench: &Bench) -> Result<String, Failed> {
    Ok(bench.namespace().run_in(|| sysctl::read(&setting()))??)
}

/// Calls `task` with an applier, in the client's namespace, to which settings belong.
fn apply<R>(bench: &Bench, task: impl FnOnce(Applier) -> R + Send) -> Result<R, Failed>
where
    R: Send,
{
    let applier = bench.remedy()?;
    Ok(bench.namespace().run_in(|| task(applier))?)
}

/// A set-up of the second path, with every kind of operation.
fn set_up(bench: &mut Bench) -> Result<ChangePlan, Failed> {
    let (index, address) = (bench.index(1)?, (bench.address)(1, 1));
    let everywhere = if address.is_ipv4() { DEFAULT_V4 } else { DEFAULT_V6 };
    let route = Route {
        gateway: Some((bench.address)(1, 2)),
        interface: Some(index),
        table: 8300,
        ..Route::new(everywhere)
    };
    let rule = RoutingRule { from: IpNet::from(address), table: 8300, priority: 83 };
    let endpoint = MptcpEndpoint { address, port: None, id: Some(7), interface: Some(index), flags: SUBFLOW };
    // A new namespace may have any filter.
    bench.namespace().run_in(|| sysctl::write(&setting(), "0"))??;
    let before = filter(bench)?;
    let after = "2".to_owned();
    let backup = EndpointFlags { backup: true, ..SUBFLOW };
    let limits = PathManager::open_in(bench.namespace())?.limits()?;
    let mut plan = ChangePlan::default();
    for operation in [
        Operation::SetSysctl { key: setting(), before, after },
        Operation::AddRoute { route: route.to_entry().ok_or("no entry")? },
        Operation::AddRule { rule },
        Operation::SetLimits { before: limits, after: MptcpLimits { subflows: 6, add_addr_accepted: 3 } },
        Operation::AddEndpoint { endpoint },
        Operation::ChangeEndpoint { before: endpoint, after: backup },
    ] {
        plan.push(operation, &[(index, wire_name(1))].into());
    }
    Ok(plan)
}

fn an_interrupted_set_up_is_undone() -> TrialOutcome {
    for address in FAMILIES {
        let mut bench = Bench::new(address)?;
        let plan = set_up(&mut bench)?;
        let (before, setting) = (bench.image()?, filter(&bench)?);
        let mut moments = 0;
        while let Err(error) = apply(&bench, |applier| stopped(applier, moments).apply_whole(&plan))? {
            ensure!(matches!(error, ApplyError::Interrupted), "{error}");
            let report = apply(&bench, |mut applier| applier.undo(false))??;
            ensure!(report.is_complete(), "stopped at {moments}: {report:?}");
            same(&before, &bench.image()?, &format!("stopped at {moments}"))?;
            ensure!(filter(&bench)? == setting, "stopped at {moments}: {}", filter(&bench)?);
            ensure!(!bench.journal.exists(), "stopped at {moments}: the journal stays");
            moments += 1;
        }
        ensure!(moments == 4 * plan.steps.len(), "{moments} moments");
        ensure!(bench.remedy()?.standing_operations()?.len() == plan.steps.len(), "not all is recorded");
    }
    Ok(())
}

fn an_interrupted_undo_of_a_set_up_can_be_continued() -> TrialOutcome {
    for address in FAMILIES {
        let mut bench = Bench::new(address)?;
        let plan = set_up(&mut bench)?;
        let (before, setting) = (bench.image()?, filter(&bench)?);
        let mut moments = 0;
        loop {
            apply(&bench, |mut applier| applier.apply_whole(&plan))??;
            ensure!(bench.image()? != before && filter(&bench)? != setting, "nothing has changed");
            let undone = apply(&bench, |applier| stopped(applier, moments).undo(false))?;
            let report = apply(&bench, |mut applier| applier.undo(false))??;
            ensure!(report.is_complete(), "stopped at {moments}: {report:?}");
            same(&before, &bench.image()?, &format!("stopped at {moments}"))?;
            ensure!(filter(&bench)? == setting, "stopped at {moments}: {}", filter(&bench)?);
            if undone.is_ok() {
                break;
            }
            moments += 1;
        }
        ensure!(moments >= 3 * plan.steps.len(), "only {moments} moments");
    }
    Ok(())
}

/// An endpoint that the kernel rejects: a port requires the flag `signal`.
fn rejected(address: IpAddr) -> Operation {
    Operation::AddEndpoint {
        endpoint: MptcpEndpoint { address, port: Some(1), id: Some(9), interface: None, flags: SUBFLOW },
    }
}

fn a_failed_step_rolls_back_the_steps_before_it() -> TrialOutcome {
    for address in FAMILIES {
        let mut bench = Bench::new(address)?;
        let mut plan = set_up(&mut bench)?;
        plan.push(rejected(address(0, 1)), &[].into());
        let (before, setting) = (bench.image()?, filter(&bench)?);
        let failed = apply(&bench, |mut applier| applier.apply_whole(&plan))?;
        ensure!(matches!(failed, Err(ApplyError::Step { .. })), "{failed:?}");
        same(&before, &bench.image()?, "after the roll-back")?;
        ensure!(filter(&bench)? == setting, "{}", filter(&bench)?);
        ensure!(!bench.journal.exists(), "the journal stays");
        // A crash during the roll-back is like any other.
        let mut moments = 4 * (plan.steps.len() - 1) + 2;
        loop {
            let failed = apply(&bench, |applier| stopped(applier, moments).apply_whole(&plan))?;
            let report = apply(&bench, |mut applier| applier.undo(false))??;
            ensure!(report.is_complete(), "stopped at {moments}: {report:?}");
            same(&before, &bench.image()?, &format!("stopped at {moments}"))?;
            ensure!(filter(&bench)? == setting, "stopped at {moments}: {}", filter(&bench)?);
            if !matches!(failed, Err(ApplyError::Interrupted)) {
                break;
            }
            moments += 1;
        }
    }
    Ok(())
}

fn a_roll_back_keeps_earlier_steps() -> TrialOutcome {
    let mut bench = Bench::new(FAMILIES[0])?;
    let plan = set_up(&mut bench)?;
    apply(&bench, |mut applier| applier.apply_whole(&plan))??;
    let before = bench.image()?;
    let mut second = ChangePlan::default();
    let rule = RoutingRule { from: IpNet::from((bench.address)(0, 1)), table: 8301, priority: 84 };
    second.push(Operation::AddRule { rule }, &[].into());
    second.push(rejected((bench.address)(0, 1)), &[].into());
    ensure!(apply(&bench, |mut applier| applier.apply_whole(&second))?.is_err(), "it was not refused");
    same(&before, &bench.image()?, "after the roll-back")?;
    ensure!(bench.remedy()?.standing_operations()?.len() == plan.steps.len(), "earlier steps are gone");
    Ok(())
}

fn a_part_is_undone_alone() -> TrialOutcome {
    let mut bench = Bench::new(FAMILIES[0])?;
    let before = bench.image()?;
    let plan = set_up(&mut bench)?;
    apply(&bench, |mut applier| applier.apply_whole(&plan))??;
    let of_rule = |operation: &Operation| matches!(operation, Operation::AddRule { .. });
    let report = apply(&bench, |mut applier| applier.undo_selected(&of_rule, false))??;
    ensure!(report.steps.len() == 1, "{report:?}");
    ensure!(bench.remedy()?.standing_operations()?.len() == plan.steps.len() - 1, "others are undone, too");
    apply(&bench, |mut applier| applier.undo(false))??;
    same(&before, &bench.image()?, "after the undo")
}

fn set_ups_changed_by_other_programs_are_kept() -> TrialOutcome {
    for address in FAMILIES {
        let mut bench = Bench::new(address)?;
        bench.namespace().run_in(|| sysctl::write(&setting(), "0"))??;
        let (before, setting_before) = (bench.image()?, filter(&bench)?);
        let plan = set_up(&mut bench)?;
        apply(&bench, |mut applier| applier.apply_whole(&plan))??;
        let mut manager = PathManager::open_in(bench.namespace())?;
        manager.set_limits(&MptcpLimits { subflows: 7, add_addr_accepted: 7 })?;
        bench.namespace().run_in(|| sysctl::write(&setting(), "1"))??;
        manager.set_flags(&MptcpEndpoint {
            address: address(1, 1),
            port: None,
            id: Some(7),
            interface: None,
            flags: EndpointFlags { fullmesh: true, ..SUBFLOW },
        })?;
        let report = apply(&bench, |mut applier| applier.undo(false))??;
        let kept = report.steps.iter().filter(|step| matches!(step.outcome, UndoOutcome::Changed(_))).count();
        // The endpoint's flags, the endpoint itself, the limits, the setting.
        ensure!(kept == 4 && bench.journal.exists(), "{report:?}");
        ensure!(filter(&bench)? == "1" && manager.limits()?.subflows == 7, "it was undone");
        let report = apply(&bench, |mut applier| applier.undo(true))??;
        ensure!(report.is_complete() && !bench.journal.exists(), "{report:?}");
        same(&before, &bench.image()?, "after force")?;
        ensure!(filter(&bench)? == setting_before, "{}", filter(&bench)?);
        // The settings of an interface and its routes disappear with it.
        let plan = set_up(&mut bench)?;
        apply(&bench, |mut applier| applier.apply_whole(&plan))??;
        let index = bench.index(1)?;
        bench.lab.client.socket.delete_link(index)?;
        let report = apply(&bench, |mut applier| applier.undo(false))??;
        ensure!(report.is_complete() && !bench.journal.exists(), "{report:?}");
        ensure!(manager.endpoints()?.is_empty(), "{:?}", manager.endpoints()?);
    }
    Ok(())
}

fn an_obstacle_stops_a_set_up() -> TrialOutcome {
    let mut bench = Bench::new(FAMILIES[0])?;
    let plan = set_up(&mut bench)?;
    let rule = RoutingRule { from: IpNet::from((bench.address)(1, 1)), table: 8300, priority: 83 };
    bench.lab.client.socket.add_rule(&rule)?;
    let (before, setting) = (bench.image()?, filter(&bench)?);
    let refused = apply(&bench, |mut applier| applier.apply_whole(&plan))?;
    ensure!(matches!(refused, Err(ApplyError::Changed { .. })), "{refused:?}");
    same(&before, &bench.image()?, "after the refusal")?;
    ensure!(filter(&bench)? == setting && !bench.journal.exists(), "something stays");
    Ok(())
}

/// The kernel replaces an implicit endpoint only if the request has no id.
fn an_endpoint_with_an_id_of_the_kernel_is_removed() -> TrialOutcome {
    let mut bench = Bench::new(FAMILIES[0])?;
    let index = Some(bench.index(1)?);
    let address = (bench.address)(1, 1);
    let endpoint = MptcpEndpoint { address, port: None, id: None, interface: index, flags: SUBFLOW };
    let mut plan = ChangePlan::default();
    plan.push(Operation::AddEndpoint { endpoint }, &[].into());
    apply(&bench, |mut applier| applier.apply_whole(&plan))??;
    let mut manager = PathManager::open_in(bench.namespace())?;
    let there = manager.endpoints()?;
    ensure!(there.len() == 1 && there[0].id.is_some() && there[0].interface == index, "{there:?}");
    let report = apply(&bench, |mut applier| applier.undo(false))??;
    ensure!(report.is_complete() && manager.endpoints()?.is_empty(), "{report:?}");
    Ok(())
}
