//! The MTU of a path through routers with and without ICMP, against a real server.

use crate::chain::{Chain, INTERFACE, WIDE, clock, v4, v6, wait_until};
use libtest_mimic::Failed;
use pathbench_host::firewall::TooBigTreatment;
use pathbench_host::netlink::Route;
use pathbench_record::network::IpNet;
use pathbench_testkit::{TrialOutcome, ensure, tests};
use pathbench_traffic::datagram::UdpPath;
use pathbench_traffic::path_mtu::{
    DirectionFound, MtuBounds, MtuEvent, MtuPlan, PathMtuFound, SizeEvidence, WatchPace, find_mtu, watch_mtu,
};
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

tests! {
    the_table_is_found_exactly_with_icmp,
    the_table_is_found_exactly_without_icmp,
    the_interfaces_limit_each_direction,
    the_kernels_cached_mtu_does_not_limit_probes,
    a_watch_follows_the_path,
}

fn plan(server: IpAddr, port: u16, interface: Option<&str>) -> MtuPlan {
    MtuPlan {
        server: SocketAddr::new(server, port),
        token: None,
        path: UdpPath { interface: interface.map(str::to_owned), local: None },
        bounds: MtuBounds::default(),
    }
}

fn find(chain: &Chain, plan: &MtuPlan) -> Result<PathMtuFound, Failed> {
    Ok(chain.client.namespace.run_in(|| find_mtu(plan, &clock(), &AtomicBool::new(false)))??)
}

fn mtu(found: &DirectionFound) -> Option<u32> {
    found.found.as_ref().ok().map(|found| found.mtu_bytes)
}

fn the_table_is_found_exactly_with_icmp() -> TrialOutcome {
    the_table(TooBigTreatment::Sent)
}

fn the_table_is_found_exactly_without_icmp() -> TrialOutcome {
    the_table(TooBigTreatment::Dropped)
}

fn the_table(too_big: TooBigTreatment) -> TrialOutcome {
    let mut chain = Chain::new(WIDE, too_big)?;
    let (server, port) = chain.serve()?;
    let mut pmtu_bytes = WIDE;
    for narrow in [9000, 4352, 1500, 1492, 1400, 1280, 1337] {
        // The kernel keeps a cached path MTU for minutes.
        pmtu_bytes = pmtu_bytes.min(narrow);
        chain.narrow(narrow, too_big)?;
        for (address, router) in [(v4(2, 2), v4(0, 2)), (v6(2, 2), v6(0, 2))] {
            let found = find(&chain, &plan(address, port, Some(INTERFACE)))?;
            for direction in [&found.upload, &found.download] {
                ensure!(mtu(direction) == Some(narrow), "{narrow}: {found:#?}");
                ensure!(direction.duration < Duration::from_secs(5), "{narrow}: {found:#?}");
            }
            let expected = match (narrow, too_big) {
                (WIDE, _) => SizeEvidence::LocalInterface,
                (_, TooBigTreatment::Sent) => SizeEvidence::Icmp { router, mtu_bytes: narrow },
                _ => SizeEvidence::DroppedSilently,
            };
            let evidence = found.upload.found.as_ref().map(|found| &found.evidence);
            ensure!(evidence == Ok(&expected), "{narrow}: {found:#?}");
            // ICMP for the download arrives at the server's kernel.
            let expected = match expected {
                SizeEvidence::Icmp { .. } => SizeEvidence::PeerKernel { pmtu_bytes },
                other => other,
            };
            let evidence = found.download.found.as_ref().map(|found| &found.evidence);
            ensure!(evidence == Ok(&expected), "{narrow}: {found:#?}");
        }
    }
    server.stop();
    Ok(())
}

fn the_interfaces_limit_each_direction() -> TrialOutcome {
    let mut chain = Chain::new(WIDE, TooBigTreatment::Sent)?;
    let (server, port) = chain.serve()?;
    let wide = chain.server.socket.link("wide")?.index;
    chain.server.socket.set_mtu(wide, 4000)?;
    for address in [v4(2, 2), v6(2, 2)] {
        let found = find(&chain, &plan(address, port, None))?;
        let evidence = found.download.found.as_ref().map(|found| (found.mtu_bytes, &found.evidence));
        ensure!(evidence == Ok((4000, &SizeEvidence::PeerInterface)), "{found:#?}");
    }
    let near = chain.client.socket.link(INTERFACE)?.index;
    chain.client.socket.set_mtu(near, 1400)?;
    for address in [v4(2, 2), v6(2, 2)] {
        let found = find(&chain, &plan(address, port, None))?;
        let evidence = found.upload.found.as_ref().map(|found| (found.mtu_bytes, &found.evidence));
        ensure!(evidence == Ok((1400, &SizeEvidence::LocalInterface)), "{found:#?}");
        ensure!(mtu(&found.download) == Some(1400), "{found:#?}");
    }
    server.stop();
    Ok(())
}

/// The path was narrow before: both kernels have cached its MTU, and the probes ignore it.
fn the_kernels_cached_mtu_does_not_limit_probes() -> TrialOutcome {
    let mut chain = Chain::new(1400, TooBigTreatment::Sent)?;
    let (server, port) = chain.serve()?;
    for (narrow, too_big) in [(1400, TooBigTreatment::Sent), (WIDE, TooBigTreatment::Dropped)] {
        chain.narrow(narrow, too_big)?;
        for address in [v4(2, 2), v6(2, 2)] {
            let found = find(&chain, &plan(address, port, None))?;
            ensure!(mtu(&found.upload) == Some(narrow), "{found:#?}");
            ensure!(mtu(&found.download) == Some(narrow), "{found:#?}");
        }
    }
    server.stop();
    Ok(())
}

/// The MTUs (upload, download) in an event of a watch.
fn mtus(event: &MtuEvent) -> Option<(Option<u32>, Option<u32>)> {
    match event {
        MtuEvent::Examined(now) | MtuEvent::Changed { now, .. } => {
            Some((mtu(&now.upload), mtu(&now.download)))
        }
        MtuEvent::Away { .. } => None,
    }
}

fn a_watch_follows_the_path() -> TrialOutcome {
    let mut chain = Chain::new(1500, TooBigTreatment::Dropped)?;
    let (server, port) = chain.serve()?;
    let plan = plan(v4(2, 2), port, Some(INTERFACE));
    let pace =
        WatchPace { interval: Duration::from_millis(200), larger_interval: Duration::from_millis(600) };
    let (stop, events) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let namespace = chain.client.namespace.try_clone()?;
    let outcome = std::thread::scope(|scope| -> TrialOutcome {
        let watching = scope.spawn(|| {
            namespace.run_in(|| {
                let mut sink = |_, event| events.lock().expect("no panic").push(mtus(&event));
                watch_mtu(&plan, pace, &clock(), &stop, &mut sink)
            })
        });
        let steps = (|| -> TrialOutcome {
            let last = || events.lock().expect("no panic").last().copied().flatten();
            let follows =
                |mtu: u32| wait_until(Duration::from_secs(15), || last() == Some((Some(mtu), Some(mtu))));
            ensure!(follows(1500), "{events:?}");
            for narrow in [1400, 9000, 1280] {
                chain.narrow(narrow, TooBigTreatment::Dropped)?;
                ensure!(follows(narrow), "{narrow}: {events:?}");
            }
            // The interface goes and comes back, and the route with it.
            let index = chain.client.socket.link(INTERFACE)?.index;
            chain.client.socket.set_down(index)?;
            let is_away = || events.lock().expect("no panic").last() == Some(&None);
            ensure!(wait_until(Duration::from_secs(15), is_away), "{events:?}");
            chain.client.socket.set_up(index)?;
            let route = Route { gateway: Some(v4(0, 2)), ..Route::new(IpNet::new(v4(2, 0), 24)?) };
            chain.client.socket.add_route(&route)?;
            ensure!(follows(1280), "{events:?}");
            Ok(())
        })();
        stop.store(true, Ordering::Release);
        watching.join().expect("no panic")??;
        steps
    });
    server.stop();
    outcome
}
