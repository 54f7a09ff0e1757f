//! `check SERVER` where the fault is not a middlebox: each other suspect is named, and of a middlebox the hop.

#![allow(clippy::print_stdout, reason = "a server of a test reports on its standard output")]

use crate::check_server::{LISTENING, Task, WITHOUT_CAPABILITIES, check, document, first_problem, of_level};
use crate::support::standing::{Lab, SERVER};
use crate::support::{Finished, TWO_PATHS, finish};
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::time::Duration;

/// The routers a, b and c are the path wlan; eth is a direct link.
const THREE_ROUTERS: &str = r#"
[[router]]
name = "a"

[[router]]
name = "b"
MIDDLEBOX

[[router]]
name = "c"

[[path]]
name = "eth"
rate = "50mbit"

[[link]]
name = "w0"
ends = [{ node = "client", interface = "wlan", address = "10.1.0.2/24" }, { node = "a", interface = "c", address = "10.1.0.1/24" }]
rate = "50mbit"

[[link]]
name = "w1"
ends = [{ node = "a", interface = "b", address = "10.2.0.1/24" }, { node = "b", interface = "a", address = "10.2.0.2/24" }]
rate = "50mbit"

[[link]]
name = "w2"
ends = [{ node = "b", interface = "c", address = "10.3.0.1/24" }, { node = "c", interface = "b", address = "10.3.0.2/24" }]
rate = "50mbit"

[[link]]
name = "w3"
ends = [{ node = "c", interface = "s", address = "10.4.0.1/24" }, { node = "server", interface = "wlan", address = "10.4.0.2/24" }]
rate = "50mbit"
"#;

fn text(finding: &Value) -> String {
    let part = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    format!("{} {} {}", part("found"), part("meaning"), finding["remedy"])
}

fn problem<'a>(document: &'a Value, id: &str, finished: &Finished) -> &'a Value {
    let problems = of_level(document, "problem");
    problems.into_iter().find(|one| one["id"] == id).unwrap_or_else(|| panic!("{id}: {finished:#?}"))
}

/// Runs a command in a host of the lab.
fn run(lab: &Lab, host: &str, command: &[&str]) {
    finish(&mut lab.exec(host, command)).expect(0);
}

/// nft commands in a host of the lab.
fn nft(lab: &Lab, host: &str, rules: &str) {
    run(lab, host, &["nft", rules]);
}

#[test]
fn a_third_path_without_an_endpoint_has_no_phantom_subflow() {
    let third = "\n[[path]]\nname = \"lte\"\nrate = \"20mbit\"\n";
    let endpoints = "\n[host.client.mptcp]\nsubflows = 4\nadd_addr_accepted = 4\nendpoints = [\n{ path = \"eth\", flags = \
                     [\"subflow\"] },\n{ path = \"wlan\", flags = [\"subflow\"] },\n]\n";
    let lab = Lab::of(&format!("{TWO_PATHS}{third}{endpoints}"), &[]);
    let _server = lab.serve(&["--open"]);
    for prefix in [&[][..], &WITHOUT_CAPABILITIES] {
        let finished = check(&lab, "client", prefix, &[SERVER]).expect(6);
        let found = document(&finished);
        assert_eq!(first_problem(&found), ("mptcp-endpoint", Some("lte")), "{finished:#?}");
        for finding in of_level(&found, "problem") {
            assert!(!text(finding).contains("middlebox"), "{finished:#?}");
            assert!(
                !text(finding).contains("limits set subflows 2"),
                "the limits in force are 4: {finished:#?}"
            );
        }
        let opens = problem(&found, "multipath", &finished);
        assert!(of_level(&found, "ok").iter().any(|one| one["id"] == "path-mp-join"), "{finished:#?}");
        assert!(text(opens).contains("lte"), "{finished:#?}");
    }
}

#[test]
#[ignore = "a server of the other tests in a lab's host"]
fn a_server_that_closes_its_listener() {
    println!("{LISTENING}");
    loop {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).unwrap();
        listener.set_reuse_address(true).unwrap();
        listener.bind(&SocketAddr::from(([0, 0, 0, 0], 9000)).into()).unwrap();
        listener.listen(1).unwrap();
        let (mut connection, _) = listener.accept().unwrap();
        drop(listener);
        connection.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let mut request = [0; 1000];
        let _reset = connection.read(&mut request).and_then(|_| connection.write_all(&[b'x'; 3000]));
        while connection.read(&mut request).is_ok_and(|length| length > 0) {}
    }
}

#[test]
fn a_listener_that_closes_after_one_connection_is_the_cause() {
    let lab = Lab::of(TWO_PATHS, &[]);
    let _server = Task::start_in(&lab, "check_suspects::a_server_that_closes_its_listener");
    let finished = check(&lab, "client", &[], &[&format!("{SERVER}:9000")]).expect(6);
    let found = document(&finished);
    assert_eq!(first_problem(&found).0, "server-listener", "{finished:#?}");
    let words = text(problem(&found, "server-listener", &finished));
    // By a join that it refused, or by a connection after the first one.
    let by_join = words.contains("closes after it has accepted") && words.contains("No middlebox");
    assert!(by_join || words.contains("its listener is closed"), "{finished:#?}");
    assert!(of_level(&found, "problem").iter().all(|one| one["id"] != "path-mp-join"), "{finished:#?}");
}

#[test]
fn the_servers_own_firewall_is_named_at_both_ends() {
    for verdict in ["drop", "reject with tcp reset"] {
        let lab = Lab::of(TWO_PATHS, &[]);
        nft(&lab, "server", "add table inet own");
        nft(&lab, "server", "add chain inet own input { type filter hook input priority 0; }");
        nft(&lab, "server", &format!("add rule inet own input tcp option mptcp subtype 1 {verdict}"));
        let _server = lab.serve(&["--open"]);
        let finished = check(&lab, "client", &[], &[SERVER]).expect(6);
        let found = document(&finished);
        assert_eq!(first_problem(&found).0, "path-mp-join", "{verdict}: {finished:#?}");
        let words = text(problem(&found, "path-mp-join", &finished));
        assert!(words.contains("the server's own firewall or"), "{verdict}: {finished:#?}");
        assert!(words.contains("on the server, as root: pathbench check"), "{verdict}: {finished:#?}");
        let finished = check(&lab, "server", &[], &[]).expect(6);
        let found = document(&finished);
        let rule = text(problem(&found, "firewall-mptcp", &finished));
        assert!(rule.contains("nft delete rule inet own input"), "{verdict}: {finished:#?}");
    }
}

#[test]
fn the_hop_at_which_an_option_is_lost_is_found() {
    // The second router forwards the SYN without the option, or not at all.
    let expected = "between hop 2 (10.2.0.2) and hop 3 (10.3.0.2)";
    for middlebox in ["strip-mp-join", "drop-mp-join"] {
        let rule = format!("middlebox = \"{middlebox}\"");
        let lab = Lab::of(&THREE_ROUTERS.replace("MIDDLEBOX", &rule), &[]);
        let _server = lab.serve(&["--open"]);
        let finished = check(&lab, "client", &[], &[SERVER]).expect(6);
        let found = document(&finished);
        let words = text(problem(&found, "path-mp-join", &finished));
        assert!(words.contains(expected), "{middlebox}: {finished:#?}");
        assert!(
            words.contains("wlan: the path") || words.contains(": the path drops"),
            "{middlebox}: {finished:#?}"
        );
        assert!(words.contains("port 443, 80, 8080 likewise"), "{middlebox}: {finished:#?}");
        if middlebox == "strip-mp-join" {
            let finished = check(&lab, "client", &WITHOUT_CAPABILITIES, &[SERVER]).expect(6);
            let words = text(problem(&document(&finished), "path-mp-join", &finished));
            assert!(
                words.contains("The hop was not examined: raw sockets need CAP_NET_RAW"),
                "{finished:#?}"
            );
            assert!(words.contains("as root"), "{finished:#?}");
        }
    }
}

#[test]
fn ports_that_a_middlebox_treats_differently_are_told_apart() {
    let lab = Lab::of(&THREE_ROUTERS.replace("MIDDLEBOX", ""), &[]);
    nft(&lab, "b", "add table ip n");
    nft(&lab, "b", "add chain ip n forward { type filter hook forward priority 0; }");
    nft(&lab, "b", "add rule ip n forward tcp dport 4433 tcp option mptcp subtype 0 reset tcp option mptcp");
    let _server = lab.serve(&["--open"]);
    let finished = check(&lab, "client", &[], &[SERVER]).expect(6);
    let found = document(&finished);
    let words = text(problem(&found, "path-mp-capable", &finished));
    assert!(words.contains("between hop 2 (10.2.0.2) and hop 3 (10.3.0.2)"), "{finished:#?}");
    for port in [443, 80, 8080] {
        assert!(words.contains(&format!("port {port} differs: the option passes")), "{finished:#?}");
    }
}

/// The server has two private addresses behind the router `nat`, which translates its public one.
const BEHIND_NAT: &str = r#"
[[router]]
name = "nat"

[[link]]
name = "eth"
ends = [{ node = "client", interface = "eth", address = "10.1.0.2/24" }, { node = "nat", interface = "c0", address = "10.1.0.1/24" }]
rate = "50mbit"

[[link]]
name = "wlan"
ends = [{ node = "client", interface = "wlan", address = "10.2.0.2/24" }, { node = "nat", interface = "c1", address = "10.2.0.1/24" }]
rate = "50mbit"

[[link]]
name = "lan"
ends = [{ node = "nat", interface = "s0", address = "192.168.7.1/24" }, { node = "server", interface = "lan", address = "192.168.7.2/24" }]
rate = "50mbit"

[[link]]
name = "dmz"
ends = [{ node = "nat", interface = "s1", address = "192.168.8.1/24" }, { node = "server", interface = "dmz", address = "192.168.8.2/24" }]
rate = "50mbit"

[host.server.mptcp]
endpoints = [{ link = "dmz", flags = ["signal"] }]
"#;

#[test]
fn a_private_address_that_a_server_behind_nat_announces_is_named() {
    let public = "198.51.100.7";
    let lab = Lab::of(BEHIND_NAT, &[]);
    run(&lab, "nat", &["ip", "address", "add", &format!("{public}/32"), "dev", "lo"]);
    nft(&lab, "nat", "add table ip n");
    nft(&lab, "nat", "add chain ip n raw { type filter hook prerouting priority -300; }");
    nft(&lab, "nat", "add chain ip n nat { type nat hook prerouting priority -100; }");
    nft(&lab, "nat", "add rule ip n raw iifname c0 ip daddr 192.168.0.0/16 drop");
    nft(&lab, "nat", "add rule ip n raw iifname c1 ip daddr 192.168.0.0/16 drop");
    nft(&lab, "nat", &format!("add rule ip n nat ip daddr {public} dnat to 192.168.7.2"));
    for (from, via, dev, table, metric) in
        [("10.1.0.2", "10.1.0.1", "eth", "200", "10"), ("10.2.0.2", "10.2.0.1", "wlan", "201", "20")]
    {
        run(&lab, "client", &["ip", "route", "add", "default", "via", via, "dev", dev, "metric", metric]);
        run(&lab, "client", &["ip", "route", "add", "default", "via", via, "dev", dev, "table", table]);
        run(&lab, "client", &["ip", "rule", "add", "from", from, "lookup", table, "priority", "500"]);
    }
    let _server = lab.serve(&["--open"]);
    let finished = check(&lab, "client", &[], &[public]).expect(0);
    let found = document(&finished);
    let advice = of_level(&found, "advice");
    let named =
        advice.iter().find(|one| one["id"] == "path-add-addr").unwrap_or_else(|| panic!("{finished:#?}"));
    assert_eq!(named["subject"], "192.168.8.2", "{finished:#?}");
    assert!(text(named).contains("the private address 192.168.8.2"), "{finished:#?}");
}
