//! Namespaces, connections and common actions of the tests.

use libtest_mimic::Failed;
use pathbench_host::mptcp::{EndpointFlags, MptcpEndpoint, PathManager};
use pathbench_host::namespace::NetNamespace;
use pathbench_host::netlink::RouteSocket;
use pathbench_record::network::IpNet;
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use pathbench_testkit::MonotonicClock;
use pathbench_transport::{
    AcceptError, BindError, ConnectError, ConnectOptions, Connection, ListenOptions, Listener, ReceiveError,
    SendError, Session, SocketOptions,
};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Longer than any expected event takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Runs `body` in a fresh network namespace whose loopback is up.
pub(crate) fn in_namespace(body: fn()) -> Result<(), Failed> {
    let namespace = NetNamespace::create()?;
    RouteSocket::open_in(&namespace)?.set_loopback_up()?;
    Ok(namespace.run_in(body)?)
}

/// The namespace's loopback interface.
pub(crate) struct Loopback {
    socket: RouteSocket,
    index: u32,
}

impl Loopback {
    pub(crate) fn new() -> Self {
        let mut socket = RouteSocket::open().expect("a netlink socket");
        let index = socket.link("lo").expect("the loopback interface").index;
        Self { socket, index }
    }

    pub(crate) fn add_address(&mut self, address: IpAddr) {
        self.socket.add_address(self.index, IpNet::from(address)).expect("an address more");
    }

    /// Limits packets to 1500 bytes, and GSO packets to `segments` segments.
    pub(crate) fn limit_gso(&mut self, segments: u32) {
        self.socket.set_mtu(self.index, 1500).expect("the MTU");
        self.socket.set_gso(self.index, 65_536, segments).expect("a limit");
    }

    /// Bytes and packets sent; a GSO packet counts once.
    pub(crate) fn sent(&mut self) -> (u64, u64) {
        let counters = self.socket.statistics(self.index).expect("counters");
        (counters.tx_bytes, counters.tx_packets)
    }

    pub(crate) fn set_down(&mut self) {
        self.socket.set_down(self.index).expect("the loopback interface down");
    }

    /// An endpoint of loopback for subflows.
    pub(crate) fn add_endpoint(&self, address: IpAddr) {
        add_endpoint(&mut path_manager(), address, self.index);
    }
}

/// An endpoint from which MPTCP connections of the manager's namespace open a subflow, those that it accepted among them.
pub(crate) fn add_endpoint(manager: &mut PathManager, address: IpAddr, interface: u32) {
    let flags = EndpointFlags { subflow: true, ..EndpointFlags::default() };
    let endpoint = MptcpEndpoint { address, port: None, id: None, interface: Some(interface), flags };
    manager.add_endpoint(&endpoint).expect("an endpoint more");
}

/// The namespace's MPTCP path manager.
fn path_manager() -> PathManager {
    PathManager::open().expect("the path manager")
}

pub(crate) fn remove_endpoints() {
    let mut manager = path_manager();
    for endpoint in manager.endpoints().expect("the endpoints") {
        manager.remove_endpoint(endpoint.id.unwrap_or(0), endpoint.address).expect("an endpoint less");
    }
}

pub(crate) fn loopback(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, last).into()
}

pub(crate) fn options_to(remote: SocketAddr) -> ConnectOptions {
    ConnectOptions::new(remote, PATIENCE)
}

pub(crate) fn connect(transport: Transport, options: &ConnectOptions) -> Result<Connection, ConnectError> {
    Session::new(transport, options.clone(), Arc::new(MonotonicClock)).open()
}

pub(crate) fn listen(transport: Transport, address: IpAddr) -> Listener {
    bind(transport, SocketAddr::new(address, 0), 16, &SocketOptions::default()).expect("a listener")
}

/// A listener of tcp or mptcp in clear text.
pub(crate) fn bind(
    transport: Transport,
    address: SocketAddr,
    backlog: u32,
    socket: &SocketOptions,
) -> Result<Listener, BindError> {
    let options = ListenOptions { backlog, socket: socket.clone(), ..ListenOptions::default() };
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    Listener::open(transport, address, &options, &clock)
}

/// A connection from a client to a server of possibly different transports.
pub(crate) fn pair(client: Transport, server: Transport, address: IpAddr) -> (Connection, Connection) {
    pair_at(&listen(server, address), client)
}

/// A connection to `listener`, which must stay open while further subflows may join.
pub(crate) fn pair_at(listener: &Listener, client: Transport) -> (Connection, Connection) {
    let client = connect(client, &options_to(listener.local_addr())).expect("a connection");
    let (server, _) = listener.accept().expect("an accepted connection");
    (client, server)
}

/// Sends `length` bytes in one direction and waits until all have arrived.
pub(crate) fn transfer(from: &Connection, to: &Connection, length: usize) {
    thread::scope(|scope| {
        scope.spawn(|| {
            let block = vec![0x5a_u8; 64 * 1024];
            let mut left = length;
            while left > 0 {
                left -= from.send(&block[..left.min(block.len())], Some(PATIENCE)).expect("sent");
            }
        });
        let mut buffer = vec![0_u8; 128 * 1024];
        let mut received = 0;
        while received < length {
            let count = to.receive(&mut buffer, Some(PATIENCE)).expect("received");
            assert!(count > 0, "the end after {received} of {length} bytes");
            assert!(buffer[..count].iter().all(|&byte| byte == 0x5a));
            received += count;
        }
    });
}

/// Set when this value is dropped.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Sends from `from` to `to` while `act` runs, and calls `arrived` with the size of each received chunk.
pub(crate) fn send_during(
    from: &Connection,
    to: &Connection,
    mut arrived: impl FnMut(usize) + Send,
    act: impl FnOnce(),
) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let block = vec![0; 32 * 1024];
            while !done.load(Ordering::Acquire) {
                from.send(&block, Some(PATIENCE)).expect("sent");
            }
            from.finish_sending();
        });
        scope.spawn(move || {
            let mut buffer = vec![0; 256 * 1024];
            loop {
                match to.receive(&mut buffer, Some(PATIENCE)).expect("received") {
                    0 => break,
                    count => arrived(count),
                }
            }
        });
        // A panic of `act` must end the sender too: the scope waits for it.
        let _done = SetAtEnd(&done);
        act();
    });
}

/// Repeats `condition` until it returns a value.
pub(crate) fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    for _ in 0..2000 {
        if let Some(found) = condition() {
            return found;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("{what} did not happen within 10 s");
}

/// Aborts a connection while one thread is blocked in receive and another in send: both calls must return, and so must
/// later calls.
pub(crate) fn abort_while_blocked(client: &Connection) {
    thread::scope(|scope| {
        let receiving = scope.spawn(|| client.receive(&mut [0; 16], None));
        let sending = scope.spawn(|| {
            let block = vec![0; 1 << 20];
            loop {
                if let Err(error) = client.send(&block, None) {
                    return error;
                }
            }
        });
        thread::sleep(Duration::from_millis(300));
        let blocked = !receiving.is_finished() && !sending.is_finished();
        client.abort();
        assert!(blocked, "both should be blocked");
        let received = receiving.join().expect("no panic");
        assert!(matches!(received, Err(ReceiveError::Aborted { .. })), "{received:?}");
        let sent = sending.join().expect("no panic");
        assert!(matches!(sent, SendError::Aborted { .. }), "{sent}");
    });
    let later = client.receive(&mut [0; 16], None);
    assert!(matches!(later, Err(ReceiveError::Aborted { .. })), "{later:?}");
}

/// Closes a listener while two threads wait in accept: both calls must return, and so must later calls.
pub(crate) fn close_while_accepting(listener: &Listener) {
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..2).map(|_| scope.spawn(|| listener.accept())).collect();
        thread::sleep(Duration::from_millis(100));
        let blocked = waiting.iter().all(|thread| !thread.is_finished());
        listener.close();
        assert!(blocked, "both should be blocked");
        for thread in waiting {
            let result = thread.join().expect("no panic");
            assert!(matches!(result, Err(AcceptError::Closed { .. })), "{result:?}");
        }
    });
    assert!(matches!(listener.accept(), Err(AcceptError::Closed { .. })));
}

/// Receives the data in flight, and then a reset.
pub(crate) fn assert_reset(server: &Connection) {
    let mut buffer = vec![0; 1 << 20];
    let end = wait_for("a reset", || match server.receive(&mut buffer, Some(PATIENCE)) {
        Ok(1..) => None,
        other => Some(other),
    });
    assert!(matches!(end, Err(ReceiveError::Reset { .. })), "{}: {end:?}", server.transport());
}
