//! Corrections of a path's MTU and their exact undo, with an interruption at any point.

use crate::common::waiting;
use crate::fixture::{Host, Lab, v4, v6, wait_until, wire_name};
use crate::raw_routes::{Image, RawRoute, add_next_hop_object, attribute, number, octets};
use libtest_mimic::Failed;
use pathbench_host::change::{Applier, ApplyError, ChangePlan, InterfaceNames, JournalError, UndoOutcome};
use pathbench_host::mptcp::{EndpointFlags, MptcpEndpoint, MptcpLimits, PathManager};
use pathbench_host::namespace::NetNamespace;
use pathbench_host::netlink::{Route, RoutingRule};
use pathbench_host::path_mtu::{HostPath, LiveConnection, PathObserver, plan};
use pathbench_record::network::IpNet;
use pathbench_testkit::{TrialOutcome, ensure, tests};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

tests!(
    a_route_for_the_server_alone,
    a_route_of_a_shared_table_keeps_its_other_attributes,
    several_next_hops_keep_their_order,
    a_next_hop_object_is_kept,
    an_expiring_route_keeps_its_lifetime,
    an_interrupted_apply_is_undone,
    an_interrupted_undo_can_be_continued,
    a_second_plan_is_undone_with_the_first,
    changes_by_other_programs_are_kept,
    a_route_removed_by_another_program_is_not_added_again,
    changes_removed_with_their_interface_need_no_undo,
    another_namespace_is_not_changed,
    an_outdated_plan_is_rejected,
    without_privilege_no_change_remains,
);

pub(crate) const FAMILIES: [fn(u8, u8) -> IpAddr; 2] = [v4, v6];

/// A client with two paths, a table for each, and a directory for the journal.
pub(crate) struct Bench {
    pub(crate) lab: Lab,
    _directory: tempfile::TempDir,
    pub(crate) journal: PathBuf,
    pub(crate) address: fn(u8, u8) -> IpAddr,
}

impl Bench {
    pub(crate) fn new(address: fn(u8, u8) -> IpAddr) -> Result<Self, Failed> {
        let lab = Lab::new(&[None, None])?;
        let directory = tempfile::tempdir()?;
        let journal = directory.path().join("journal");
        let mut bench = Self { lab, _directory: directory, journal, address };
        for path in [0, 1] {
            let interface = bench.index(path)?;
            bench
                .far_route(100 + u32::from(path))
                .set_attribute(&attribute(5, &octets(address(path, 2))))
                .set_attribute(&number(4, interface))
                .add(bench.namespace())?;
        }
        let settled = wait_until(Duration::from_secs(5), || Ok(bench.image()?.own_addresses_v6() == 3))?;
        ensure!(settled, "the client does not get its own addresses");
        Ok(bench)
    }

    /// A route to the network of the server.
    fn far_route(&self, table: u32) -> RawRoute {
        let far = (self.address)(9, 0);
        RawRoute::new(far, if far.is_ipv4() { 24 } else { 64 }, table)
    }

    pub(crate) fn namespace(&self) -> &NetNamespace {
        &self.lab.client.namespace
    }

    pub(crate) fn index(&mut self, path: u8) -> Result<u32, Failed> {
        self.lab.client.index(&wire_name(path))
    }

    /// The second path, to a remote server.
    pub(crate) fn path(&self) -> HostPath {
        HostPath { local: (self.address)(1, 1), interface: wire_name(1), server: (self.address)(9, 9) }
    }

    fn plan(&self, mtu_bytes: u32, stuck: &[LiveConnection]) -> Result<ChangePlan, Failed> {
        let state = PathObserver::open_in(self.namespace())?.state(&self.path())?;
        Ok(plan(&state, mtu_bytes, stuck)?)
    }

    pub(crate) fn remedy(&self) -> Result<Applier, Failed> {
        Ok(self.namespace().run_in(|| Applier::open(&self.journal))??)
    }

    fn effective_mtu(&self) -> Result<u32, Failed> {
        Ok(PathObserver::open_in(self.namespace())?.state(&self.path())?.effective_mtu_bytes())
    }

    pub(crate) fn image(&self) -> Result<Image, Failed> {
        Image::open(self.namespace())
    }

    /// Applies the plan, compares the state, undoes the plan, and compares the state again.
    fn apply_and_undo(&self, mtu_bytes: u32, command: &str) -> TrialOutcome {
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

pub(crate) fn same(before: &Image, after: &Image, when: &str) -> TrialOutcome {
    ensure!(before == after, "{when} it is not as before: {}", before.difference(after));
    Ok(())
}

fn a_route_for_the_server_alone() -> TrialOutcome {
    for address in FAMILIES {
        let bench = Bench::new(address)?;
        bench.apply_and_undo(1400, "route add")?;
        bench.apply_and_undo(1280, "route add")?;
    }
    Ok(())
}

/// Attributes that this crate does not interpret.
fn exotic(address: fn(u8, u8) -> IpAddr) -> Vec<u8> {
    // initcwnd, advmss, hoplimit, quickack, a congestion control of every kernel.
    let metrics =
        [number(11, 33), number(8, 1234), number(10, 77), number(15, 1), attribute(16, b"reno\0")].concat();
    let mut bytes = [attribute(8, &metrics), attribute(7, &octets(address(1, 1)))].concat();
    // IPv4: realms 3/4; IPv6: preference high.
    bytes.extend(if address(1, 1).is_ipv4() { number(11, 3 << 16 | 4) } else { attribute(20, &[1]) });
    bytes
}

fn a_route_of_a_shared_table_keeps_its_other_attributes() -> TrialOutcome {
    for address in FAMILIES {
        let mut bench = Bench::new(address)?;
        for path in [0u8, 1] {
            let table = 100 + u32::from(path);
            let from = IpNet::from(address(path, 1));
            bench.lab.client.socket.remove_rule(&RoutingRule { from, table, priority: table })?;
            let interface = bench.index(path)?;
            bench
                .far_route(254)
                .set_attribute(&attribute(5, &octets(address(path, 2))))
                .set_attribute(&number(4, interface))
                .set_attribute(&number(6, 300 - 100 * u32::from(path)))
                .set_attribute(&exotic(address))
                .add(bench.namespace())?;
        }
        bench.apply_and_undo(1400, "route replace")?;
    }
    Ok(())
}

fn several_next_hops_keep_their_order() -> TrialOutcome {
    for address in FAMILIES {
        let mut bench = Bench::new(address)?;
        let mut hops = Vec::new();
        for (path, weight) in [(0u8, 1u8), (1, 5)] {
            let gateway = attribute(5, &octets(address(path, 2)));
            hops.extend((8 + gateway.len() as u16).to_ne_bytes());
            // On-link, irrespective of the routes.
            hops.extend([4, weight - 1]);
            hops.extend(bench.index(path)?.to_ne_bytes());
            hops.extend(gateway);
        }
        let from = IpNet::from(address(1, 1));
        bench.lab.client.socket.remove_rule(&RoutingRule { from, table: 101, priority: 101 })?;
        bench.far_route(254).set_attribute(&attribute(9, &hops)).add(bench.namespace())?;
        bench.apply_and_undo(1400, "route replace")?;
    }
    Ok(())
}

/// Regression: an IPv4 route with a next hop object kept its MTU when a route without an MTU replaced it.
fn a_next_hop_object_is_kept() -> TrialOutcome {
    for address in FAMILIES {
        let mut bench = Bench::new(address)?;
        let server = bench.path().server;
        let interface = bench.index(1)?;
        add_next_hop_object(bench.namespace(), 77, interface, address(1, 2))?;
        let route =
            RawRoute::new(server, IpNet::from(server).prefix_len(), 101).set_attribute(&number(30, 77));
        route.add(bench.namespace())?;
        bench.apply_and_undo(1400, "route replace")?;

        bench.remedy()?.apply(&bench.plan(1400, &[])?)?;
        bench.remedy()?.apply(&bench.plan(1500, &[])?)?;
        ensure!(bench.effective_mtu()? == 1500, "raised to {}", bench.effective_mtu()?);
        ensure!(bench.remedy()?.undo(false)?.is_complete(), "it is not undone");

        // The undo is interrupted between the removal and the addition.
        let before = bench.image()?;
        bench.remedy()?.apply(&bench.plan(1400, &[])?)?;
        ensure!(stopped(bench.remedy()?, 1).undo(false).is_err(), "it was not stopped");
        route.set_attribute(&attribute(8, &number(2, 1400))).remove(bench.namespace())?;
        let report = bench.remedy()?.undo(false)?;
        ensure!(report.is_complete(), "{report:?}");
        same(&before, &bench.image()?, "after the undo")?;
    }
    Ok(())
}

fn an_expiring_route_keeps_its_lifetime() -> TrialOutcome {
    let mut bench = Bench::new(v6)?;
    let interface = bench.index(1)?;
    let server = bench.path().server;
    RawRoute::new(server, 128, 101)
        .set_attribute(&attribute(5, &octets(v6(1, 2))))
        .set_attribute(&number(4, interface))
        .set_attribute(&number(23, 1000))
        .add(bench.namespace())?;
    bench.apply_and_undo(1400, "route replace")?;
    let left = PathObserver::open_in(bench.namespace())?.state(&bench.path())?.route.expires_s();
    ensure!(left.is_some_and(|left| (900..=1000).contains(&left)), "{left:?}");
    Ok(())
}

pub(crate) const SUBFLOW: EndpointFlags = EndpointFlags::from_bits(2);

/// A connection stuck with packets of 1500 bytes.
fn stuck(path: &HostPath, local_id: u8) -> LiveConnection {
    LiveConnection {
        pmtu_bytes: 1500,
        mss_bytes: 1448,
        ..waiting(path.local, path.server, Some((9, local_id)))
    }
}

/// Plans that together contain every kind of step.
pub(crate) fn plans_of_every_kind(bench: &mut Bench, endpoint: Option<u8>) -> Result<ChangePlan, Failed> {
    let interface = Some(bench.index(1)?);
    let path = bench.path();
    let mut manager = PathManager::open_in(bench.namespace())?;
    manager.set_limits(&MptcpLimits { subflows: 1, add_addr_accepted: 1 })?;
    let other = MptcpEndpoint {
        address: (bench.address)(0, 1),
        port: None,
        id: Some(8),
        interface: None,
        flags: SUBFLOW,
    };
    manager.add_endpoint(&other)?;
    if endpoint.is_some() {
        let flags = EndpointFlags { backup: true, ..SUBFLOW };
        manager.add_endpoint(&MptcpEndpoint {
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

/// Interrupts before or after a persistent change: at call number `moment`.
pub(crate) fn stopped(remedy: Applier, moment: usize) -> Applier {
    let mut passed = 0;
    remedy.stopped_by(Box::new(move || {
        passed += 1;
        passed > moment
    }))
}

fn an_interrupted_apply_is_undone() -> TrialOutcome {
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
            ensure!(matches!(applied, Err(ApplyError::Interrupted)), "{applied:?}");
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

fn an_interrupted_undo_can_be_continued() -> TrialOutcome {
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
            ensure!(matches!(undone, Err(ApplyError::Interrupted)), "{undone:?}");
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

fn a_second_plan_is_undone_with_the_first() -> TrialOutcome {
    for address in FAMILIES {
        let bench = Bench::new(address)?;
        let before = bench.image()?;
        let mut moments = 0;
        loop {
            bench.remedy()?.apply(&bench.plan(1400, &[])?)?;
            bench.remedy()?.apply(&bench.plan(1300, &[])?)?;
            bench.remedy()?.apply(&bench.plan(1500, &[])?)?;
            ensure!(bench.effective_mtu()? == 1500, "{}", bench.effective_mtu()?);
            let standing = bench.remedy()?.standing_operations()?;
            let undo = standing.iter().flat_map(|operation| operation.undo_commands(&InterfaceNames::new()));
            ensure!(undo.count() == 3, "{standing:?}");
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

fn changes_by_other_programs_are_kept() -> TrialOutcome {
    for address in FAMILIES {
        let mut bench = Bench::new(address)?;
        let before = bench.image()?;
        bench.remedy()?.apply(&bench.plan(1400, &[])?)?;
        let interface = Some(bench.index(1)?);
        let mut theirs = Route::new(IpNet::from(bench.path().server));
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
        ensure!(bench.journal.exists(), "the journal is missing");
        let forced = bench.remedy()?.undo(true)?;
        ensure!(forced.is_complete(), "{forced:?}");
        same(&before, &bench.image()?, "after force")?;
        ensure!(!bench.journal.exists(), "the journal stays");
    }
    Ok(())
}

/// Regression: an undo added a removed route with a next hop object again.
fn a_route_removed_by_another_program_is_not_added_again() -> TrialOutcome {
    for address in FAMILIES {
        let mut bench = Bench::new(address)?;
        let server = bench.path().server;
        let interface = bench.index(1)?;
        add_next_hop_object(bench.namespace(), 77, interface, address(1, 2))?;
        let route =
            RawRoute::new(server, IpNet::from(server).prefix_len(), 101).set_attribute(&number(30, 77));
        route.add(bench.namespace())?;
        bench.remedy()?.apply(&bench.plan(1400, &[])?)?;
        route.set_attribute(&attribute(8, &number(2, 1400))).remove(bench.namespace())?;
        let removed = bench.image()?;
        for _ in 0..2 {
            let report = bench.remedy()?.undo(false)?;
            ensure!(matches!(report.steps[0].outcome, UndoOutcome::Changed(_)), "{report:?}");
            same(&removed, &bench.image()?, "after the undo")?;
        }
    }
    Ok(())
}

fn changes_removed_with_their_interface_need_no_undo() -> TrialOutcome {
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

fn another_namespace_is_not_changed() -> TrialOutcome {
    let bench = Bench::new(v4)?;
    bench.remedy()?.apply(&bench.plan(1400, &[])?)?;
    let other = Host::new()?;
    let elsewhere = |journal: &Path| other.namespace.run_in(|| Applier::open(journal)?.undo(true));
    let refused = elsewhere(&bench.journal)?;
    ensure!(matches!(refused, Err(ApplyError::Journal(JournalError::Elsewhere { .. }))), "{refused:?}");
    ensure!(bench.remedy()?.undo(false)?.is_complete(), "the undo is no longer possible");
    Ok(())
}

/// The kernel would replace the first of several routes; an outdated plan must not be applied.
fn an_outdated_plan_is_rejected() -> TrialOutcome {
    let mut bench = Bench::new(v4)?;
    let plan = bench.plan(1400, &[])?;
    let interface = bench.index(1)?;
    let theirs =
        RawRoute::new(bench.path().server, 32, 101).set_attribute(&number(4, interface)).header(6, 253);
    theirs.append(bench.namespace())?;
    let before = bench.image()?;
    let refused = bench.remedy()?.apply(&plan);
    ensure!(matches!(refused, Err(ApplyError::Changed { .. })), "{refused:?}");
    same(&before, &bench.image()?, "after the refusal")?;
    ensure!(!bench.journal.exists(), "a journal of nothing stays");
    Ok(())
}

fn without_privilege_no_change_remains() -> TrialOutcome {
    let bench = Bench::new(v4)?;
    let before = bench.image()?;
    let plan = bench.plan(1400, &[])?;
    let refused = bench.namespace().run_in(|| {
        let own = capabilities(None)?;
        set_capabilities(
            None,
            CapabilitySets { effective: own.effective - CapabilitySet::NET_ADMIN, ..own },
        )?;
        let refused = Applier::open(&bench.journal).and_then(|mut remedy| remedy.apply(&plan));
        set_capabilities(None, own)?;
        Ok::<_, Failed>(refused)
    })??;
    let Err(error) = refused else { return Err("it was not refused".into()) };
    ensure!(error.is_host_unable() && error.to_string().contains("CAP_NET_ADMIN"), "{error}");
    ensure!(!bench.journal.exists(), "a journal of nothing stays");
    same(&before, &bench.image()?, "after the refusal")
}
