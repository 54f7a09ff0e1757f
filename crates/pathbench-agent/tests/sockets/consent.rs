//! Nothing leaves the host without its owner's consent, which other processes change while the agent runs.

use crate::host::{HOUR, Host, MINUTE, PATIENCE, experiment};
use crate::within;
use std::time::Duration;

#[test]
fn nothing_is_sent_once_the_consent_is_withdrawn() {
    let host = Host::new("");
    host.offer(&[experiment("ping", 600)]);
    host.hold();
    let agent = host.start();
    host.wait_for("begins", 1);
    host.clock.pass(MINUTE / 6);
    assert!(host.requests("/v1/live") > 0, "no live report");
    host.configure("\"private\"", "\"none\"");
    // A request in progress ends.
    host.wait_for("settings", 1);
    host.clock.pass(MINUTE / 6);
    let sent = host.requests("");
    host.release();
    host.wait_for("ended", 1);
    host.clock.pass(2 * HOUR);
    assert_eq!(host.requests(""), sent, "{:?}", host.collector.requests("").last());
    assert_eq!(host.entries("begins").len(), 1, "no experiment is measured");
    assert_eq!(host.texts("settings", "consent"), ["none"]);
    host.configure("\"none\"", "\"private\"");
    host.wait_for("begins", 2);
    // The check-in is beside the experiment, in either order.
    assert!(within(PATIENCE, || host.requests("/v1/check-in") > 1), "no check-in");
    host.collector.wait_for(1);
    agent.stop();
    // The first result was measured before the owner's decision, and stays; the last one where the agent stops at once.
    let (stored, ended) = (host.collector.stored().len(), host.entries("ended").len());
    assert!(stored + 1 == ended || stored + 2 == ended, "{stored} {ended}");
}

#[test]
fn settings_that_cannot_be_read_consent_to_nothing() {
    let host = Host::new("");
    host.offer(&[experiment("ping", 600)]);
    let agent = host.start();
    host.wait_for("ended", 1);
    host.collector.wait_for(1);
    host.configure("consent = \"private\"", "consent = \"perhaps\"");
    host.wait_for("settings", 1);
    assert!(host.texts("settings", "error")[0].contains("perhaps"));
    host.clock.pass(MINUTE);
    let (sent, begun) = (host.requests(""), host.entries("begins").len());
    host.clock.pass(HOUR);
    assert_eq!((host.requests(""), host.entries("begins").len()), (sent, begun));
    agent.stop();
}

#[test]
fn a_second_agent_of_this_host_does_not_start() {
    let host = Host::new("");
    let agent = host.start();
    host.wait_for("started", 1);
    let (code, message) = host.once();
    assert!(code == 1 && message.contains("another agent"), "{code} {message}");
    host.clock.pass(Duration::from_secs(1));
    agent.stop();
}
