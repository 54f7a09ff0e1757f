//! Captures of real transfers against the kernel's own counters (recorded/README.md).

use pathbench_record::trace::{ConnectionDirection, SubflowDirection, TracedConnection, TracedSubflow};
use pathbench_trace::analysis::{AnalysisParameters, analyse, open};
use pathbench_trace::quic::Quic;
use serde_json::Value;
use std::io::Cursor;

struct Recording {
    name: &'static str,
    client: &'static [u8],
    server: &'static [u8],
}

macro_rules! recording {
    ($name:literal) => {
        Recording {
            name: $name,
            client: include_bytes!(concat!("../recorded/", $name, "-client.pcap.gz")),
            server: include_bytes!(concat!("../recorded/", $name, "-server.pcap.gz")),
        }
    };
}

const RECORDINGS: [Recording; 3] = [recording!("loss"), recording!("cut"), recording!("silent")];

/// One-way delays of the paths `eth` and `wlan`, without queues.
const DELAYS_MS: [(&str, f64); 2] = [("10.83.0.1", 5.0), ("10.83.1.1", 15.0)];

fn connection(captures: &[&[u8]]) -> TracedConnection {
    let sources = captures.iter().map(|bytes| open(String::new(), Cursor::new(bytes.to_vec())).unwrap());
    let parameters = AnalysisParameters { most: 5, seed: 1 };
    let document = analyse(sources.collect(), &parameters, Quic::new(None), ()).document;
    assert!(document.captures.iter().all(|capture| capture.damage.is_none()));
    let [connection] = document.connections.try_into().unwrap();
    connection
}

fn each(mut check: impl FnMut(&Recording, &Value)) {
    let kernel: Value = serde_json::from_str(include_str!("../recorded/kernel.json")).unwrap();
    for recording in &RECORDINGS {
        check(recording, &kernel[recording.name]);
    }
}

fn upload(kernel: &Value) -> bool {
    kernel["direction"] == "upload"
}

fn data<'a>(connection: &'a TracedConnection, kernel: &Value) -> &'a ConnectionDirection {
    if upload(kernel) { &connection.upload } else { &connection.download }
}

fn payload<'a>(subflow: &'a TracedSubflow, kernel: &Value) -> &'a SubflowDirection {
    if upload(kernel) { &subflow.upload } else { &subflow.download }
}

/// Each subflow of the capture beside its counters.
fn subflows<'a>(connection: &'a TracedConnection, kernel: &'a Value) -> Vec<(&'a TracedSubflow, &'a Value)> {
    let counters = kernel["subflows"].as_array().unwrap();
    assert_eq!(connection.subflows.len(), counters.len());
    let counted = |subflow: &TracedSubflow| {
        let client = subflow.client.unwrap().to_string();
        counters.iter().find(|counters| counters["client"] == client.as_str()).unwrap()
    };
    connection.subflows.iter().map(|subflow| (subflow, counted(subflow))).collect()
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap()
}

/// Σ`tcpi_bytes_received` − `mptcpi_bytes_received`: data that arrived more than once.
fn duplicates(kernel: &Value) -> Option<u64> {
    let received = kernel["mptcpi_bytes_received"].as_u64()?;
    let subflows = kernel["subflows"].as_array().unwrap();
    Some(
        subflows.iter().map(|subflow| number(&subflow["receiver"], "tcpi_bytes_received")).sum::<u64>()
            - received,
    )
}

#[test]
fn the_sender_s_capture_agrees_with_the_sender_s_counters() {
    each(|recording, kernel| {
        let connection = connection(&[if upload(kernel) { recording.client } else { recording.server }]);
        for (subflow, counters) in subflows(&connection, kernel) {
            let [sender, receiver] = ["sender", "receiver"].map(|end| &counters[end]);
            let wire = payload(subflow, kernel);
            let retransmitted = number(sender, "tcpi_bytes_retrans");
            assert_eq!(wire.retransmitted_bytes, retransmitted, "{}", recording.name);
            assert_eq!(wire.retransmitted_packets, number(sender, "tcpi_total_retrans"));
            assert_eq!(wire.payload_bytes, number(receiver, "tcpi_bytes_received") + retransmitted);
            // The kernel counts the SYN as well.
            assert_eq!(
                wire.acknowledged_bytes,
                number(sender, "tcpi_bytes_acked").saturating_sub(u64::from(upload(kernel)))
            );
            let dropped_locally = number(sender, "tcpi_bytes_sent") - wire.payload_bytes;
            let cut = recording.name != "loss" && subflow.kind == "join";
            assert_eq!(dropped_locally > 0, cut, "{}", recording.name);
            assert_eq!((wire.missing_bytes, wire.out_of_order_bytes), (0, 0));
        }
        assert_eq!(data(&connection, kernel).data_bytes, number(kernel, "data_bytes"));
        assert_eq!(data(&connection, kernel).reinjected_bytes, duplicates(kernel));
    });
}

#[test]
fn the_receiver_s_capture_agrees_with_the_receiver_s_counters() {
    each(|recording, kernel| {
        let connection = connection(&[if upload(kernel) { recording.server } else { recording.client }]);
        for (subflow, counters) in subflows(&connection, kernel) {
            let wire = payload(subflow, kernel);
            let received = number(&counters["receiver"], "tcpi_bytes_received");
            assert_eq!(wire.payload_bytes - wire.retransmitted_bytes, received, "{}", recording.name);
            assert_eq!(wire.missing_bytes, 0);
        }
        assert_eq!(data(&connection, kernel).data_bytes, number(kernel, "data_bytes"));
        assert_eq!(data(&connection, kernel).reinjected_bytes, duplicates(kernel));
    });
}

#[test]
fn both_captures_together_show_loss_and_delay_of_each_path() {
    each(|recording, kernel| {
        let both = connection(&[recording.client, recording.server]);
        let [client, server] = [recording.client, recording.server].map(|capture| connection(&[capture]));
        let [sender, receiver] = if upload(kernel) { [client, server] } else { [server, client] };
        for (index, subflow) in both.subflows.iter().enumerate() {
            let comparison = subflow.comparison.as_ref().unwrap();
            assert_eq!((comparison.client_capture, comparison.server_capture), (0, 1));
            let direction = if upload(kernel) { &comparison.upload } else { &comparison.download };
            let [sent, arrived] =
                [&sender, &receiver].map(|end| payload(&end.subflows[index], kernel).payload_bytes);
            assert_eq!((direction.sent_bytes, direction.received_bytes), (sent, arrived));
            assert_eq!(direction.lost_bytes, sent - arrived);
            assert_eq!(direction.reordered_bytes, 0);
            assert!(comparison.middlebox.is_empty());
            // Both captures have the clock of one machine.
            assert!(comparison.clock_offset_ms.unwrap().abs() < 0.1);
            let address = subflow.client.unwrap().ip().to_string();
            let (_, delay) = DELAYS_MS.into_iter().find(|(client, _)| *client == address).unwrap();
            let shortest = [&comparison.upload, &comparison.download]
                .map(|direction| direction.delay_ms.as_ref().unwrap().min);
            assert!(shortest.iter().all(|shortest| (delay..delay + 0.5).contains(shortest)), "{shortest:?}");
        }
    });
}
