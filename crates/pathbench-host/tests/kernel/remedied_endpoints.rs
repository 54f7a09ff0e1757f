//! MPTCP endpoints that a correction of a path's MTU removes or adds while other programs change them.

use crate::fixture::v4;
use crate::remedies::{Bench, SUBFLOW, plans_of_every_kind, stopped};
use libtest_mimic::Failed;
use pathbench_host::change::{ChangePlan, Operation};
use pathbench_host::mptcp::{EndpointFlags, MptcpEndpoint, PathManager};
use pathbench_testkit::{TrialOutcome, ensure, tests};

tests!(
    a_complete_refresh_is_not_undone,
    an_interrupted_refresh_keeps_the_endpoints_of_other_programs,
    an_added_endpoint_is_removed_unless_another_program_replaced_it,
);

/// Regression: an undo added an endpoint that another program had removed, and `force` replaced another program's
/// endpoint.
fn a_complete_refresh_is_not_undone() -> TrialOutcome {
    for force in [false, true] {
        let mut bench = Bench::new(v4)?;
        let plan = plans_of_every_kind(&mut bench, Some(5))?;
        let mut manager = PathManager::open_in(bench.namespace())?;
        let others = manager.endpoints()?.into_iter().filter(|there| there.id != Some(5)).collect::<Vec<_>>();
        let address = bench.path().local;
        let theirs = MptcpEndpoint { address, port: None, id: Some(6), interface: None, flags: SUBFLOW };
        for replaced in [None, Some(theirs), Some(MptcpEndpoint { id: Some(5), address: v4(7, 7), ..theirs })]
        {
            bench.remedy()?.apply(&plan)?;
            manager.remove_endpoint(5, address)?;
            replaced.iter().try_for_each(|theirs| manager.add_endpoint(theirs))?;
            let report = bench.remedy()?.undo(force)?;
            ensure!(report.is_complete() && !bench.journal.exists(), "{report:?}");
            let expected: Vec<_> = others.iter().copied().chain(replaced).collect();
            ensure!(in_order(manager.endpoints()?) == in_order(expected), "{:?}", manager.endpoints()?);
            replaced
                .iter()
                .try_for_each(|theirs| manager.remove_endpoint(theirs.id.unwrap_or(0), theirs.address))?;
            manager.add_endpoint(&refreshed(&plan)?)?;
        }
        // A refresh has no lasting effect, so there is nothing to undo.
        let refresh =
            plan.steps.iter().filter(|step| matches!(step.operation, Operation::RefreshEndpoint { .. }));
        bench.remedy()?.apply(&ChangePlan { steps: refresh.cloned().collect(), notes: Vec::new() })?;
        ensure!(!bench.journal.exists(), "a journal of nothing stays");
    }
    Ok(())
}

fn in_order(mut endpoints: Vec<MptcpEndpoint>) -> Vec<MptcpEndpoint> {
    endpoints.sort_by_key(|endpoint| endpoint.id);
    endpoints
}

/// The endpoint that a plan removes and adds again.
fn refreshed(plan: &ChangePlan) -> Result<MptcpEndpoint, Failed> {
    let found = plan.steps.iter().find_map(|step| match step.operation {
        Operation::RefreshEndpoint { endpoint, .. } => Some(endpoint),
        _ => None,
    });
    found.ok_or_else(|| format!("no refresh in {plan:?}").into())
}

fn an_interrupted_refresh_keeps_the_endpoints_of_other_programs() -> TrialOutcome {
    let mut bench = Bench::new(v4)?;
    let plan = plans_of_every_kind(&mut bench, Some(5))?;
    let mut manager = PathManager::open_in(bench.namespace())?;
    let address = bench.path().local;
    let theirs = MptcpEndpoint { address, port: None, id: Some(6), interface: None, flags: SUBFLOW };
    for theirs in [theirs, MptcpEndpoint { id: Some(5), address: v4(7, 7), ..theirs }] {
        let mut moment = 0;
        while manager.endpoints()?.iter().any(|there| there.id == Some(5)) {
            ensure!(bench.remedy()?.undo(false)?.is_complete(), "it is not undone");
            ensure!(stopped(bench.remedy()?, moment).apply(&plan).is_err(), "never stopped halfway");
            moment += 1;
        }
        manager.add_endpoint(&theirs)?;
        let there = in_order(manager.endpoints()?);
        let report = bench.remedy()?.undo(false)?;
        ensure!(!report.is_complete() && bench.journal.exists(), "{report:?}");
        ensure!(in_order(manager.endpoints()?) == there, "{:?}", manager.endpoints()?);
        let report = bench.remedy()?.undo(true)?;
        ensure!(report.is_complete() && !bench.journal.exists(), "{report:?}");
        ensure!(in_order(manager.endpoints()?) == there, "{:?}", manager.endpoints()?);
        manager.remove_endpoint(theirs.id.unwrap_or(0), theirs.address)?;
        manager.add_endpoint(&refreshed(&plan)?)?;
    }
    Ok(())
}

/// Regression: `force` removed an endpoint with the same id or address that another program had added.
fn an_added_endpoint_is_removed_unless_another_program_replaced_it() -> TrialOutcome {
    let mut bench = Bench::new(v4)?;
    let plan = plans_of_every_kind(&mut bench, None)?;
    let mut manager = PathManager::open_in(bench.namespace())?;
    let before = in_order(manager.endpoints()?);
    let added = plan.steps.iter().find_map(|step| match step.operation {
        Operation::AddEndpoint { endpoint } => Some(endpoint),
        _ => None,
    });
    let Some(ours) = added else { return Err(format!("no endpoint is added: {plan:?}").into()) };
    let id = ours.id.unwrap_or(0);
    for theirs in [MptcpEndpoint { id: Some(99), ..ours }, MptcpEndpoint { address: v4(7, 7), ..ours }] {
        bench.remedy()?.apply(&plan)?;
        manager.remove_endpoint(id, ours.address)?;
        manager.add_endpoint(&theirs)?;
        let report = bench.remedy()?.undo(true)?;
        ensure!(report.is_complete() && !bench.journal.exists(), "{report:?}");
        let expected = before.iter().copied().chain([theirs]).collect();
        ensure!(in_order(manager.endpoints()?) == in_order(expected), "{:?}", manager.endpoints()?);
        manager.remove_endpoint(theirs.id.unwrap_or(0), theirs.address)?;
    }
    // The endpoint of the plan with another flag: undone with `force`.
    bench.remedy()?.apply(&plan)?;
    manager.set_flags(&MptcpEndpoint { flags: EndpointFlags { backup: true, ..ours.flags }, ..ours })?;
    let report = bench.remedy()?.undo(false)?;
    ensure!(!report.is_complete(), "{report:?}");
    let report = bench.remedy()?.undo(true)?;
    ensure!(report.is_complete() && in_order(manager.endpoints()?) == before, "{report:?}");
    Ok(())
}
