//! The pattern `datagrams` between a client and a server over loopback.

use crate::common::{clock, random_id};
use pathbench_record::datagram::{DatagramLog, DatagramsParameters, LoggedDatagram};
use pathbench_record::direction::DataDirection;
use pathbench_record::end::EndRecord;
use pathbench_record::pattern::PatternParameters;
use pathbench_record::transport::Transport;
use pathbench_traffic::client::{ClientError, ClientOutcome, ClientPlan, Unobserved, run_client};
use pathbench_traffic::datagram::{DatagramKind, DatagramMessage, PathJoin};
use pathbench_traffic::record::check_peer;
use pathbench_traffic::server::{Server, ServerLimits, ServerOptions};
use pathbench_transport::{LocalPath, Security, ServerIdentity, Trust};
use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

struct Service {
    _server: Server,
    address: SocketAddr,
    security: Security,
}

impl Service {
    fn start(limits: ServerLimits) -> Self {
        let identity = ServerIdentity::self_signed(&["localhost".to_owned()]).unwrap();
        let security = Security::Tls(Trust::Fingerprint(identity.fingerprint()));
        let options = ServerOptions {
            limits,
            identity: Some(Arc::new(identity)),
            ..ServerOptions::new(vec![(Transport::Udp, SocketAddr::from(([127, 0, 0, 1], 0)))])
        };
        let server = Server::start(options, clock()).unwrap();
        let [(Transport::Udp, address), (Transport::Quic, other)] = *server.addresses() else { panic!() };
        assert_eq!(address, other, "control and datagrams have the same port number");
        Self { _server: server, address, security }
    }

    fn plan(&self, transport: Transport, parameters: DatagramsParameters) -> ClientPlan {
        let security = if transport.is_quic() { self.security.clone() } else { Security::Clear };
        let parameters = PatternParameters::Datagrams(parameters);
        ClientPlan { security, ..ClientPlan::new(transport, self.address, random_id(), parameters) }
    }

    fn run(&self, transport: Transport, parameters: DatagramsParameters) -> (EndRecord, EndRecord) {
        let plan = self.plan(transport, parameters);
        completed(run_client(&plan, &clock(), &Unobserved))
    }
}

fn completed(outcome: ClientOutcome) -> (EndRecord, EndRecord) {
    let ClientOutcome { client, server, completed, error, .. } = outcome;
    assert!(completed && error.is_none(), "{error:?} {:?}", client.errors);
    (client, server.unwrap())
}

/// A second of 100 packets.
fn short() -> DatagramsParameters {
    DatagramsParameters {
        frames_per_second: 100,
        duration: 1000 * MS,
        linger: 300 * MS,
        ..DatagramsParameters::voice()
    }
}

fn log(end: &EndRecord) -> &DatagramLog {
    end.datagrams.as_ref().unwrap()
}

fn sequences(logged: &[LoggedDatagram]) -> BTreeSet<u32> {
    logged.iter().map(|logged| logged.sequence).collect()
}

#[test]
fn each_datagram_that_leaves_is_logged_at_both_ends() {
    let service = Service::start(ServerLimits::default());
    for transport in [Transport::Udp, Transport::Quic, Transport::Mpquic] {
        let (client, server) = service.run(transport, short());
        for (sender, receiver) in [(&client, &server), (&server, &client)] {
            let (sent, received) = (&log(sender).sent, &log(receiver).received);
            assert!(
                sent.len() > 50,
                "{transport}: {} of 100 left, {} unsent",
                sent.len(),
                log(sender).unsent
            );
            assert_eq!(sent.len() as u64 + log(sender).unsent, 100, "{transport}");
            // Loopback loses nothing.
            assert_eq!(sequences(sent), sequences(received), "{transport}");
            assert_eq!(sender.offered.total_bytes(), 160 * sent.len() as u64, "{transport}");
            assert_eq!(receiver.deliveries.total_bytes(), 160 * received.len() as u64, "{transport}");
            for (sent, received) in sent.iter().zip(received) {
                assert!(received.at >= sent.at && received.at.duration_since(sent.at) < 500 * MS);
            }
        }
    }
}

#[test]
fn udp_sends_a_flow_on_each_path_and_names_them() {
    let service = Service::start(ServerLimits::default());
    let path = |last| LocalPath {
        address: Some(std::net::Ipv4Addr::new(127, 0, 0, last).into()),
        ..LocalPath::new("lo".to_owned())
    };
    let mut plan = service.plan(Transport::Udp, short());
    plan.quic.paths = vec![path(1), path(2)];
    let (client, server) = completed(run_client(&plan, &clock(), &Unobserved));
    assert_eq!(
        log(&client).paths,
        ["127.0.0.1".parse::<std::net::IpAddr>().unwrap(), "127.0.0.2".parse().unwrap()]
    );
    for received in [&log(&client).received, &log(&server).received] {
        for path in 0..2 {
            assert!(received.iter().filter(|one| one.path == path).count() > 50);
        }
    }
}

#[test]
fn frames_are_split_and_directions_are_respected() {
    let service = Service::start(ServerLimits::default());
    let video = DatagramsParameters {
        direction: DataDirection::Download,
        duration: 500 * MS,
        linger: 300 * MS,
        ..DatagramsParameters::video()
    };
    for transport in [Transport::Udp, Transport::Quic] {
        let (client, server) = service.run(transport, video.clone());
        assert!(log(&client).sent.is_empty() && log(&server).received.is_empty());
        assert_eq!(log(&server).sent.len() as u64 + log(&server).unsent, 30 * 18);
        assert!(client.deliveries.total_bytes() > 0, "{transport}");
    }
}

#[test]
fn transports_with_retransmission_are_refused_by_both_ends() {
    let service = Service::start(ServerLimits::default());
    let outcome = run_client(&service.plan(Transport::Tcp, short()), &clock(), &Unobserved);
    let Some(ClientError::Plan { message }) = outcome.error else { panic!("{:?}", outcome.error) };
    assert!(message.contains("needs a transport without retransmission"), "{message}");
}

#[test]
fn a_server_holds_its_rate_limit_in_both_directions() {
    let limit_bps = 1_000_000;
    let service = Service::start(ServerLimits { max_rate_bps: Some(limit_bps), ..ServerLimits::default() });
    // 0.8 Mbit/s.
    let permitted =
        DatagramsParameters { frame_bytes: 1000, duration: 2000 * MS, linger: 300 * MS, ..short() };
    let heavy = DatagramsParameters { frames_per_second: 130, ..permitted.clone() };
    // The time of the tests at the limit, the longest lag of a sender, and a burst.
    let most = limit_bps / 8 * 27 / 10;
    for transport in [Transport::Udp, Transport::Quic] {
        let outcome = run_client(&service.plan(transport, heavy.clone()), &clock(), &Unobserved);
        let refusal = outcome.error.unwrap().to_string();
        assert!(refusal.contains("datagrams at 1.040 Mbit/s were requested"), "{refusal}");
        // Two tests of one client share its limit.
        let both = |direction| {
            let parameters = DatagramsParameters { direction, ..permitted.clone() };
            std::thread::scope(|scope| {
                let run = || service.run(transport, parameters.clone());
                let other = scope.spawn(run);
                [run(), other.join().unwrap()]
            })
        };
        let downloads = both(DataDirection::Download);
        let sent: u64 = downloads.iter().map(|(_, server)| server.offered.total_bytes()).sum();
        assert!(sent <= most && sent > most / 4, "{transport}: {sent} bytes sent, at most {most}");
        assert!(downloads.iter().map(|(_, server)| log(server).unsent).sum::<u64>() > 50, "{transport}");
        let uploads = both(DataDirection::Upload);
        let received: u64 = uploads.iter().map(|(_, server)| server.deliveries.total_bytes()).sum();
        assert!(
            received <= most && received > most / 4,
            "{transport}: {received} bytes taken, at most {most}"
        );
        assert!(uploads.iter().map(|(_, server)| log(server).omitted).sum::<u64>() > 50, "{transport}");
    }
}

/// An adversary with a cookie of its own address, but without the id of an admitted test; and one without a cookie.
#[test]
fn only_a_proved_address_of_an_admitted_test_gets_datagrams() {
    let service = Service::start(ServerLimits::default());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(service.address).unwrap();
    socket.set_read_timeout(Some(300 * MS)).unwrap();
    let mut buffer = [0; 2048];
    let mut exchange = |datagram: &[u8]| {
        socket.send(datagram).unwrap();
        let length = socket.recv(&mut buffer).ok()?;
        DatagramMessage::decode(&buffer[..length])
    };
    let mut join = PathJoin::new(random_id(), 0, 7, None);
    let now = clock().now();
    let welcome = exchange(&join.poll(now).unwrap()).unwrap();
    assert_eq!(welcome.kind, DatagramKind::Welcome);
    join.receive(now, &welcome);
    assert_eq!(exchange(&join.poll(now).unwrap()), None, "no such test");
    assert!(!join.is_joined());
    for cookie in [welcome.cookie, welcome.cookie ^ 1] {
        for kind in [DatagramKind::Flow, DatagramKind::FlowJoin] {
            let message = DatagramMessage { cookie, ..DatagramMessage::new(kind, 7, 1) };
            assert_eq!(exchange(&message.encode(1200)), None, "{kind:?}");
        }
    }
}

/// A path that joined a test, and its session and cookie from another address: neither adds a datagram beyond the plan.
#[test]
fn a_cookie_is_of_no_use_from_another_address_or_after_its_test() {
    let service = Service::start(ServerLimits::default());
    let parameters = DatagramsParameters { direction: DataDirection::Upload, ..short() };
    let plan = service.plan(Transport::Udp, parameters.clone());
    let open = || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(service.address).unwrap();
        socket.set_read_timeout(Some(20 * MS)).unwrap();
        socket
    };
    let (socket, elsewhere) = (open(), open());
    let mut join = PathJoin::new(plan.test, 0, 7, None);
    let outcome = std::thread::scope(|scope| {
        let client = scope.spawn(|| run_client(&plan, &clock(), &Unobserved));
        // When the client's path has joined, this one takes its place.
        std::thread::sleep(400 * MS);
        let mut buffer = [0; 2048];
        while !join.is_joined() && !client.is_finished() {
            if let Some(request) = join.poll(clock().now()) {
                socket.send(&request).unwrap();
            }
            let answer =
                socket.recv(&mut buffer).ok().and_then(|length| DatagramMessage::decode(&buffer[..length]));
            if let Some(answer) = answer {
                join.receive(clock().now(), &answer);
            }
        }
        for sequence in 0..50 {
            let flow = DatagramMessage {
                cookie: join.cookie(),
                ..DatagramMessage::new(DatagramKind::Flow, 7, 1_000 + sequence)
            };
            elsewhere.send(&flow.encode(160)).unwrap();
            socket.send(&flow.encode(160)).unwrap();
        }
        client.join().unwrap()
    });
    assert!(join.is_joined());
    let (_, server) = completed(outcome);
    assert_eq!(log(&server).foreign, 50, "none from the other address");
    assert!(log(&server).received.iter().all(|one| u64::from(one.sequence) < parameters.datagrams()));
    let flow = DatagramMessage { cookie: join.cookie(), ..DatagramMessage::new(DatagramKind::Flow, 7, 1) };
    let (_, server) = std::thread::scope(|scope| {
        let client = scope.spawn(|| service.run(Transport::Udp, parameters));
        while !client.is_finished() {
            socket.send(&flow.encode(160)).unwrap();
            std::thread::sleep(20 * MS);
        }
        client.join().unwrap()
    });
    assert_eq!(log(&server).foreign, 0, "the session ended with its test");
    assert_eq!(sequences(&log(&server).received).len(), log(&server).received.len());
}

#[test]
fn a_record_with_impossible_datagrams_is_refused() {
    let service = Service::start(ServerLimits::default());
    let (client, server) = service.run(Transport::Udp, short());
    let now = clock().now();
    check_peer(&client, &server, now).unwrap();
    let falsified = |change: &dyn Fn(&mut DatagramLog)| {
        let mut false_record = server.clone();
        change(false_record.datagrams.as_mut().unwrap());
        check_peer(&client, &false_record, now).unwrap_err().to_string()
    };
    let first = log(&server).received[0];
    let unknown = falsified(&|log| log.received[0].sequence = 100);
    assert!(unknown.contains("the test has no such datagram"), "{unknown}");
    let at = client.started + Duration::from_secs(1_000_000);
    let late = falsified(&|log| log.received[0] = LoggedDatagram { at, ..first });
    assert!(late.contains("datagrams.received[0]"), "{late}");
    let flood = falsified(&|log| log.received = vec![first; 10_000]);
    assert!(flood.contains("datagrams.received.length"), "{flood}");
    let mut other = client.clone();
    other.datagrams.as_mut().unwrap().sent.retain(|sent| sent.sequence != first.sequence);
    let unsent = check_peer(&other, &server, now).unwrap_err().to_string();
    assert!(unsent.contains("this end did not send it"), "{unsent}");
}
