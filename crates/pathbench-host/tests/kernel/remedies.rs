//! A path's MTU put right and everything taken back, byte for byte, wherever it is stopped.

use crate::fixture::{Host, Lab, v4, v6, wire_name, within};
use crate::raw_routes::{Image, RawRoute, add_next_hop_object, attribute, number, octets};
use libtest_mimic::Failed;
use pathbench_host::mptcp::{Endpoint, EndpointFlags, Limits, PathManager};
use pathbench_host::namespace::NetNamespace;
use pathbench_host::netlink::{Route, Rule};
use pathbench_host::path_mtu::{
    HostPath, JournalError, LiveConnection, Operation, PathObserver, Plan, Remedy, RemedyError, Subflow,
    UndoOutcome, plan,
};
use pathbench_kerneltest::{Outcome, ensure, tests};
use pathbench_record::network::IpNetwork;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

tests!(
    a_route_for_the_server_alone,
    a_route_of_a_shared_table_keeps_all_else,
    several_next_hops_keep_their_places,
    a_next_hop_object_is_kept,
    a_route_that_runs_out_goes_on_running_out,
    whatever_stops_it_is_taken_back,
    whatever_stops_the_undo_it_can_be_gone_on_with,
    a_second_plan_is_taken_back_with_the_first,
    what_somebody_changed_is_left_alone,
    a_route_that_somebody_removed_is_not_added_again,
    a_refresh_that_was_made_in_full_is_not_taken_back,
    a_refresh_that_was_stopped_halfway_touches_nobody_elses_endpoint,
    an_added_endpoint_is_removed_where_it_is_still_ours,
    what_went_with_its_interface_needs_nothing,
    another_namespace_is_not_touched,
    a_changed_host_is_not_touched,
    without_privilege_nothing_is_left,
);

const FAMILIES: [fn(u8, u8) -> IpAddr; 2] = [v4, v6];

/// A client with two paths, a table for each, and somewhere to keep a journal.
struct Bench {
    lab: Lab,
    _place: tempfile::TempDir,
    journal: PathBuf,
    address: fn(u8, u8) -> IpAddr,
}

impl Bench {
    fn new(address: fn(u8, u8) -> IpAddr) -> Result<Self, Failed> {
        let lab = Lab::new(&[None, None])?;
        let place = tempfile::tempdir()?;
        let journal = place.path().join("journal");
        let mut bench = Self { lab, _place: place, journal, address };
        for path in [0, 1] {
            let interface = bench.index(path)?;
            bench
                .far_route(100 + u32::from(path))
                .with(&attribute(5, &octets(address(path, 2))))
                .with(&number(4, interface))
                .add(bench.namespace())?;
        }
        let settled = within(Duration::from_secs(5), || Ok(bench.image()?.own_addresses_v6() == 3))?;
        ensure!(settled, "the client does not get its own addresses");
        Ok(bench)
    }

    /// The beginning of a route to where the server is.
    fn far_route(&self, table: u32) -> RawRoute {
        let far = (self.address)(9, 0);
        RawRoute::new(far, if far.is_ipv4() { 24 } else { 64 }, table)
    }

    fn namespace(&self) -> &NetNamespace {
        &self.lab.client.namespace
    }

    fn index(&mut self, path: u8) -> Result<u32, Failed> {
        self.lab.client.index(&wire_name(path))
    }

    /// The second path to a server that is far away.
    fn path(&self) -> HostPath {
        HostPath { local: (self.address)(1, 1), interface: wire_name(1), server: (self.address)(9, 9) }
    }

    fn plan(&self, mtu_bytes: u32, stuck: &[LiveConnection]) -> Result<Plan, Failed> {
        let state = PathObserver::open_in(self.namespace())?.state(&self.path())?;
        Ok(plan(&state, mtu_bytes, stuck)?)
    }

    fn remedy(&self) -> Result<Remedy, Failed> {
        Ok(self.namespace().run_in(|| Remedy::open(&self.journal))??)
    }

    fn effective_mtu(&self) -> Result<u32, Failed> {
        Ok(PathObserver::open_in(self.namespace())?.state(&self.path())?.effective_mtu_bytes())
    }

    fn image(&self) -> Result<Image, Failed> {
        Image::of(self.namespace())
    }

    /// Applies, looks, takes back, looks again.
    fn there_and_back(&self, mtu_bytes: u32, command: &str) -> Outcome {
        let before = self.image()?;
        let plan = self.plan(mtu_bytes, &[])?;
        ensure!(plan.steps.len() == 1 && plan.steps[0].commands[0].contains(command), "{plan:?}");
        self.remedy()?.apply(&plan)?;
        ensure!(self.effective_mtu()? == mtu_bytes, "the MTU is {}", self.effective_mtu()?);
        ensure!(self.plan(mtu_bytes, &[])?.steps.is_empty(), "it is not seen as done");
        ensure!(self.image()? != before, "nothing has changed");
        let text = std::fs::read_to_string(&self.journal)?;
        ensure!(
            text.ends_with("{\"line\":\"done\",\"step\":0}\n"),
            "the kernel made something else of it: {text}"
        );
        let report = self.remedy()?.undo(false)?;
        ensure!(report.is_complete() && report.steps[0].outcome == UndoOutcome::Restored, "{report:?}");
        same(&before, &self.image()?, "after the undo")?;
        ensure!(!self.journal.exists(), "the journal stays");
        let nothing = self.remedy()?.undo(false)?;
        ensure!(nothing.steps.is_empty() && nothing.is_complete(), "{nothing:?}");
        Ok(())
    }
}

fn same(before: &Image, after: &Image, when: &str) -> Outcome {
    ensure!(before == after, "{when} it is not as before: {}", before.difference(after));
    Ok(())
}

fn a_route_for_the_server_alone() -> Outcome {
    for address in FAMILIES {
        let bench = Bench::new(address)?;
        bench.there_and_back(1400, "route add")?;
        bench.there_and_back(1280, "route add")?;
    }
    Ok(())
}

/// Attributes that nothing here reads.
fn exotic(address: fn(u8, u8) -> IpAddr) -> Vec<u8> {
    // initcwnd, advmss, hoplimit, quickack, a congestion control of every kernel.
    let metrics =
        [number(11, 33), number(8, 1234), number(10, 77), number(15, 1), attribute(16, b"reno\0")].concat();
    let mut bytes = [attribute(8, &metrics), attribute(7, &octets(address(1, 1)))].concat();
    // IPv4: realms 3/4; IPv6: preference high.
    bytes.extend(if address(1, 1).is_ipv4() { number(11, 3 << 16 | 4) } else { attribute(20, &[1]) });
    bytes
}

fn a_route_of_a_shared_table_keeps_all_else() -> Outcome {
    for address in FAMILIES {
        let mut bench = Bench::new(address)?;
        for path in [0u8, 1] {
            let table = 100 + u32::from(path);
            let from = IpNetwork::host(address(path, 1));
            bench.lab.client.socket.remove_rule(&Rule { from, table, priority: table })?;
            let interface = bench.index(path)?;
            bench
                .far_route(254)
                .with(&attribute(5, &octets(address(path, 2))))
                .with(&number(4, interface))
                .with(&number(6, 300 - 100 * u32::from(path)))
                .with(&exotic(address))
                .add(bench.namespace())?;
        }
        bench.there_and_back(1400, "route replace")?;
    }
    Ok(())
}

fn several_next_hops_keep_their_places() -> Outcome {
    for address in FAMILIES {
        let mut bench = Bench::new(address)?;
        let mut hops = Vec::new();
        for (path, weight) in [(0u8, 1u8), (1, 5)] {
            let gateway = attribute(5, &octets(address(path, 2)));
            hops.extend((8 + gateway.len() as u16).to_ne_bytes());
            // On the link, whatever routes say.
            hops.extend([4, weight - 1]);
            hops.extend(bench.index(path)?.to_ne_bytes());
            hops.extend(gateway);
        }
        let from = IpNetwork::host(address(1, 1));
        bench.lab.client.socket.remove_rule(&Rule { from, table: 101, priority: 101 })?;
        bench.far_route(254).with(&attribute(9, &hops)).add(bench.namespace())?;
        bench.there_and_back(1400, "route replace")?;
    }
    Ok(())
}

/// Regression: replaced by one without, a route of IPv4 over a next hop object kept its MTU.
fn a_next_hop_object_is_kept() -> Outcome {
    for address in FAMILIES {
        let mut bench = Bench::new(address)?;
        let server = bench.path().server;
        let interface = bench.index(1)?;
        add_next_hop_object(bench.namespace(), 77, interface, address(1, 2))?;
        let route = RawRoute::new(server, IpNetwork::host(server).prefix(), 101).with(&number(30, 77));
        route.add(bench.namespace())?;
        bench.there_and_back(1400, "route replace")?;

        bench.remedy()?.apply(&bench.plan(1400, &[])?)?;
        bench.remedy()?.apply(&bench.plan(1500, &[])?)?;
        ensure!(bench.effective_mtu()? == 1500, "raised to {}", bench.effective_mtu()?);
        ensure!(bench.remedy()?.undo(false)?.is_complete(), "it is not taken back");

        // An undo that is stopped between removing the one and adding the other.
        let before = bench.image()?;
        bench.remedy()?.apply(&bench.plan(1400, &[])?)?;
        ensure!(stopped(bench.remedy()?, 1).undo(false).is_err(), "it was not stopped");
        route.with(&attribute(8, &number(2, 1400))).remove(bench.namespace())?;
        let report = bench.remedy()?.undo(false)?;
        ensure!(report.is_complete(), "{report:?}");
        same(&before, &bench.image()?, "after the undo")?;
    }
    Ok(())
}

fn a_route_that_runs_out_goes_on_running_out() -> Outcome {
    let mut bench = Bench::new(v6)?;
    let interface = bench.index(1)?;
    let server = bench.path().server;
    RawRoute::new(server, 128, 101)
        .with(&attribute(5, &octets(v6(1, 2))))
        .with(&number(4, interface))
        .with(&number(23, 1000))
        .add(bench.namespace())?;
    bench.there_and_back(1400, "route replace")?;
    let left = PathObserver::open_in(bench.namespace())?.state(&bench.path())?.route.expires_s();
    ensure!(left.is_some_and(|left| (900..=1000).contains(&left)), "{left:?}");
    Ok(())
}

const SUBFLOW: EndpointFlags = EndpointFlags {
    signal: false,
    subflow: true,
    backup: false,
    fullmesh: false,
    implicit: false,
    laminar: false,
};

fn stuck(path: &HostPath, local_id: u8) -> LiveConnection {
    LiveConnection {
        local: SocketAddr::new(path.local, 40_000),
        remote: SocketAddr::new(path.server, 4433),
        cookie: 7,
        interface: None,
        subflow: Some(Subflow { token: 9, local_id }),
        state: 1,
        pmtu_bytes: 1500,
        mss_bytes: 1448,
        advertised_mss_bytes: 1460,
        backoff: 2,
        unacked_segments: 1,
        retransmitted_segments: 3,
        bytes_acked: 1000,
        bytes_sent: 100_000,
        since_last_ack_ms: 900,
        cwnd_segments: 1,
        rto_us: 1_600_000,
    }
}

/// Plans whose steps are, all together, of every kind.
fn plans_of_every_kind(bench: &mut Bench, endpoint: Option<u8>) -> Result<Plan, Failed> {
    let interface = Some(bench.index(1)?);
    let path = bench.path();
    let mut manager = PathManager::open_in(bench.namespace())?;
    manager.set_limits(&Limits { subflows: 1, add_addr_accepted: 1 })?;
    let other =
        Endpoint { address: (bench.address)(0, 1), port: None, id: Some(8), interface: None, flags: SUBFLOW };
    manager.add_endpoint(&other)?;
    if endpoint.is_some() {
        let flags = EndpointFlags { backup: true, ..SUBFLOW };
        manager.add_endpoint(&Endpoint {
            address: path.local,
            port: None,
            id: endpoint,
            interface,
            flags,
        })?;
    }
    let mut state = PathObserver::open_in(bench.namespace())?.state(&path)?;
    let elsewhere = |id: u8| LiveConnection {
        local: SocketAddr::new((bench.address)(0, 1), 40_000),
        cookie: u64::from(id),
        rto_us: 1000,
        ..stuck(&path, id)
    };
    state.siblings = vec![stuck(&path, 0), elsewhere(1), elsewhere(2)];
    Ok(plan(&state, 1400, &[stuck(&path, 0)])?)
}

/// Stops at the `moment`-th point at which a crash could.
fn stopped(remedy: Remedy, moment: usize) -> Remedy {
    let mut passed = 0;
    remedy.stopped_by(Box::new(move || {
        passed += 1;
        passed > moment
    }))
}

fn whatever_stops_it_is_taken_back() -> Outcome {
    for (address, endpoint, steps) in [(v4 as fn(u8, u8) -> IpAddr, None, 4), (v6, Some(5), 3)] {
        let mut bench = Bench::new(address)?;
        let plan = plans_of_every_kind(&mut bench, endpoint)?;
        ensure!(plan.steps.len() == steps, "{plan:?}");
        let before = bench.image()?;
        let mut moments = 0;
        loop {
            let applied = stopped(bench.remedy()?, moments).apply(&plan);
            if applied.is_ok() {
                break;
            }
            ensure!(matches!(applied, Err(RemedyError::Interrupted)), "{applied:?}");
            let report = bench.remedy()?.undo(false)?;
            ensure!(report.is_complete(), "stopped at {moments}: {report:?}");
            same(&before, &bench.image()?, &format!("stopped at {moments}"))?;
            ensure!(!bench.journal.exists(), "stopped at {moments}: the journal stays");
            moments += 1;
        }
        ensure!(moments >= 4 * steps, "only {moments} moments");
    }
    Ok(())
}

fn whatever_stops_the_undo_it_can_be_gone_on_with() -> Outcome {
    for (address, endpoint) in [(v4 as fn(u8, u8) -> IpAddr, None), (v6, Some(5))] {
        let mut bench = Bench::new(address)?;
        let plan = plans_of_every_kind(&mut bench, endpoint)?;
        let before = bench.image()?;
        let mut moments = 0;
        loop {
            bench.remedy()?.apply(&plan)?;
            let undone = stopped(bench.remedy()?, moments).undo(false);
            if undone.is_ok() {
                break;
            }
            ensure!(matches!(undone, Err(RemedyError::Interrupted)), "{undone:?}");
            let report = bench.remedy()?.undo(false)?;
            ensure!(report.is_complete(), "stopped at {moments}: {report:?}");
            same(&before, &bench.image()?, &format!("stopped at {moments}"))?;
            moments += 1;
        }
        same(&before, &bench.image()?, "at last")?;
        ensure!(moments >= 2 * plan.steps.len(), "only {moments} moments");
    }
    Ok(())
}

fn a_second_plan_is_taken_back_with_the_first() -> Outcome {
    for address in FAMILIES {
        let bench = Bench::new(address)?;
        let before = bench.image()?;
        let mut moments = 0;
        loop {
            bench.remedy()?.apply(&bench.plan(1400, &[])?)?;
            bench.remedy()?.apply(&bench.plan(1300, &[])?)?;
            bench.remedy()?.apply(&bench.plan(1500, &[])?)?;
            ensure!(bench.effective_mtu()? == 1500, "{}", bench.effective_mtu()?);
            ensure!(bench.remedy()?.standing()?.len() == 3, "{:?}", bench.remedy()?.standing()?);
            let stopped = stopped(bench.remedy()?, moments).undo(false).is_err();
            let report = bench.remedy()?.undo(false)?;
            ensure!(report.is_complete(), "{report:?}");
            same(&before, &bench.image()?, &format!("stopped at {moments}"))?;
            if !stopped {
                break;
            }
            moments += 1;
        }
    }
    Ok(())
}

fn what_somebody_changed_is_left_alone() -> Outcome {
    for address in FAMILIES {
        let mut bench = Bench::new(address)?;
        let before = bench.image()?;
        bench.remedy()?.apply(&bench.plan(1400, &[])?)?;
        let interface = Some(bench.index(1)?);
        let mut theirs = Route::to(IpNetwork::host(bench.path().server));
        (theirs.gateway, theirs.interface, theirs.table) = (Some(address(1, 2)), interface, 101);
        theirs.mtu = Some(1350);
        bench.lab.client.socket.replace_route(&theirs)?;
        let changed = bench.image()?;
        let report = bench.remedy()?.undo(false)?;
        ensure!(!report.is_complete(), "{report:?}");
        ensure!(
            matches!(&report.steps[0].outcome, UndoOutcome::Changed(text) if text.contains("since")),
            "{report:?}"
        );
        same(&changed, &bench.image()?, "after the refusal")?;
        ensure!(bench.journal.exists(), "the journal is gone");
        let forced = bench.remedy()?.undo(true)?;
        ensure!(forced.is_complete(), "{forced:?}");
        same(&before, &bench.image()?, "after force")?;
        ensure!(!bench.journal.exists(), "the journal stays");
    }
    Ok(())
}

/// Regression: of a next hop object, it was added again.
fn a_route_that_somebody_removed_is_not_added_again() -> Outcome {
    for address in FAMILIES {
        let mut bench = Bench::new(address)?;
        let server = bench.path().server;
        let interface = bench.index(1)?;
        add_next_hop_object(bench.namespace(), 77, interface, address(1, 2))?;
        let route = RawRoute::new(server, IpNetwork::host(server).prefix(), 101).with(&number(30, 77));
        route.add(bench.namespace())?;
        bench.remedy()?.apply(&bench.plan(1400, &[])?)?;
        route.with(&attribute(8, &number(2, 1400))).remove(bench.namespace())?;
        let removed = bench.image()?;
        for _ in 0..2 {
            let report = bench.remedy()?.undo(false)?;
            ensure!(matches!(report.steps[0].outcome, UndoOutcome::Changed(_)), "{report:?}");
            same(&removed, &bench.image()?, "after the undo")?;
        }
    }
    Ok(())
}

/// Regression: an endpoint that somebody had removed since was added again, and `force` replaced somebody else's.
fn a_refresh_that_was_made_in_full_is_not_taken_back() -> Outcome {
    for force in [false, true] {
        let mut bench = Bench::new(v4)?;
        let plan = plans_of_every_kind(&mut bench, Some(5))?;
        let mut manager = PathManager::open_in(bench.namespace())?;
        let others = manager.endpoints()?.into_iter().filter(|there| there.id != Some(5)).collect::<Vec<_>>();
        let address = bench.path().local;
        let theirs = Endpoint { address, port: None, id: Some(6), interface: None, flags: SUBFLOW };
        for replaced in [None, Some(theirs), Some(Endpoint { id: Some(5), address: v4(7, 7), ..theirs })] {
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
        // A refresh alone leaves nothing that could be taken back.
        let refresh =
            plan.steps.iter().filter(|step| matches!(step.operation, Operation::RefreshEndpoint { .. }));
        bench.remedy()?.apply(&Plan { steps: refresh.cloned().collect(), notes: Vec::new() })?;
        ensure!(!bench.journal.exists(), "a journal of nothing stays");
    }
    Ok(())
}

fn in_order(mut endpoints: Vec<Endpoint>) -> Vec<Endpoint> {
    endpoints.sort_by_key(|endpoint| endpoint.id);
    endpoints
}

/// The endpoint that a plan removes and adds again.
fn refreshed(plan: &Plan) -> Result<Endpoint, Failed> {
    let found = plan.steps.iter().find_map(|step| match step.operation {
        Operation::RefreshEndpoint { endpoint, .. } => Some(endpoint),
        _ => None,
    });
    found.ok_or_else(|| format!("no refresh in {plan:?}").into())
}

fn a_refresh_that_was_stopped_halfway_touches_nobody_elses_endpoint() -> Outcome {
    let mut bench = Bench::new(v4)?;
    let plan = plans_of_every_kind(&mut bench, Some(5))?;
    let mut manager = PathManager::open_in(bench.namespace())?;
    let address = bench.path().local;
    let theirs = Endpoint { address, port: None, id: Some(6), interface: None, flags: SUBFLOW };
    for theirs in [theirs, Endpoint { id: Some(5), address: v4(7, 7), ..theirs }] {
        let mut moment = 0;
        while manager.endpoints()?.iter().any(|there| there.id == Some(5)) {
            ensure!(bench.remedy()?.undo(false)?.is_complete(), "it is not taken back");
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

/// Regression: with `force`, an endpoint of the same id or address that somebody else had added was removed.
fn an_added_endpoint_is_removed_where_it_is_still_ours() -> Outcome {
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
    for theirs in [Endpoint { id: Some(99), ..ours }, Endpoint { address: v4(7, 7), ..ours }] {
        bench.remedy()?.apply(&plan)?;
        manager.remove_endpoint(id, ours.address)?;
        manager.add_endpoint(&theirs)?;
        let report = bench.remedy()?.undo(true)?;
        ensure!(report.is_complete() && !bench.journal.exists(), "{report:?}");
        let expected = before.iter().copied().chain([theirs]).collect();
        ensure!(in_order(manager.endpoints()?) == in_order(expected), "{:?}", manager.endpoints()?);
        manager.remove_endpoint(theirs.id.unwrap_or(0), theirs.address)?;
    }
    // Ours, with another flag: taken back where that is asked for.
    bench.remedy()?.apply(&plan)?;
    manager.set_flags(&Endpoint { flags: EndpointFlags { backup: true, ..ours.flags }, ..ours })?;
    let report = bench.remedy()?.undo(false)?;
    ensure!(!report.is_complete(), "{report:?}");
    let report = bench.remedy()?.undo(true)?;
    ensure!(report.is_complete() && in_order(manager.endpoints()?) == before, "{report:?}");
    Ok(())
}

fn what_went_with_its_interface_needs_nothing() -> Outcome {
    for address in FAMILIES {
        let mut bench = Bench::new(address)?;
        // Two steps: the route for the server is added, then replaced.
        bench.remedy()?.apply(&bench.plan(1400, &[])?)?;
        bench.remedy()?.apply(&bench.plan(1300, &[])?)?;
        let interface = bench.index(1)?;
        bench.lab.client.socket.delete_link(interface)?;
        let before = bench.image()?;
        let report = bench.remedy()?.undo(false)?;
        ensure!(report.is_complete() && !bench.journal.exists(), "{report:?}");
        ensure!(report.steps[0].outcome == UndoOutcome::Gone, "{report:?}");
        same(&before, &bench.image()?, "after the undo")?;
    }
    Ok(())
}

fn another_namespace_is_not_touched() -> Outcome {
    let bench = Bench::new(v4)?;
    bench.remedy()?.apply(&bench.plan(1400, &[])?)?;
    let other = Host::new()?;
    let elsewhere = |journal: &Path| other.namespace.run_in(|| Remedy::open(journal)?.undo(true));
    let refused = elsewhere(&bench.journal)?;
    ensure!(matches!(refused, Err(RemedyError::Journal(JournalError::Elsewhere { .. }))), "{refused:?}");
    ensure!(bench.remedy()?.undo(false)?.is_complete(), "it cannot be taken back any more");
    Ok(())
}

/// The kernel would replace the first of several, and a plan that is out of date must not.
fn a_changed_host_is_not_touched() -> Outcome {
    let mut bench = Bench::new(v4)?;
    let plan = bench.plan(1400, &[])?;
    let interface = bench.index(1)?;
    let theirs = RawRoute::new(bench.path().server, 32, 101).with(&number(4, interface)).header(6, 253);
    theirs.append(bench.namespace())?;
    let before = bench.image()?;
    let refused = bench.remedy()?.apply(&plan);
    ensure!(matches!(refused, Err(RemedyError::Changed { .. })), "{refused:?}");
    same(&before, &bench.image()?, "after the refusal")?;
    ensure!(!bench.journal.exists(), "a journal of nothing stays");
    Ok(())
}

fn without_privilege_nothing_is_left() -> Outcome {
    let bench = Bench::new(v4)?;
    let before = bench.image()?;
    let plan = bench.plan(1400, &[])?;
    let refused = bench.namespace().run_in(|| {
        let own = capabilities(None)?;
        set_capabilities(
            None,
            CapabilitySets { effective: own.effective - CapabilitySet::NET_ADMIN, ..own },
        )?;
        let refused = Remedy::open(&bench.journal).and_then(|mut remedy| remedy.apply(&plan));
        set_capabilities(None, own)?;
        Ok::<_, Failed>(refused)
    })??;
    let Err(error) = refused else { return Err("it was not refused".into()) };
    ensure!(error.is_host_unable() && error.to_string().contains("CAP_NET_ADMIN"), "{error}");
    ensure!(!bench.journal.exists(), "a journal of nothing stays");
    same(&before, &bench.image()?, "after the refusal")
}
