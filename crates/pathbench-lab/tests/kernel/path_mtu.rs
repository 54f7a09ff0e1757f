//! The MTU of a path through routers that say something or not, against a real server.

use crate::chain::{Chain, INTERFACE, WIDE, clock, v4, v6, within};
use libtest_mimic::Failed;
use pathbench_host::firewall::TooBig;
use pathbench_host::netlink::Route;
use pathbench_kerneltest::{Outcome, ensure, tests};
use pathbench_record::network::IpNetwork;
use pathbench_traffic::path_mtu::{
    DirectionFound, Evidence, MtuBounds, MtuEvent, MtuPath, MtuPlan, PathMtuFound, WatchPace, find_mtu,
    watch_mtu,
};
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

tests! {
    the_table_is_found_exactly_with_icmp,
    the_table_is_found_exactly_without_icmp,
    the_interfaces_limit_each_direction,
    what_the_kernel_has_cached_is_not_heeded,
    a_watch_follows_the_path,
}

fn plan(server: IpAddr, port: u16, interface: Option<&str>) -> MtuPlan {
    MtuPlan {
        server: SocketAddr::new(server, port),
        token: None,
        path: MtuPath { interface: interface.map(str::to_owned), local: None },
        bounds: MtuBounds::default(),
    }
}

fn find(chain: &Chain, plan: &MtuPlan) -> Result<PathMtuFound, Failed> {
    Ok(chain.client.namespace.run_in(|| find_mtu(plan, &clock(), &AtomicBool::new(false)))??)
}

fn mtu(found: &DirectionFound) -> Option<u32> {
    found.found.as_ref().ok().map(|found| found.mtu_bytes)
}

fn the_table_is_found_exactly_with_icmp() -> Outcome {
    the_table(TooBig::Sent)
}

fn the_table_is_found_exactly_without_icmp() -> Outcome {
    the_table(TooBig::Dropped)
}

fn the_table(too_big: TooBig) -> Outcome {
    let mut chain = Chain::new(WIDE, too_big)?;
    let (server, port) = chain.serve()?;
    let mut believed_bytes = WIDE;
    for narrow in [9000, 4352, 1500, 1492, 1400, 1280, 1337] {
        // A kernel that has learnt less does not unlearn it for minutes.
        believed_bytes = believed_bytes.min(narrow);
        chain.narrow(narrow, too_big)?;
        for (address, router) in [(v4(2, 2), v4(0, 2)), (v6(2, 2), v6(0, 2))] {
            let found = find(&chain, &plan(address, port, Some(INTERFACE)))?;
            for direction in [&found.upload, &found.download] {
                ensure!(mtu(direction) == Some(narrow), "{narrow}: {found:#?}");
                ensure!(direction.duration < Duration::from_secs(5), "{narrow}: {found:#?}");
            }
            let expected = match (narrow, too_big) {
                (WIDE, _) => Evidence::LocalInterface,
                (_, TooBig::Sent) => Evidence::Icmp { router, said_bytes: narrow },
                _ => Evidence::Vanished,
            };
            let evidence = found.upload.found.as_ref().map(|found| &found.evidence);
            ensure!(evidence == Ok(&expected), "{narrow}: {found:#?}");
            // What ICMP says of the download it says to the server's kernel.
            let expected = match expected {
                Evidence::Icmp { .. } => Evidence::PeerKernel { believed_bytes },
                other => other,
            };
            let evidence = found.download.found.as_ref().map(|found| &found.evidence);
            ensure!(evidence == Ok(&expected), "{narrow}: {found:#?}");
        }
    }
    server.stop();
    Ok(())
}

fn the_interfaces_limit_each_direction() -> Outcome {
    let mut chain = Chain::new(WIDE, TooBig::Sent)?;
    let (server, port) = chain.serve()?;
    let wide = chain.server.socket.link("wide")?.index;
    chain.server.socket.set_mtu(wide, 4000)?;
    for address in [v4(2, 2), v6(2, 2)] {
        let found = find(&chain, &plan(address, port, None))?;
        let evidence = found.download.found.as_ref().map(|found| (found.mtu_bytes, &found.evidence));
        ensure!(evidence == Ok((4000, &Evidence::PeerInterface)), "{found:#?}");
    }
    let near = chain.client.socket.link(INTERFACE)?.index;
    chain.client.socket.set_mtu(near, 1400)?;
    for address in [v4(2, 2), v6(2, 2)] {
        let found = find(&chain, &plan(address, port, None))?;
        let evidence = found.upload.found.as_ref().map(|found| (found.mtu_bytes, &found.evidence));
        ensure!(evidence == Ok((1400, &Evidence::LocalInterface)), "{found:#?}");
        ensure!(mtu(&found.download) == Some(1400), "{found:#?}");
    }
    server.stop();
    Ok(())
}

/// A path that was narrow and is not any more: both kernels remember, and the probes do not care.
fn what_the_kernel_has_cached_is_not_heeded() -> Outcome {
    let mut chain = Chain::new(1400, TooBig::Sent)?;
    let (server, port) = chain.serve()?;
    for (narrow, too_big) in [(1400, TooBig::Sent), (WIDE, TooBig::Dropped)] {
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

/// What a watch told, as MTUs up and down.
fn told(news: &MtuEvent) -> Option<(Option<u32>, Option<u32>)> {
    match news {
        MtuEvent::Examined(now) | MtuEvent::Changed { now, .. } => {
            Some((mtu(&now.upload), mtu(&now.download)))
        }
        MtuEvent::Away { .. } => None,
    }
}

fn a_watch_follows_the_path() -> Outcome {
    let mut chain = Chain::new(1500, TooBig::Dropped)?;
    let (server, port) = chain.serve()?;
    let plan = plan(v4(2, 2), port, Some(INTERFACE));
    let pace =
        WatchPace { interval: Duration::from_millis(200), larger_interval: Duration::from_millis(600) };
    let (stop, heard) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let namespace = chain.client.namespace.try_clone()?;
    let outcome = std::thread::scope(|scope| -> Outcome {
        let watching = scope.spawn(|| {
            namespace.run_in(|| {
                let mut sink = |_, news| heard.lock().expect("no panic").push(told(&news));
                watch_mtu(&plan, pace, &clock(), &stop, &mut sink)
            })
        });
        let steps = (|| -> Outcome {
            let last = || heard.lock().expect("no panic").last().copied().flatten();
            let follows =
                |mtu: u32| within(Duration::from_secs(15), || last() == Some((Some(mtu), Some(mtu))));
            ensure!(follows(1500), "{heard:?}");
            for narrow in [1400, 9000, 1280] {
                chain.narrow(narrow, TooBig::Dropped)?;
                ensure!(follows(narrow), "{narrow}: {heard:?}");
            }
            // The interface goes and comes back, and the route with it.
            let index = chain.client.socket.link(INTERFACE)?.index;
            chain.client.socket.set_down(index)?;
            let is_away = || heard.lock().expect("no panic").last() == Some(&None);
            ensure!(within(Duration::from_secs(15), is_away), "{heard:?}");
            chain.client.socket.set_up(index)?;
            let route = Route { gateway: Some(v4(0, 2)), ..Route::to(IpNetwork::new(v4(2, 0), 24)?) };
            chain.client.socket.add_route(&route)?;
            ensure!(follows(1280), "{heard:?}");
            Ok(())
        })();
        stop.store(true, Ordering::Release);
        watching.join().expect("no panic")??;
        steps
    });
    server.stop();
    outcome
}
