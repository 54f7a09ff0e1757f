//! Tasks of tests inside a lab's host: this program is started again there, with its task in an environment variable.
//! So the tests compare the kernel's own bytes and need no other program.

use super::support::standing::Lab;
use super::support::{Finished, finish, within};
use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_ROUTE;
use pathbench_host::mptcp::PathManager;
use pathbench_host::netlink::RouteSocket;
use std::time::Duration;

/// The task, and the file of its answer.
const TASK: &str = "PATHBENCH_TEST_TASK";
const ANSWER: &str = "PATHBENCH_TEST_ANSWER";

// linux/rtnetlink.h, linux/netlink.h
const RTM_GETROUTE: u16 = 26;
const RTM_GETRULE: u16 = 34;
const REQUEST_DUMP: u16 = 0x301;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const HEADER: usize = 16;
const ROUTE_HEADER: usize = 12;
const RTA_CACHEINFO: u16 = 12;

/// All state that the command may change: each route of every table in the kernel's order and each rule, byte for
/// byte without self-changing counters; the MPTCP endpoints and limits.
pub(crate) fn image(lab: &Lab) -> String {
    let image = ask(lab, "client", "image");
    // A lab with two paths has its own tables, rules and endpoints.
    assert!(image.lines().count() > 20, "{image}");
    image
}

/// Fails with the difference if the host's state differs from `before`.
#[track_caller]
pub(crate) fn assert_as_before(lab: &Lab, before: &str) {
    let after = image(lab);
    let only_in = |one: &str, other: &str| {
        let lines = one.lines().filter(|line| !other.lines().any(|known| known == *line));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let (gone, new) = (only_in(before, &after), only_in(&after, before));
    assert!(before == after, "gone: {gone:#?}\nnew: {new:#?}\nor another order");
}

pub(crate) fn set_mtu(lab: &Lab, host: &str, interface: &str, mtu: u32) {
    ask(lab, host, &format!("mtu {interface} {mtu}"));
}

fn ask(lab: &Lab, host: &str, task: &str) -> String {
    let program = std::env::current_exe().unwrap();
    let answer = lab.work.path().join("answer");
    let itself = [program.to_str().unwrap(), "--ignored", "--exact", "inside::a_task_in_a_host"];
    let done: Finished = finish(lab.exec(host, &itself).env(TASK, task).env(ANSWER, &answer));
    assert_eq!(done.code, Some(0), "{task}: {done:#?}");
    std::fs::read_to_string(answer).unwrap_or_else(|error| panic!("{task}: {error}: {done:#?}"))
}

#[test]
#[ignore = "what the other tests do inside a lab's host"]
fn a_task_in_a_host() {
    let task = std::env::var(TASK).expect("the other tests give it");
    let answer = match task.split(' ').collect::<Vec<_>>()[..] {
        ["image"] => own_image(),
        ["mtu", interface, mtu] => {
            let mut socket = RouteSocket::open().unwrap();
            let index = socket.link(interface).unwrap().index;
            socket.set_mtu(index, mtu.parse().unwrap()).unwrap();
            String::new()
        }
        _ => panic!("unknown task: {task}"),
    };
    std::fs::write(std::env::var_os(ANSWER).unwrap(), answer).unwrap();
}

fn own_image() -> String {
    // The kernel adds routes after duplicate address detection (RFC 4862).
    let mut socket = RouteSocket::open().unwrap();
    let settled = within(Duration::from_secs(20), || {
        !socket.addresses().unwrap().iter().any(|address| address.tentative)
    });
    assert!(settled, "addresses stay tentative");
    let mut lines = Vec::new();
    for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
        lines.extend(dump(RTM_GETROUTE, family).iter().map(|route| format!("route {:02x?}", steady(route))));
        lines.extend(dump(RTM_GETRULE, family).iter().map(|rule| format!("rule {rule:02x?}")));
    }
    let mut manager = PathManager::open().unwrap();
    lines.extend(manager.endpoints().unwrap().iter().map(|endpoint| format!("{endpoint:?}")));
    lines.push(format!("{:?}", manager.limits().unwrap()));
    lines.join("\n")
}

/// The route without its counters: ages and users of an entry.
fn steady(route: &[u8]) -> Vec<u8> {
    let mut steady = route.to_vec();
    let mut at = ROUTE_HEADER;
    while let Some(&[low, high, kind_low, kind_high]) = route.get(at..at + 4) {
        let length = usize::from(u16::from_ne_bytes([low, high])).max(4);
        if u16::from_ne_bytes([kind_low, kind_high]) == RTA_CACHEINFO {
            steady[at + 4..at + length].fill(0);
        }
        at += length.next_multiple_of(4);
    }
    steady
}

/// The payloads of all answers to a dump.
fn dump(kind: u16, family: u8) -> Vec<Vec<u8>> {
    let socket = Socket::new(NETLINK_ROUTE).unwrap();
    let mut request = ((HEADER + ROUTE_HEADER) as u32).to_ne_bytes().to_vec();
    request.extend(kind.to_ne_bytes());
    request.extend(REQUEST_DUMP.to_ne_bytes());
    request.extend([0; 8]);
    request.extend([family].into_iter().chain([0; ROUTE_HEADER - 1]));
    socket.send(&request, 0).unwrap();
    let mut payloads = Vec::new();
    loop {
        let (datagram, _) = socket.recv_from_full().unwrap();
        let mut rest = &datagram[..];
        while let Some((head, _)) = rest.split_at_checked(HEADER) {
            let length = u32::from_ne_bytes(head[..4].try_into().unwrap()) as usize;
            match u16::from_ne_bytes([head[4], head[5]]) {
                NLMSG_DONE => return payloads,
                NLMSG_ERROR => panic!("the kernel refused a dump: {head:?}"),
                _ => payloads.push(rest[HEADER..length].to_vec()),
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}
