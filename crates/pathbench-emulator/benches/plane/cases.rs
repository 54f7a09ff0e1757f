//! The benchmark cases.

use crate::fixture::{Host, Lab, delayed, v4};
use crate::load::{datagrams, pings, plane_cpu, stream};
use libtest_mimic::Failed;
use pathbench_host::namespace::NetNamespace;
use pathbench_host::netlink::{RouteSocket, VethEnd, VethPair};
use pathbench_link::{LinkModel, LossModel, RateModel};
use pathbench_record::network::IpNet;
use pathbench_record::units::QueueLimit;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

/// Label, value, unit.
pub(crate) type Figures = Vec<(&'static str, f64, &'static str)>;

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) run: fn(Duration) -> Result<Figures, Failed>,
}

pub(crate) fn all() -> Vec<Case> {
    vec![
        Case { name: "veth, tcp", run: veth_stream },
        Case { name: "unshaped, tcp, whole", run: whole },
        Case { name: "unshaped, tcp, cut here", run: cut_here },
        Case { name: "unshaped, tcp, cut by hosts", run: cut_by_hosts },
        Case { name: "1 Gbit/s + 20 ms, tcp", run: gigabit },
        Case { name: "1 Gbit/s + 20 ms, ping beside tcp at 0.9 Gbit/s", run: gigabit_ping_under_load },
        Case { name: "1 Gbit/s + 20 ms, ping alone", run: gigabit_ping },
        Case { name: "veth, 64-byte udp", run: veth_datagrams },
        Case { name: "unshaped, 64-byte udp", run: small },
    ]
}

/// Two hosts and a veth pair.
fn veth() -> Result<[Host; 2], Failed> {
    let namespaces = [NetNamespace::create()?, NetNamespace::create()?];
    let end = |namespace| VethEnd { name: "pbt-0", namespace, mtu: 1_500 };
    RouteSocket::open()?
        .create_veth(&VethPair { first: end(&namespaces[0]), second: end(&namespaces[1]) })?;
    let [first, second] = namespaces;
    let host = |namespace: NetNamespace, number: u8| {
        let mut socket = RouteSocket::open_in(&namespace)?;
        let index = socket.link("pbt-0")?.index;
        socket.set_up(index)?;
        socket.add_address(index, IpNet::new(v4(number), 24)?)?;
        Ok::<_, Failed>(Host { namespace, socket, index })
    };
    let mut hosts = [host(first, 1)?, host(second, 2)?];
    let deadline = Instant::now() + Duration::from_secs(5);
    for host in &mut hosts {
        while !host.socket.link_by_index(host.index)?.running && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(hosts)
}

fn veth_stream(time: Duration) -> Result<Figures, Failed> {
    let [client, server] = veth()?;
    let (bps, ()) = stream(&client, &server, v4(2), time, None, || Ok(()))?;
    Ok(vec![("goodput", bps / 1e9, "Gbit/s")])
}

fn veth_datagrams(time: Duration) -> Result<Figures, Failed> {
    let [client, server] = veth()?;
    let receiver = server.namespace.run_in(|| UdpSocket::bind((v4(2), 0)))??;
    let sender = client.namespace.run_in(|| UdpSocket::bind((v4(1), 0)))??;
    sender.connect(receiver.local_addr()?)?;
    Ok(vec![("received", datagrams((sender, receiver), 64, time)? / 1e3, "packets/ms")])
}

/// A TCP stream over an emulated link.
fn stream_over(lab: &Lab, time: Duration) -> Result<Figures, Failed> {
    lab.set("net.ipv4.tcp_rmem", "4096 131072 67108864")?;
    lab.set("net.ipv4.tcp_wmem", "4096 131072 67108864")?;
    let (bps, (busy, packets)) = stream(&lab.client, &lab.server, v4(2), time, None, || {
        let count = || -> Result<_, Failed> {
            let sides = lab.report()?.directions;
            Ok((plane_cpu()?, sides.iter().map(|side| side.statistics.delivered_packets).sum::<u64>()))
        };
        let before = count()?;
        std::thread::sleep(time);
        let after = count()?;
        Ok((after.0.saturating_sub(before.0), after.1 - before.1))
    })?;
    let report = lab.report()?;
    let late = report.directions[0].lateness;
    let overruns: u64 = report.directions.iter().map(|side| side.overrun_packets).sum();
    Ok(vec![
        ("goodput", bps / 1e9, "Gbit/s"),
        ("processor", busy.as_secs_f64() / time.as_secs_f64() * 100.0, "%"),
        ("processor per wire packet", busy.as_secs_f64() * 1e9 / packets.max(1) as f64, "ns"),
        ("lateness p50", late.p50.as_secs_f64() * 1e6, "µs"),
        ("lateness p99", late.p99.as_secs_f64() * 1e6, "µs"),
        ("overruns", overruns as f64, "packets"),
    ])
}

fn whole(time: Duration) -> Result<Figures, Failed> {
    stream_over(&Lab::symmetric(&LinkModel::default())?, time)
}

/// A loss probability that never drops a packet but has every packet segmented.
fn segmented() -> LinkModel {
    LinkModel { loss: LossModel::Independent(1e-18), ..LinkModel::default() }
}

fn cut_here(time: Duration) -> Result<Figures, Failed> {
    stream_over(&Lab::symmetric(&segmented())?, time)
}

fn cut_by_hosts(time: Duration) -> Result<Figures, Failed> {
    stream_over(&Lab::without_offload(&LinkModel::default())?, time)
}

fn gigabit_link() -> Result<Lab, Failed> {
    let queue = QueueLimit::Bytes(20_000_000);
    let rate = RateModel::Constant(1_000_000_000);
    Lab::symmetric(&LinkModel { rate, queue, ..delayed(Duration::from_millis(20)) })
}

fn gigabit(time: Duration) -> Result<Figures, Failed> {
    stream_over(&gigabit_link()?, time)
}

fn delays(times: &[Duration]) -> Figures {
    let over = |share: f64| {
        let time = times.get((times.len().saturating_sub(1) as f64 * share) as usize).copied();
        (time.unwrap_or_default().as_secs_f64() - 0.04) * 1e3
    };
    vec![
        ("RTT p50 beyond 40 ms", over(0.5), "ms"),
        ("RTT p99 beyond 40 ms", over(0.99), "ms"),
        ("RTT max beyond 40 ms", over(1.0), "ms"),
    ]
}

fn gigabit_ping(time: Duration) -> Result<Figures, Failed> {
    let lab = gigabit_link()?;
    let times = pings(&lab.client, v4(2), time)?;
    let mut figures = delays(&times);
    let late = lab.report()?.directions[0].lateness;
    figures.push(("lateness p50", late.p50.as_secs_f64() * 1e6, "µs"));
    figures.push(("lateness p99", late.p99.as_secs_f64() * 1e6, "µs"));
    Ok(figures)
}

fn gigabit_ping_under_load(time: Duration) -> Result<Figures, Failed> {
    let lab = gigabit_link()?;
    lab.set("net.ipv4.tcp_rmem", "4096 131072 67108864")?;
    lab.set("net.ipv4.tcp_wmem", "4096 131072 67108864")?;
    let ping = || pings(&lab.client, v4(2), time);
    let (bps, times) = stream(&lab.client, &lab.server, v4(2), time, Some(900_000_000), ping)?;
    let mut figures = delays(&times);
    figures.push(("goodput", bps / 1e9, "Gbit/s"));
    let late = lab.report()?.directions[0].lateness;
    figures.push(("lateness p50", late.p50.as_secs_f64() * 1e6, "µs"));
    figures.push(("lateness p99", late.p99.as_secs_f64() * 1e6, "µs"));
    Ok(figures)
}

fn small(time: Duration) -> Result<Figures, Failed> {
    let lab = Lab::symmetric(&LinkModel::default())?;
    let before = plane_cpu()?;
    let received = datagrams(lab.udp(v4)?, 64, time)?;
    let busy = plane_cpu()?.saturating_sub(before);
    let side = &lab.report()?.directions[0];
    let delivered = side.statistics.delivered_packets as f64;
    Ok(vec![
        ("carried", delivered / time.as_secs_f64() / 1e3, "packets/ms"),
        ("received", received / 1e3, "packets/ms"),
        ("overruns", side.overrun_packets as f64 / time.as_secs_f64() / 1e3, "packets/ms"),
        ("processor per packet", busy.as_secs_f64() * 1e9 / delivered.max(1.0), "ns"),
    ])
}
