//! Public captures: kernels and QUIC libraries that this project does not run. Their origin: `recorded/tcpdump/README.md`.

use pathbench_record::trace::{TraceDocument, TracedConnection};
use pathbench_trace::analysis::{AnalysisParameters, analyse, open};
use pathbench_trace::quic::Quic;
use std::fs::File;

#[allow(clippy::unwrap_used, reason = "a failed test panics")]
fn analysed(name: &str) -> TraceDocument {
    let path = format!("{}/tests/recorded/tcpdump/{name}.pcap", env!("CARGO_MANIFEST_DIR"));
    let source = open(name.to_owned(), File::open(path).unwrap()).unwrap();
    analyse(vec![source], &AnalysisParameters { most: 10, seed: 1 }, Quic::new(None), ()).document
}

fn only(document: &TraceDocument) -> &TracedConnection {
    let [connection] = document.connections.as_slice() else { panic!("{document:#?}") };
    connection
}

fn signals(connection: &TracedConnection) -> Vec<&str> {
    connection.signals.iter().map(|signal| signal.kind.as_str()).collect()
}

#[test]
fn version_0_with_a_join_and_checksums() {
    let document = analysed("mptcp-v0");
    let connection = only(&document);
    assert_eq!((connection.transport.as_str(), connection.version.as_deref()), ("mptcp", Some("0")));
    assert_eq!((connection.upload.data_bytes, connection.download.data_bytes), (5_121, 8_561));
    assert_eq!((connection.checksums_verified, connection.checksums_wrong), (Some(153), Some(0)));
    assert_eq!(connection.subflows.len(), 2);
    assert_eq!(connection.subflows[1].authenticated, Some(true));
    assert_eq!(signals(connection), ["add-addr", "remove-addr"]);
    assert_eq!(document.findings, []);
}

#[test]
fn version_1_with_one_subflow() {
    let document = analysed("mptcp-v1");
    let connection = only(&document);
    assert_eq!(connection.version.as_deref(), Some("1"));
    assert_eq!((connection.upload.data_bytes, connection.download.data_bytes), (10_268, 10_268));
    assert_eq!(
        connection.upload.payload_bytes + connection.download.payload_bytes,
        document.totals.payload_bytes
    );
    let announced = analysed("mptcp-aa-v1");
    assert_eq!(signals(only(&announced)), ["add-addr"]);
    assert_eq!(only(&announced).signals[0].address.as_deref(), Some("192.168.136.225"));
}

#[test]
fn a_fast_close_and_an_option_that_is_too_short() {
    let document = analysed("mptcp-fclose");
    assert_eq!(signals(only(&document)), ["fastclose"]);
    assert_eq!(only(&document).subflows[0].end, "reset");
    assert_eq!(analysed("mptcp-dss-oobr").totals.tcp_connections, 1);
}

#[test]
fn quic_handshakes_are_read_without_keys() {
    for (name, retry, negotiation) in
        [("quic_handshake", false, false), ("quic_retry", true, false), ("quic_vn", false, true)]
    {
        let document = analysed(name);
        let connection = only(&document);
        assert_eq!(connection.transport, "quic", "{name}");
        let Some(quic) = &connection.quic else { panic!("{name}") };
        assert_eq!((quic.retry, quic.version_negotiation), (retry, negotiation), "{name}");
        assert_eq!(
            (quic.server_name.as_deref(), quic.alpn.as_slice()),
            (Some("localhost"), &["h3".to_owned()][..])
        );
        assert!(!quic.limits.is_empty(), "{name}");
    }
}
