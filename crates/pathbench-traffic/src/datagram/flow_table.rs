//! The flows of a server's tests: which addresses belong to which test, and the datagrams from and to them.
//!
//! An address becomes a path of a test with a cookie, which proves it, and with the test's id, which only the client of
//! an admitted test has. It receives datagrams only while it proves itself again and again.

use super::message::{DatagramKind, DatagramMessage};
use crate::flow::FlowReceiver;
use crate::pacer::Pacers;
use pathbench_record::end::TestId;
use pathbench_record::time::Timestamp;
use pathbench_transport::{DatagramPort, lock};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A path gets datagrams for this long after its last datagram with a cookie; its client sends one every second.
const LONGEST_SILENCE: Duration = Duration::from_secs(30);
/// Datagrams beyond this much of the rate limit are dropped.
pub(crate) const LONGEST_DEBT: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(crate) struct FlowTable(Mutex<Tables>);

#[derive(Debug, Default)]
struct Tables {
    tests: HashMap<TestId, Arc<ServerFlow>>,
    sessions: HashMap<u64, (Arc<ServerFlow>, u32)>,
}

/// The flows of one test.
#[derive(Debug)]
pub(crate) struct ServerFlow {
    paths: Mutex<Vec<Option<JoinedPath>>>,
    /// Absent if the client sends nothing.
    receiver: Option<Arc<Mutex<FlowReceiver>>>,
    pacers: Option<Arc<Pacers>>,
}

#[derive(Debug)]
struct JoinedPath {
    session: u64,
    address: SocketAddr,
    local: Option<IpAddr>,
    port: Arc<dyn DatagramPort>,
    proved: Timestamp,
}

/// A test's entry in the table, removed with its drop.
#[derive(Debug)]
pub(crate) struct FlowSlot {
    table: Arc<FlowTable>,
    test: TestId,
    pub(crate) flow: Arc<ServerFlow>,
}

impl Drop for FlowSlot {
    fn drop(&mut self) {
        let mut tables = lock(&self.table.0);
        tables.tests.remove(&self.test);
        tables.sessions.retain(|_, (flow, _)| !Arc::ptr_eq(flow, &self.flow));
    }
}

/// The sender of a datagram, and the port at which it arrived.
#[derive(Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) from: SocketAddr,
    pub(super) local: Option<IpAddr>,
    pub(super) port: &'a Arc<dyn DatagramPort>,
}

impl FlowTable {
    /// Admits the paths of a test, up to `paths`.
    pub(crate) fn open(
        self: &Arc<Self>,
        test: TestId,
        paths: u32,
        receiver: Option<Arc<Mutex<FlowReceiver>>>,
        pacers: Option<Arc<Pacers>>,
    ) -> FlowSlot {
        let paths = Mutex::new((0..paths).map(|_| None).collect());
        let flow = Arc::new(ServerFlow { paths, receiver, pacers });
        lock(&self.0).tests.insert(test, Arc::clone(&flow));
        FlowSlot { table: Arc::clone(self), test, flow }
    }

    /// Adds the address, which has returned its cookie, to the test that the message names; the answer to it.
    pub(super) fn join(
        &self,
        now: Timestamp,
        origin: Origin<'_>,
        message: &DatagramMessage,
    ) -> Option<DatagramMessage> {
        let test: TestId = message.text.parse().ok()?;
        let mut tables = lock(&self.0);
        let flow = Arc::clone(tables.tests.get(&test)?);
        let index = u32::try_from(message.value).ok()?;
        let session = message.session;
        let is_foreign =
            |(other, path): &(Arc<ServerFlow>, u32)| !Arc::ptr_eq(other, &flow) || *path != index;
        if tables.sessions.get(&session).is_some_and(is_foreign) {
            return None;
        }
        let mut paths = lock(&flow.paths);
        let path = paths.get_mut(index as usize)?;
        if let Some(old) = path.as_ref().filter(|old| old.session != session) {
            tables.sessions.remove(&old.session);
        }
        let Origin { from: address, local, port } = origin;
        port.stamp_arrivals();
        *path = Some(JoinedPath { session, address, local, port: Arc::clone(port), proved: now });
        drop(paths);
        tables.sessions.insert(session, (flow, index));
        Some(DatagramMessage { kind: DatagramKind::FlowJoined, text: String::new(), ..message.clone() })
    }

    /// Logs a datagram of `length` bytes that arrived at `at` from an address that has returned its cookie.
    pub(super) fn receive(&self, now: Timestamp, at: Timestamp, message: &DatagramMessage, length: usize) {
        let found =
            lock(&self.0).sessions.get(&message.session).map(|(flow, path)| (Arc::clone(flow), *path));
        let Some((flow, path)) = found else { return };
        if let Some(Some(path)) = lock(&flow.paths).get_mut(path as usize) {
            path.proved = now;
        }
        let Some(receiver) = &flow.receiver else { return };
        let is_permitted = flow
            .pacers
            .as_ref()
            .is_none_or(|pacers| pacers.received.charge_within(now, length, LONGEST_DEBT));
        let mut receiver = lock(receiver);
        if is_permitted {
            receiver.receive(at, path, message.sequence, length);
        } else {
            receiver.omit();
        }
    }
}

impl ServerFlow {
    /// Sends a datagram on a path; whether it left.
    pub(crate) fn send(&self, now: Timestamp, path: u32, sequence: u32, datagram: &mut [u8]) -> bool {
        let target = {
            let paths = lock(&self.paths);
            let Some(Some(path)) = paths.get(path as usize) else { return false };
            if now.duration_since(path.proved) > LONGEST_SILENCE {
                return false;
            }
            DatagramMessage::stamp(datagram, sequence, now.as_nanos());
            DatagramMessage::set_session(datagram, path.session);
            (path.local, path.address, Arc::clone(&path.port))
        };
        let (local, address, port) = target;
        port.send_from(local, address, datagram).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::ReceiverPlan;
    use crate::meter::Meter;
    use pathbench_record::datagram::DatagramsParameters;
    use std::io;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Debug, Default)]
    struct CountingPort(AtomicUsize);

    impl DatagramPort for CountingPort {
        fn send_from(&self, _: Option<IpAddr>, _: SocketAddr, _: &[u8]) -> io::Result<()> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn stamp_arrivals(&self) {}
    }

    const TEST: TestId = TestId([7; 16]);

    fn second(number: u64) -> Timestamp {
        Timestamp::default() + Duration::from_secs(number)
    }

    fn message(kind: DatagramKind, session: u64, sequence: u32) -> DatagramMessage {
        DatagramMessage { text: TEST.to_string(), ..DatagramMessage::new(kind, session, sequence) }
    }

    #[test]
    fn a_server_sends_to_nobody_but_a_path_that_joined_and_proves_itself() {
        let table = Arc::new(FlowTable::default());
        let port = Arc::new(CountingPort::default());
        let sent = || port.0.load(Ordering::Relaxed);
        let shared: Arc<dyn DatagramPort> = Arc::<CountingPort>::clone(&port);
        let origin = |from: &str| Origin { from: from.parse().unwrap(), local: None, port: &shared };
        let mut datagram = DatagramMessage::new(DatagramKind::Flow, 0, 0).encode(160);
        let slot = table.open(TEST, 1, None, None);
        assert!(!slot.flow.send(second(0), 0, 0, &mut datagram) && sent() == 0, "no path has joined");
        let join = message(DatagramKind::FlowJoin, 1, 1);
        let beyond = DatagramMessage { value: 1, ..join.clone() };
        assert_eq!(table.join(second(0), origin("192.0.2.1:1"), &beyond), None, "the test has one path");
        assert!(table.join(second(0), origin("192.0.2.1:1"), &join).is_some());
        assert!(
            slot.flow.send(second(30), 0, 0, &mut datagram)
                && !slot.flow.send(second(31), 0, 1, &mut datagram)
        );
        assert!(!slot.flow.send(second(30), 1, 0, &mut datagram) && sent() == 1, "no such path");
        let other = TestId([8; 16]);
        let foreign = DatagramMessage { text: other.to_string(), ..join.clone() };
        let other_slot = table.open(other, 1, None, None);
        assert_eq!(
            table.join(second(31), origin("192.0.2.1:1"), &foreign),
            None,
            "the session belongs to a test"
        );
        drop((slot, other_slot));
        assert_eq!(table.join(second(31), origin("192.0.2.1:1"), &join), None, "the test is over");
    }

    #[test]
    fn a_client_that_sends_more_than_its_plan_fills_a_bounded_log() {
        let table = Arc::new(FlowTable::default());
        let parameters =
            DatagramsParameters { duration: Duration::from_secs(1), ..DatagramsParameters::voice() };
        let planned = parameters.datagrams();
        let plan = ReceiverPlan { parameters, is_flow_per_path: true };
        let meter = Meter::new(second(0), Duration::from_secs(1));
        let receiver = Arc::new(Mutex::new(FlowReceiver::new(plan, meter)));
        let slot = table.open(TEST, 1, Some(Arc::clone(&receiver)), None);
        let shared: Arc<dyn DatagramPort> = Arc::new(CountingPort::default());
        let origin = Origin { from: SocketAddr::from(([192, 0, 2, 1], 1)), local: None, port: &shared };
        table.join(second(0), origin, &message(DatagramKind::FlowJoin, 1, 1)).unwrap();
        for round in 0..20 {
            for sequence in 0..planned as u32 {
                table.receive(second(0), second(0), &message(DatagramKind::Flow, 1, sequence), 160);
            }
            table.receive(second(0), second(0), &message(DatagramKind::Flow, 1, planned as u32 + round), 160);
            table.receive(second(0), second(0), &message(DatagramKind::Flow, 1, 0), 1_200);
            table.receive(second(0), second(0), &message(DatagramKind::Flow, 2, 0), 160);
        }
        let (logged, omitted, foreign, bytes) = {
            let receiver = lock(&receiver);
            (receiver.log.len() as u64, receiver.omitted, receiver.foreign, receiver.meter.received_bytes)
        };
        assert!(logged <= planned * 9 / 8 + 64 && logged + omitted == 20 * planned, "{logged} logged");
        assert_eq!((foreign, bytes), (40, 160 * planned), "beyond the plan, and of another length");
        drop(slot);
        table.receive(second(0), second(0), &message(DatagramKind::Flow, 1, 0), 160);
        assert_eq!(lock(&receiver).omitted, omitted, "after the end");
    }
}
