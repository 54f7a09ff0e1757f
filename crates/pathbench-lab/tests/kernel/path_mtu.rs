//! The MTU of a path through routers that say something or not, against a real server.

use crate::chain::{Chain, INTERFACE, WIDE, clock, v4, v6};
use crate::ensure;
use libtest_mimic::{Failed, Trial};
use pathbench_host::firewall::TooBig;
use pathbench_traffic::path_mtu::{
    DirectionFound, Evidence, MtuBounds, MtuPath, MtuPlan, PathMtuFound, find_mtu,
};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

type Outcome = Result<(), Failed>;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("path_mtu::the_table_is_found_exactly_with_icmp", || the_table(TooBig::Sent)),
        Trial::test("path_mtu::the_table_is_found_exactly_without_icmp", || the_table(TooBig::Dropped)),
        Trial::test("path_mtu::the_interfaces_limit_each_direction", the_interfaces_limit_each_direction),
        Trial::test("path_mtu::what_the_kernel_has_cached_is_not_heeded", what_is_cached_is_not_heeded),
    ]
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

fn the_table(too_big: TooBig) -> Outcome {
    let mut chain = Chain::new(WIDE, too_big)?;
    let (server, port) = chain.serve()?;
    for narrow in [9000, 4352, 1500, 1492, 1400, 1280, 1337] {
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
fn what_is_cached_is_not_heeded() -> Outcome {
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
