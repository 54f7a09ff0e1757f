//! The server compares the transport that a client declares with the connection's transport.

use crate::common::{Everything, clock, random_id};
use pathbench_record::pattern::ThroughputParameters;
use pathbench_record::transport::Transport;
use pathbench_traffic::protocol::{ControlFrame, DecodedEvent, Decoder, HelloFrame, RefusalCode};
use pathbench_traffic::server::ServerLimits;
use pathbench_transport::{ConnectOptions, Connection, Session};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);

fn answer(connection: &Connection) -> ControlFrame {
    let mut decoder = Decoder::new(1 << 16);
    let mut byte = [0];
    loop {
        assert_eq!(connection.receive(&mut byte, Some(TIMEOUT)).unwrap(), 1, "closed without an answer");
        if let (_, Some(DecodedEvent::Frame(frame))) = decoder.decode(&byte).unwrap() {
            return frame;
        }
    }
}

#[test]
fn a_claimed_transport_is_compared_with_the_connection() {
    let everything = Everything::start(ServerLimits::default());
    for (index, &(used, address)) in everything.addresses.iter().enumerate() {
        for claimed in [Transport::Tcp, Transport::Mptcp, Transport::Quic, Transport::Mpquic] {
            let security = everything.plan(index, ThroughputParameters::default()).security;
            let options = ConnectOptions { security, ..ConnectOptions::new(address, TIMEOUT) };
            let session = Session::new(used, options, clock());
            let connection = session.open().unwrap();
            let request = format!(
                r#"{{"pattern":"throughput","transport":"{claimed}","patience_ms":5000,"parameters":{{
                    "direction":"upload","streams":1,"amount":{{"bytes":1000}},"block_bytes":131072}}}}"#
            );
            let hello =
                ControlFrame::Hello(HelloFrame::new(random_id(), 0, request.into_bytes())).encode().unwrap();
            connection.send(&hello, Some(TIMEOUT)).unwrap();
            // A multipath transport may have fallen back; tcp and quic never have several paths.
            let legal = claimed == used
                || matches!(
                    (claimed, used),
                    (Transport::Mptcp, Transport::Tcp) | (Transport::Mpquic, Transport::Quic)
                );
            match answer(&connection) {
                ControlFrame::Accept => assert!(legal, "{claimed} was accepted over {used}"),
                ControlFrame::Refuse(refusal) => {
                    assert!(!legal, "{claimed} over {used}: {}", refusal.message);
                    assert_eq!(refusal.code, RefusalCode::BadRequest);
                    let words = format!("declares {claimed}, but the connection is {used}");
                    assert!(refusal.message.contains(&words), "{}", refusal.message);
                }
                frame => panic!("{frame:?}"),
            }
        }
    }
}
