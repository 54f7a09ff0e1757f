//! Programs of others in a lab's host.

use crate::support::site::Site;

pathbench_testkit::tests!(["tcpdump"] => tcpdump_captures_in_a_host);

/// Regression: tcpdump gives up root, which a rootless user namespace refuses, and ended.
fn tcpdump_captures_in_a_host() {
    let site = Site::standing();
    // Datagrams until tcpdump has one.
    let script = "tcpdump -i eth -c 1 -w out.pcap udp & capture=$!; for _ in $(seq 30); do echo x >/dev/udp/10.83.0.2/9; \
                  sleep 0.1; kill -0 $capture 2>/dev/null || break; done; wait $capture";
    site.exec("client", &["timeout", "4", "bash", "-c", script]).expect(0);
    // The headers of the file and of a packet, Ethernet, IPv4 and UDP, and two bytes.
    let file = std::fs::read(site.work.path().join("out.pcap")).unwrap();
    assert!(file.len() >= 24 + 16 + 14 + 20 + 8 + 2, "{} bytes", file.len());
    site.down(&site.name).expect(0);
}
