//! Connections over the kernel's tcp and mptcp.

use crate::support::{
    Loopback, PATIENCE, abort_while_blocked, assert_reset, bind, close_while_accepting, connect,
    in_namespace, listen, loopback, options_to, pair, transfer,
};
use pathbench_host::sysctl;
use pathbench_record::connection::{FallbackReason, Negotiation};
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use pathbench_testkit::{MonotonicClock, tests};
use pathbench_transport::{
    BindError, CongestionError, ConnectError, ConnectOptions, MptcpUnavailable, ReceiveError, SendError,
    SocketOptions, mptcp_available,
};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::thread;
use std::time::Duration;

const BOTH: [Transport; 2] = [Transport::Tcp, Transport::Mptcp];
const SHORT: Duration = Duration::from_millis(120);

tests! {
    in_namespace =>
    bytes_arrive_in_both_directions_with_the_end_of_the_stream,
    one_connection_serves_a_sending_and_a_receiving_thread,
    a_wildcard_ipv6_listener_reports_ipv4_peers_as_ipv4,
    timeouts_leave_the_connection_usable,
    abort_unblocks_other_threads_and_resets_the_peer,
    a_closed_listener_stops_accepting,
    each_connect_failure_has_its_own_error,
    a_connection_uses_the_requested_address_and_interface,
    options_are_in_force_at_both_ends,
    an_unknown_congestion_control_names_the_known_ones,
    a_port_in_use_is_reported,
    a_plain_tcp_server_makes_mptcp_fall_back_in_the_handshake,
    an_mptcp_server_reports_a_plain_tcp_client,
    disabled_mptcp_is_reported_with_its_remedy,
    a_dead_path_and_a_slow_path_have_different_errors,
}

fn bytes_arrive_in_both_directions_with_the_end_of_the_stream() {
    for transport in BOTH {
        for address in [loopback(1), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            let (client, server) = pair(transport, transport, address);
            assert_eq!(client.local_addr(), server.peer_addr());
            assert_eq!(client.peer_addr(), server.local_addr());
            assert_eq!(client.in_force().protocol, transport.name());
            assert_eq!(server.in_force().protocol, transport.name());
            transfer(&client, &server, 3_000_000);
            transfer(&server, &client, 2_000_000);
            client.finish_sending();
            let mut buffer = [0; 16];
            assert_eq!(server.receive(&mut buffer, Some(PATIENCE)).expect("the end"), 0);
            transfer(&server, &client, 1000);
            drop(server);
            assert_eq!(client.receive(&mut buffer, Some(PATIENCE)).expect("the end"), 0);
        }
    }
}

fn one_connection_serves_a_sending_and_a_receiving_thread() {
    for transport in BOTH {
        let (client, server) = pair(transport, transport, loopback(1));
        thread::scope(|scope| {
            scope.spawn(|| transfer(&client, &server, 20_000_000));
            scope.spawn(|| transfer(&server, &client, 20_000_000));
        });
    }
}

fn a_wildcard_ipv6_listener_reports_ipv4_peers_as_ipv4() {
    for transport in BOTH {
        let listener = listen(transport, IpAddr::V6(Ipv6Addr::UNSPECIFIED));
        let target = SocketAddr::new(loopback(1), listener.local_addr().port());
        let client = connect(transport, &options_to(target)).expect("a connection");
        let (server, peer) = listener.accept().expect("an accepted connection");
        assert_eq!(peer, client.local_addr());
        assert_eq!(server.peer_addr(), client.local_addr());
        assert_eq!(server.local_addr(), target);
        let figures = server.telemetry().expect("a handle").snapshot().expect("a snapshot");
        assert_eq!(figures.subflows[0].remote, client.local_addr());
        assert_eq!(figures.subflows[0].local, target);
    }
}

fn timeouts_leave_the_connection_usable() {
    let clock = MonotonicClock;
    for transport in BOTH {
        let (client, server) = pair(transport, transport, loopback(1));
        let mut buffer = vec![0; 1 << 20];
        let before = clock.now();
        let error = client.receive(&mut buffer, Some(SHORT)).expect_err("nothing was sent");
        let waited = clock.now().duration_since(before);
        assert!(matches!(error, ReceiveError::TimedOut { after, .. } if after == SHORT), "{error}");
        assert!(waited >= SHORT * 9 / 10 && waited < PATIENCE, "waited {waited:?}");
        let error = client.receive(&mut buffer, Some(Duration::ZERO)).expect_err("nothing was sent");
        assert!(matches!(error, ReceiveError::TimedOut { .. }), "{error}");

        // The receiver does not read, so the buffers fill up: first part of the data is accepted, then none.
        let mut taken = 0;
        let error = loop {
            match client.send(&buffer, Some(SHORT)) {
                Ok(count) => taken += count,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, SendError::TimedOut { .. }), "{error}");
        assert!(taken > 0);
        let error = client.send(&buffer, Some(Duration::ZERO)).expect_err("the buffers are full");
        assert!(matches!(error, SendError::TimedOut { .. }), "{error}");
        let mut received = 0;
        while received < taken {
            received += server.receive(&mut buffer, Some(PATIENCE)).expect("received");
        }
        assert_eq!(received, taken);
        transfer(&client, &server, 10_000);
    }
}

fn abort_unblocks_other_threads_and_resets_the_peer() {
    for transport in BOTH {
        let (client, server) = pair(transport, transport, loopback(1));
        abort_while_blocked(&client);
        drop(client);
        assert_reset(&server);
    }
}

fn a_closed_listener_stops_accepting() {
    for transport in BOTH {
        close_while_accepting(&listen(transport, loopback(1)));
    }
}

fn each_connect_failure_has_its_own_error() {
    let clock = MonotonicClock;
    for transport in BOTH {
        let free = listen(transport, loopback(1)).local_addr();
        let error = connect(transport, &options_to(free)).expect_err("no listener");
        assert!(matches!(error, ConnectError::Refused { remote } if remote == free), "{error}");

        let far = SocketAddr::from(([192, 0, 2, 1], 9));
        let error = connect(transport, &options_to(far)).expect_err("no route");
        assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");

        let options = ConnectOptions { local: Some(IpAddr::from([192, 0, 2, 7])), ..options_to(free) };
        let error = connect(transport, &options).expect_err("not a local address");
        assert!(matches!(error, ConnectError::NotALocalAddress { .. }), "{error}");

        let options = ConnectOptions { local: Some(IpAddr::V6(Ipv6Addr::LOCALHOST)), ..options_to(free) };
        let error = connect(transport, &options).expect_err("mixed families");
        assert!(matches!(error, ConnectError::FamilyMismatch { .. }), "{error}");

        let options = ConnectOptions { interface: Some("nosuch0".to_owned()), ..options_to(free) };
        let error = connect(transport, &options).expect_err("no such interface");
        assert!(matches!(error, ConnectError::NoSuchInterface { .. }), "{error}");

        // The server does not accept and the queue is full, so the kernel drops further SYNs.
        let listener = bind(transport, free, 0, &SocketOptions::default()).expect("a listener");
        let _queued =
            connect(transport, &options_to(listener.local_addr())).expect("a queue for one connection");
        let options =
            ConnectOptions { timeout: Duration::from_millis(300), ..options_to(listener.local_addr()) };
        let before = clock.now();
        let error = connect(transport, &options).expect_err("no answer");
        let waited = clock.now().duration_since(before);
        assert!(matches!(error, ConnectError::TimedOut { .. }), "{error}");
        // poll(2) has a resolution of 1 ms.
        assert!(waited >= Duration::from_millis(298) && waited < PATIENCE, "{waited:?}");
    }
    let error = connect(Transport::Quic, &options_to(SocketAddr::from(([127, 0, 0, 1], 9))))
        .expect_err("no trusted server");
    assert!(matches!(error, ConnectError::NoTrust { transport: Transport::Quic, .. }), "{error}");
}

fn a_connection_uses_the_requested_address_and_interface() {
    for transport in BOTH {
        let listener = listen(transport, loopback(1));
        let options = ConnectOptions {
            local: Some(loopback(5)),
            interface: Some("lo".to_owned()),
            ..options_to(listener.local_addr())
        };
        let client = connect(transport, &options).expect("a connection");
        assert_eq!(client.local_addr().ip(), loopback(5));
        let (_server, peer) = listener.accept().expect("accepted");
        assert_eq!(peer.ip(), loopback(5));
    }
}

fn options_are_in_force_at_both_ends() {
    let options = SocketOptions {
        congestion: Some("reno".to_owned()),
        send_buffer_bytes: Some(100_000),
        receive_buffer_bytes: Some(150_000),
        no_delay: true,
    };
    for transport in BOTH {
        let any = SocketAddr::new(loopback(1), 0);
        let listener = bind(transport, any, 4, &options).expect("a listener");
        let client = ConnectOptions { socket: options.clone(), ..options_to(listener.local_addr()) };
        let client = connect(transport, &client).expect("a connection");
        let (server, _) = listener.accept().expect("accepted");
        for end in [&client, &server] {
            let in_force = end.in_force();
            assert_eq!(in_force.congestion, "reno", "{transport}");
            assert_eq!(in_force.send_buffer_bytes, 200_000, "{transport}");
            assert_eq!(in_force.receive_buffer_bytes, 300_000, "{transport}");
            assert!(in_force.no_delay, "{transport}");
        }
        transfer(&client, &server, 1_000_000);
    }
}

fn an_unknown_congestion_control_names_the_known_ones() {
    let socket = SocketOptions { congestion: Some("nosuch".to_owned()), ..SocketOptions::default() };
    for transport in BOTH {
        let listener = listen(transport, loopback(1));
        let options = ConnectOptions { socket: socket.clone(), ..options_to(listener.local_addr()) };
        let error = connect(transport, &options).expect_err("no such congestion control");
        let ConnectError::Congestion(CongestionError::Unknown { name, available }) = &error else {
            panic!("{error:?}")
        };
        assert_eq!(name, "nosuch");
        assert!(available.contains("reno"), "{available}");
        let error = bind(transport, SocketAddr::new(loopback(1), 0), 1, &socket)
            .expect_err("no such congestion control");
        assert!(matches!(error, BindError::Congestion(CongestionError::Unknown { .. })), "{error:?}");
    }
}

fn a_port_in_use_is_reported() {
    let listener = listen(Transport::Tcp, loopback(1));
    for transport in BOTH {
        let error = bind(transport, listener.local_addr(), 1, &SocketOptions::default()).expect_err("taken");
        assert!(matches!(error, BindError::InUse { .. }), "{error}");
    }
}

fn a_plain_tcp_server_makes_mptcp_fall_back_in_the_handshake() {
    for address in [loopback(1), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        let (client, server) = pair(Transport::Mptcp, Transport::Tcp, address);
        transfer(&client, &server, 500_000);
        let snapshot = client.telemetry().expect("a handle").snapshot().expect("a snapshot");
        let expected = Negotiation::FellBack { reason: FallbackReason::InHandshake };
        assert_eq!(snapshot.multipath, expected, "{address}");
        assert_eq!(snapshot.mptcp, None);
        assert_eq!(snapshot.subflows.len(), 1);
        assert_eq!(snapshot.subflows[0].bytes_sent - snapshot.subflows[0].retransmitted_bytes, 500_000);
        let snapshot = server.telemetry().expect("a handle").snapshot().expect("a snapshot");
        assert_eq!(snapshot.multipath, Negotiation::NotAsked);
    }
}

fn an_mptcp_server_reports_a_plain_tcp_client() {
    for address in [loopback(1), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        let (client, server) = pair(Transport::Tcp, Transport::Mptcp, address);
        transfer(&client, &server, 500_000);
        let snapshot = server.telemetry().expect("a handle").snapshot().expect("a snapshot");
        let expected = Negotiation::FellBack { reason: FallbackReason::PeerAskedForPlainTcp };
        assert_eq!(snapshot.multipath, expected, "{address}");
        assert_eq!(snapshot.subflows[0].bytes_received, 500_000);
    }
}

fn disabled_mptcp_is_reported_with_its_remedy() {
    assert_eq!(mptcp_available(), Ok(()));
    sysctl::write("net.mptcp.enabled", "0").expect("a setting of the namespace");
    assert_eq!(mptcp_available(), Err(MptcpUnavailable::Disabled));
    let error =
        connect(Transport::Mptcp, &options_to(SocketAddr::new(loopback(1), 9))).expect_err("no MPTCP");
    assert!(matches!(error, ConnectError::Mptcp(MptcpUnavailable::Disabled)), "{error}");
    assert!(error.to_string().contains("net.mptcp.enabled=1"), "{error}");
}

fn a_dead_path_and_a_slow_path_have_different_errors() {
    sysctl::write("net.ipv4.tcp_retries2", "1").expect("a setting of the namespace");
    let (mut interface, address) = (Loopback::new(), IpAddr::from([192, 0, 2, 1]));
    interface.add_address(address);
    let (client, _server) = pair(Transport::Tcp, Transport::Tcp, address);
    interface.set_down();
    client.send(b"into the void", Some(PATIENCE)).expect("taken");
    let error = client.receive(&mut [0; 16], Some(PATIENCE)).expect_err("no route in the reverse direction");
    assert!(matches!(error, ReceiveError::Dead { .. }), "{error:?}");
}
