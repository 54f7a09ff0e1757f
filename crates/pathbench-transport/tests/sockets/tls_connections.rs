//! TLS on tcp and mptcp over loopback: the interface and timeouts of clear text, and bounded cost of malicious peers.

use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use pathbench_testkit::MonotonicClock;
use pathbench_transport::{
    ALPN, ConnectError, ConnectOptions, Connection, ListenOptions, Listener, ReceiveError, Security,
    SendError, ServerIdentity, Session, Trust, mptcp_available, server_config,
};
use rustls::ServerConnection;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Longer than any expected event takes.
const PATIENCE: Duration = Duration::from_secs(20);
const MS: Duration = Duration::from_millis(1);

#[allow(clippy::disallowed_methods, reason = "a test is an outermost shell")]
fn now() -> Instant {
    Instant::now()
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(MonotonicClock)
}

fn identity() -> Arc<ServerIdentity> {
    Arc::new(ServerIdentity::self_signed(&["localhost".to_owned()]).unwrap())
}

fn listen(transport: Transport, identity: Option<Arc<ServerIdentity>>) -> Listener {
    let options = ListenOptions { identity, ..ListenOptions::default() };
    Listener::open(transport, SocketAddr::from(([127, 0, 0, 1], 0)), &options, &clock()).unwrap()
}

fn open(
    transport: Transport,
    remote: SocketAddr,
    security: Security,
    timeout: Duration,
) -> Result<Connection, ConnectError> {
    let options = ConnectOptions { security, ..ConnectOptions::new(remote, timeout) };
    Session::new(transport, options, clock()).open()
}

fn pinned(identity: &ServerIdentity) -> Security {
    Security::Tls(Trust::Fingerprint(identity.fingerprint()))
}

/// Both ends of a TLS connection, after the server has received the client's first byte.
fn pair(transport: Transport) -> (Connection, Connection, Listener) {
    let identity = identity();
    let listener = listen(transport, Some(Arc::clone(&identity)));
    let (server, client) = thread::scope(|scope| {
        let server = scope.spawn(|| {
            let (server, _) = listener.accept().unwrap();
            assert_eq!(server.receive(&mut [0; 1], Some(PATIENCE)).unwrap(), 1);
            server
        });
        let client = open(transport, listener.local_addr(), pinned(&identity), PATIENCE).unwrap();
        assert_eq!(client.send(b"!", Some(PATIENCE)).unwrap(), 1);
        (server.join().unwrap(), client)
    });
    (client, server, listener)
}

fn transports() -> Vec<Transport> {
    // A container's kernel may lack MPTCP; the tests in namespaces report that.
    if mptcp_available().is_ok() { vec![Transport::Tcp, Transport::Mptcp] } else { vec![Transport::Tcp] }
}

fn pattern(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (at.wrapping_mul(seed) >> 7) as u8).collect()
}

fn send_all(connection: &Connection, bytes: &[u8]) {
    let mut sent = 0;
    while sent < bytes.len() {
        sent += connection.send(&bytes[sent..], Some(PATIENCE)).unwrap();
    }
    connection.finish_sending();
}

fn receive_all(connection: &Connection) -> Vec<u8> {
    let mut received = Vec::new();
    let mut buffer = vec![0; 100_000];
    loop {
        match connection.receive(&mut buffer, Some(PATIENCE)).unwrap() {
            0 => return received,
            count => received.extend_from_slice(&buffer[..count]),
        }
    }
}

#[test]
fn bytes_arrive_in_both_directions_at_once_from_four_threads() {
    for transport in transports() {
        let (client, server, _listener) = pair(transport);
        let (up, down) = (pattern(77_777, 9_000_001), pattern(33_333, 7_000_003));
        thread::scope(|scope| {
            scope.spawn(|| send_all(&client, &up));
            scope.spawn(|| send_all(&server, &down));
            let at_client = scope.spawn(|| receive_all(&client));
            let at_server = scope.spawn(|| receive_all(&server));
            assert!(at_server.join().unwrap() == up, "{transport}: upload garbled");
            assert!(at_client.join().unwrap() == down, "{transport}: download garbled");
        });
        for end in [&client, &server] {
            let encryption = end.in_force().encryption.clone().unwrap_or_default();
            assert!(encryption.starts_with("TLS 1.3 TLS13_"), "{encryption}");
            assert_eq!(end.in_force().protocol, transport.name());
        }
    }
}

#[test]
fn clear_and_encrypted_clients_are_served_on_one_port() {
    let identity = identity();
    let listener = listen(Transport::Tcp, Some(Arc::clone(&identity)));
    for security in [Security::Clear, pinned(&identity), Security::Clear] {
        let (client, server) = thread::scope(|scope| {
            let server = scope.spawn(|| {
                let (server, _) = listener.accept().unwrap();
                let mut word = [0; 64];
                // The first byte of the test protocol.
                let count = server.receive(&mut word, Some(PATIENCE)).unwrap();
                assert_eq!(&word[..count], b"\x01hello");
                assert_eq!(server.send(b"welcome", Some(PATIENCE)).unwrap(), 7);
                server
            });
            let client = open(Transport::Tcp, listener.local_addr(), security.clone(), PATIENCE).unwrap();
            client.send(b"\x01hello", Some(PATIENCE)).unwrap();
            (client, server.join().unwrap())
        });
        let mut word = [0; 64];
        let count = client.receive(&mut word, Some(PATIENCE)).unwrap();
        assert_eq!(&word[..count], b"welcome");
        let encrypted = security.trust().is_some();
        assert_eq!(client.in_force().encryption.is_some(), encrypted);
        assert_eq!(server.in_force().encryption, client.in_force().encryption);
        drop(server);
        assert_eq!(client.receive(&mut word, Some(PATIENCE)).unwrap(), 0);
    }
}

#[test]
fn another_server_is_rejected() {
    let listener = listen(Transport::Tcp, Some(identity()));
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            let (server, _) = listener.accept().unwrap();
            server.receive(&mut [0; 16], Some(PATIENCE))
        });
        let error = open(Transport::Tcp, listener.local_addr(), pinned(&identity()), PATIENCE).unwrap_err();
        assert!(matches!(error, ConnectError::Untrusted { .. }), "{error}");
        assert!(error.to_string().contains("fingerprint"), "{error}");
        assert!(!matches!(server.join().unwrap(), Ok(1..)));
    });
}

#[test]
fn clear_text_servers_and_silent_servers_have_different_errors() {
    let other_service = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other_service.local_addr().unwrap();
    let thread = thread::spawn(move || {
        let (mut mail, _) = other_service.accept().unwrap();
        mail.write_all(b"220 mail.example ESMTP\r\n").unwrap();
        let (closing, _) = other_service.accept().unwrap();
        drop(closing);
        other_service.accept().unwrap()
    });
    let security = pinned(&identity());
    let error = open(Transport::Tcp, address, security.clone(), PATIENCE).unwrap_err();
    assert!(error.to_string().contains("other than TLS"), "{error}");
    let error = open(Transport::Tcp, address, security.clone(), PATIENCE).unwrap_err();
    assert!(matches!(error, ConnectError::NotEncrypted { .. }), "{error}");
    let error = open(Transport::Tcp, address, security, 300 * MS).unwrap_err();
    assert!(matches!(error, ConnectError::TimedOut { .. }), "{error}");
    drop(thread.join());
}

#[test]
fn the_last_flight_of_a_handshake_travels_with_the_first_data() {
    let identity = identity();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut session = ServerConnection::new(Arc::new(server_config(&identity, ALPN).unwrap())).unwrap();
    thread::scope(|scope| {
        let client = scope.spawn(|| {
            open(Transport::Tcp, listener.local_addr().unwrap(), pinned(&identity), PATIENCE).unwrap()
        });
        let (mut socket, _) = listener.accept().unwrap();
        session.read_tls(&mut socket).unwrap();
        session.process_new_packets().unwrap();
        while session.wants_write() {
            session.write_tls(&mut socket).unwrap();
        }
        let client = client.join().unwrap();
        socket.set_read_timeout(Some(200 * MS)).unwrap();
        let error = session.read_tls(&mut socket).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}");
        assert_eq!(client.send(b"first", Some(PATIENCE)).unwrap(), 5);
        session.read_tls(&mut socket).unwrap();
        session.process_new_packets().unwrap();
        let mut first = [0; 5];
        session.reader().read_exact(&mut first).unwrap();
        assert_eq!((&first, session.is_handshaking()), (b"first", false));
    });
}

#[test]
fn a_handshake_sent_byte_by_byte_does_not_extend_the_timeout() {
    let listener = listen(Transport::Tcp, Some(identity()));
    let mut slow = TcpStream::connect(listener.local_addr()).unwrap();
    let (server, _) = listener.accept().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            // A handshake record that announces 1000 bytes; one byte arrives every 20 ms.
            let _ = slow.write_all(&[0x16, 3, 1, 3, 232, 1, 0, 3, 228]);
            for _ in 0..150 {
                thread::sleep(20 * MS);
                if slow.write_all(&[0]).is_err() {
                    return;
                }
            }
        });
        let begun = now();
        let error = server.receive(&mut [0; 100], Some(300 * MS)).unwrap_err();
        let took = begun.elapsed();
        assert!(matches!(error, ReceiveError::TimedOut { .. }), "{error}");
        assert!(took < 1500 * MS, "{took:?}");
        server.abort();
        drop(server);
    });
}

#[test]
fn timeouts_aborts_and_ends_match_clear_text_connections() {
    let (client, server, _listener) = pair(Transport::Tcp);
    let error = client.receive(&mut [0; 10], Some(Duration::ZERO)).unwrap_err();
    assert!(matches!(error, ReceiveError::TimedOut { .. }), "{error}");
    let begun = now();
    let error = client.receive(&mut [0; 10], Some(100 * MS)).unwrap_err();
    assert!(matches!(error, ReceiveError::TimedOut { .. }) && begun.elapsed() >= 98 * MS, "{error}");
    // The peer does not read: eventually no more data is accepted, and all accepted data still arrives.
    let block = pattern(5, 128 * 1024);
    let mut taken = 0;
    let error = loop {
        match client.send(&block, Some(100 * MS)) {
            Ok(count) => taken += count,
            Err(error) => break error,
        }
        assert!(taken < 1 << 30);
    };
    assert!(matches!(error, SendError::TimedOut { .. }), "{error}");
    thread::scope(|scope| {
        let received = scope.spawn(|| {
            let mut received = 0;
            let mut buffer = vec![0; 1 << 16];
            while received < taken {
                received += server.receive(&mut buffer, Some(PATIENCE)).unwrap();
            }
            received
        });
        // The next call in either direction sends the data still queued at this end.
        while !received.is_finished() {
            let _nothing = client.receive(&mut [0; 10], Some(20 * MS));
        }
        assert_eq!(received.join().unwrap(), taken);
    });
    thread::scope(|scope| {
        let blocked = scope.spawn(|| client.receive(&mut [0; 10], None));
        thread::sleep(50 * MS);
        client.abort();
        assert!(matches!(blocked.join().unwrap(), Err(ReceiveError::Aborted { .. })));
    });
    assert!(matches!(client.send(&block, None), Err(SendError::Aborted { .. })));
}

#[test]
fn garbage_instead_of_a_handshake_is_an_immediate_error() {
    let listener = listen(Transport::Tcp, Some(identity()));
    for garbage in [&[0x16_u8, 0xff, 0xff, 0xff, 0xff, 0xff][..], &[0x16; 4096][..]] {
        let mut peer = TcpStream::connect(listener.local_addr()).unwrap();
        let (server, _) = listener.accept().unwrap();
        peer.write_all(garbage).unwrap();
        let error = server.receive(&mut [0; 100], Some(PATIENCE)).unwrap_err();
        assert!(matches!(error, ReceiveError::Failed { .. }), "{error}");
        assert!(server.receive(&mut [0; 100], Some(PATIENCE)).is_err());
        drop(server);
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        // An alert may precede the end of the stream.
        let _ = peer.read_to_end(&mut Vec::new());
    }
}

/// Regression: a renewed certificate needed a restart, which ends the connections.
#[test]
fn a_renewed_certificate_counts_for_new_connections_and_the_others_continue() {
    let directory = tempfile::tempdir().unwrap();
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| directory.path().join(name));
    let write = || {
        let (chain, private) = ServerIdentity::self_signed_pem(&["localhost".to_owned()]).unwrap();
        std::fs::write(&certificate, chain).unwrap();
        std::fs::write(&key, private).unwrap();
    };
    for transport in [Transport::Tcp, Transport::Quic] {
        write();
        let identity = Arc::new(ServerIdentity::from_pem_files(&certificate, &key).unwrap());
        let listener = listen(transport, Some(Arc::clone(&identity)));
        let begin = |security: Security| {
            thread::scope(|scope| {
                let server = scope.spawn(|| {
                    let (server, _) = listener.accept().unwrap();
                    server.receive(&mut [0; 1], Some(PATIENCE)).map(|_| server)
                });
                let client = open(transport, listener.local_addr(), security, PATIENCE).unwrap();
                client.send(b"!", Some(PATIENCE)).unwrap();
                (client, server.join().unwrap().unwrap())
            })
        };
        let former = pinned(&identity);
        let (client, server) = begin(former.clone());
        std::fs::write(&certificate, "broken").unwrap();
        identity.renew(&certificate, &key).unwrap_err();
        assert_eq!(pinned(&identity), former, "the present certificate stays");
        write();
        assert!(identity.renew(&certificate, &key).unwrap());
        assert!(!identity.renew(&certificate, &key).unwrap(), "the same again");
        begin(pinned(&identity));
        client.send(b"!", Some(PATIENCE)).unwrap();
        assert_eq!(server.receive(&mut [0; 1], Some(PATIENCE)).unwrap(), 1, "{transport}");
        thread::scope(|scope| {
            if transport == Transport::Tcp {
                scope
                    .spawn(|| listener.accept().unwrap().0.receive(&mut [0; 1], Some(PATIENCE)).unwrap_err());
            }
            let error = open(transport, listener.local_addr(), former, PATIENCE).unwrap_err();
            assert!(matches!(error, ConnectError::Untrusted { .. }), "{transport}: {error}");
        });
    }
}
