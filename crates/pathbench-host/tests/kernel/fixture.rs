//! A small lab: two hosts, and links between them through bridges in a third namespace.

use libtest_mimic::Failed;
use pathbench_host::namespace::NetNamespace;
use pathbench_host::netlink::{Route, RouteSocket, RoutingRule, VethEnd, VethPair};
use pathbench_host::qdisc::Shaper;
use pathbench_host::sysctl;
use pathbench_record::network::IpNet;
use pathbench_testkit::ensure;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Prefix of all interfaces of the tests, except `lo`.
const PREFIX: &str = "pbt-";

pub(crate) const MTU: u32 = 1500;

pub(crate) fn is_ours(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// One network namespace and a netlink socket in it.
pub(crate) struct Host {
    pub(crate) namespace: NetNamespace,
    pub(crate) socket: RouteSocket,
}

impl Host {
    pub(crate) fn new() -> Result<Self, Failed> {
        let namespace = NetNamespace::create()?;
        // A router solicits no neighbours while its link-local addresses are tentative.
        namespace.run_in(|| sysctl::write("net.ipv6.conf.default.accept_dad", "0"))??;
        let mut socket = RouteSocket::open_in(&namespace)?;
        socket.set_loopback_up()?;
        Ok(Self { namespace, socket })
    }

    pub(crate) fn index(&mut self, name: &str) -> Result<u32, Failed> {
        Ok(self.socket.link(name)?.index)
    }

    /// Waits until all interfaces can carry packets and deliver packets for their addresses.
    pub(crate) fn wait_for_links(&mut self) -> Result<(), Failed> {
        for link in self.socket.links()? {
            let ready =
                wait_until(Duration::from_secs(5), || Ok(self.socket.link_by_index(link.index)?.running))?;
            ensure!(ready, "{link:?} does not get ready");
        }
        for address in self.socket.addresses()?.into_iter().filter(|address| !address.link_scope) {
            let address = address.network.addr();
            let delivered = wait_until(Duration::from_secs(5), || Ok(self.socket.delivers(address)?))?;
            ensure!(delivered, "{address} is not delivered to");
        }
        Ok(())
    }
}

/// `client` and `server`, joined by links `pbt-0`, `pbt-1`, … through bridges in the namespace `fabric`.
pub(crate) struct Lab {
    pub(crate) client: Host,
    pub(crate) server: Host,
    pub(crate) fabric: Host,
}

pub(crate) fn wire_name(path: u8) -> String {
    format!("{PREFIX}{path}")
}

/// Address of the client (`host` 1) or the server (`host` 2) on a path.
pub(crate) fn v4(path: u8, host: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, path, host).into()
}

pub(crate) fn v6(path: u8, host: u8) -> IpAddr {
    Ipv6Addr::new(0xfd00, 0, 0, u16::from(path), 0, 0, 0, u16::from(host)).into()
}

impl Lab {
    /// A lab with one path per shaper. The shaper applies to both directions, one hop away from the sender.
    pub(crate) fn new(paths: &[Option<Shaper>]) -> Result<Self, Failed> {
        let mut lab = Self { client: Host::new()?, server: Host::new()?, fabric: Host::new()? };
        for (path, shaper) in (0..).zip(paths) {
            lab.add_path(path, shaper.as_ref())?;
        }
        for host in [&mut lab.client, &mut lab.server, &mut lab.fabric] {
            host.wait_for_links()?;
        }
        Ok(lab)
    }

    fn add_path(&mut self, path: u8, shaper: Option<&Shaper>) -> Result<(), Failed> {
        let name = wire_name(path);
        let bridge = self.fabric.socket.create_bridge(&format!("{name}-b"))?;
        for (host, number) in [(&mut self.client, 1), (&mut self.server, 2)] {
            let far = format!("{name}.{number}");
            let wire = |name, namespace| VethEnd { name, namespace, mtu: MTU };
            self.fabric.socket.create_veth(&VethPair {
                first: wire(&name, &host.namespace),
                second: wire(&far, &self.fabric.namespace),
            })?;
            let port = self.fabric.index(&far)?;
            self.fabric.socket.set_master(port, bridge)?;
            self.fabric.socket.set_up(port)?;
            let index = host.index(&name)?;
            if let Some(shaper) = shaper {
                self.fabric.socket.install_shaper(port, shaper)?;
                host.socket.set_gso(index, 65_536, segments(shaper.rate_bps))?;
            }
            host.socket.set_up(index)?;
            let table = 100 + u32::from(path);
            for (address, prefix) in [(v4(path, number), 24), (v6(path, number), 64)] {
                let network = IpNet::new(address, prefix)?;
                host.socket.add_address(index, network)?;
                let route = Route { interface: Some(index), table, ..Route::new(network.trunc()) };
                host.socket.add_route(&route)?;
                let rule = RoutingRule { from: IpNet::from(address), table, priority: table };
                host.socket.add_rule(&rule)?;
            }
        }
        self.fabric.socket.set_up(bridge)?;
        Ok(())
    }

    /// Index in the fabric namespace of the port towards the server (2) or the client (1).
    pub(crate) fn port(&mut self, path: u8, towards: u8) -> Result<u32, Failed> {
        let name = format!("{}.{towards}", wire_name(path));
        self.fabric.index(&name)
    }

    /// Sends from the client to the server while `task` runs.
    pub(crate) fn while_sending<R: Send>(
        &mut self,
        path: u8,
        task: impl FnOnce(&mut RouteSocket) -> R + Send,
    ) -> Result<R, Failed> {
        let listener = self.server.namespace.run_in(|| TcpListener::bind((v4(path, 2), 0)))??;
        let address = listener.local_addr()?;
        let stream = self.client.namespace.run_in(|| TcpStream::connect(address))??;
        // Fills the queue with any default congestion control; every kernel has reno.
        socket2::SockRef::from(&stream).set_tcp_congestion(b"reno")?;
        let done = AtomicBool::new(false);
        let socket = &mut self.fabric.socket;
        std::thread::scope(|scope| {
            scope.spawn(|| drain(&listener));
            scope.spawn(|| pump(&stream, &done));
            let result = task(socket);
            done.store(true, Ordering::Relaxed);
            // The pump may be blocked by a full buffer.
            stream.shutdown(std::net::Shutdown::Both)?;
            Ok(result)
        })
    }
}

fn pump(mut stream: &TcpStream, done: &AtomicBool) {
    let data = vec![0; 128 * 1024];
    while !done.load(Ordering::Relaxed) {
        if stream.write_all(&data).is_err() {
            return;
        }
    }
}

fn drain(listener: &TcpListener) {
    let Ok((mut stream, _)) = listener.accept() else { return };
    let mut data = vec![0; 256 * 1024];
    while matches!(stream.read(&mut data), Ok(length) if length > 0) {}
}

/// The rate of a shaper in an interval, in bits per second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    /// Rate while the queue was not empty. A delayed read of the counters makes it too high or too low.
    pub(crate) while_waiting_bps: f64,
    /// Rate over the whole interval. The clock is read before and after the counters, so the rate is never too high.
    pub(crate) in_all_bps: f64,
}

/// The best rate of up to five intervals of `time`. A machine that stalls for longer than the shaper's burst reduces
/// the rate of an interval; no effect increases it.
pub(crate) fn sent(
    socket: &mut RouteSocket,
    index: u32,
    rate_bps: u64,
    time: Duration,
) -> Result<Sent, Failed> {
    let mut best = sent_once(socket, index, rate_bps, time)?;
    for _ in 1..5 {
        if best.while_waiting_bps > 0.95 * rate_bps as f64 {
            break;
        }
        let next = sent_once(socket, index, rate_bps, time)?;
        best = Sent {
            while_waiting_bps: best.while_waiting_bps.max(next.while_waiting_bps),
            in_all_bps: best.in_all_bps.max(next.in_all_bps),
        };
    }
    Ok(best)
}

/// Reads the shaper's counters every few milliseconds for `time`.
fn sent_once(socket: &mut RouteSocket, index: u32, rate_bps: u64, time: Duration) -> Result<Sent, Failed> {
    let begun = Instant::now();
    let read = |socket: &mut RouteSocket| Ok::<_, Failed>((Instant::now(), socket.qdisc_statistics(index)?));
    let start = read(socket)?;
    let (mut before, mut bytes, mut busy) = (start, 0, Duration::ZERO);
    while before.0 - start.0 < time {
        std::thread::sleep(Duration::from_millis(4));
        let after = read(socket)?;
        let window = after.0 - before.0;
        // The queue was not empty.
        if f64::from(before.1.backlog_bytes) * 8.0 > rate_bps as f64 * window.as_secs_f64() {
            bytes += after.1.bytes - before.1.bytes;
            busy += window;
        }
        before = after;
    }
    ensure!(busy > time / 5, "there was hardly ever something to send");
    let bps = |bytes: u64, time: Duration| bytes as f64 * 8.0 / time.as_secs_f64();
    Ok(Sent {
        while_waiting_bps: bps(bytes, busy),
        in_all_bps: bps(before.1.bytes - start.1.bytes, begun.elapsed()),
    })
}

/// The largest GSO packet in segments: 0.3 ms at the rate.
fn segments(rate_bps: u64) -> u32 {
    (rate_bps * 3 / 80_000 / u64::from(MTU)).clamp(1, 43) as u32
}

/// Whether a UDP message from `from` in `sender` arrives at `to` in `receiver`.
pub(crate) fn message_arrives(
    sender: &Host,
    from: IpAddr,
    receiver: &Host,
    to: IpAddr,
) -> Result<bool, Failed> {
    use std::net::UdpSocket;
    let inbox = receiver.namespace.run_in(|| UdpSocket::bind((to, 0)))??;
    inbox.set_read_timeout(Some(Duration::from_secs(1)))?;
    let outbox = sender.namespace.run_in(|| UdpSocket::bind((from, 0)))??;
    if outbox.send_to(b"over the wire", inbox.local_addr()?).is_err() {
        return Ok(false);
    }
    let mut text = [0; 64];
    let Ok((length, source)) = inbox.recv_from(&mut text) else { return Ok(false) };
    Ok(text.get(..length) == Some(b"over the wire") && source == SocketAddr::new(from, source.port()))
}

/// Retries until `condition` is true or `time` has passed.
pub(crate) fn wait_until(
    time: Duration,
    mut condition: impl FnMut() -> Result<bool, Failed>,
) -> Result<bool, Failed> {
    let deadline = Instant::now() + time;
    loop {
        if condition()? {
            return Ok(true);
        }
        if Instant::now() > deadline {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sets a socket option that has no safe wrapper.
#[allow(unsafe_code, reason = "it has no safe form")]
pub(crate) fn set_int(socket: &impl AsRawFd, level: i32, option: i32, value: i32) -> Result<(), Failed> {
    let length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the kernel reads one int, which lives until the call returns.
    let answer =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), length) };
    if answer == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().into()) }
}
