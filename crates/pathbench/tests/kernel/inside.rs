//! Tasks of tests inside a lab's host: this program is started again there, with its task in an environment variable.
//! So the tests compare the kernel's own bytes and need no other program.

use crate::support::standing::Lab;
use crate::support::{Finished, finish, within};
use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_ROUTE;
use pathbench_host::mptcp::PathManager;
use pathbench_host::netlink::{MAIN_TABLE, Route, RouteSocket};
use pathbench_host::sysctl;
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

/// First table of a lab host's source rules.
const FIRST_TABLE: u32 = 1000;

/// All state that the commands may change: each address, each route of every table in the kernel's order and each rule,
/// byte for byte without self-changing counters; the MPTCP endpoints and limits; settings.
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

/// Removes the source rules and tables of the lab's client. With `defaults`, the main table gets a default route by each
/// interface that had one, the first interface's with the lowest metric, as from DHCP clients.
pub(crate) fn remove_rules(lab: &Lab, defaults: bool) {
    ask(lab, "client", if defaults { "unrule defaults" } else { "unrule" });
}

pub(crate) fn set_link(lab: &Lab, host: &str, interface: &str, up: bool) {
    ask(lab, host, &format!("{} {interface}", if up { "up" } else { "down" }));
}

pub(crate) fn set(lab: &Lab, host: &str, key: &str, value: &str) {
    ask(lab, host, &format!("sysctl {key} {value}"));
}

/// Adds the flag to all endpoints, as `ip mptcp endpoint change id ID fullmesh` does.
pub(crate) fn set_fullmesh(lab: &Lab, host: &str) {
    ask(lab, host, "fullmesh");
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
        ["unrule"] => without_rules(false),
        ["unrule", "defaults"] => without_rules(true),
        [verb @ ("up" | "down"), interface] => {
            let mut socket = RouteSocket::open().unwrap();
            let index = socket.link(interface).unwrap().index;
            if verb == "up" { socket.set_up(index) } else { socket.set_down(index) }.unwrap();
            String::new()
        }
        ["fullmesh"] => {
            let mut manager = PathManager::open().unwrap();
            for mut endpoint in manager.endpoints().unwrap() {
                endpoint.flags.fullmesh = true;
                manager.set_flags(&endpoint).unwrap();
            }
            String::new()
        }
        ["sysctl", key, value] => {
            sysctl::write(key, value).unwrap();
            String::new()
        }
        _ => panic!("unknown task: {task}"),
    };
    std::fs::write(std::env::var_os(ANSWER).unwrap(), answer).unwrap();
}

fn without_rules(defaults: bool) -> String {
    let mut socket = RouteSocket::open().unwrap();
    for rule in socket.rules().unwrap().iter().filter(|rule| (FIRST_TABLE..32_000).contains(&rule.table)) {
        socket.remove_rule(rule).unwrap();
    }
    let routes = socket.routes().unwrap();
    let mut of_rules: Vec<&Route> = routes.iter().filter(|route| route.table >= FIRST_TABLE).collect();
    of_rules.sort_by_key(|route| (route.interface, route.gateway.is_none()));
    for route in &of_rules {
        socket.remove_route(route).unwrap();
    }
    for route in of_rules.iter().filter(|route| defaults && route.destination.prefix_len() == 0) {
        let metric = Some(100 * route.interface.unwrap());
        socket.add_route(&Route { table: MAIN_TABLE, metric, ..**route }).unwrap();
    }
    String::new()
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
    lines.extend(socket.addresses().unwrap().iter().map(|address| format!("{address:?}")));
    let interfaces = socket.links().unwrap();
    let names = interfaces.iter().map(|link| link.name.as_str()).chain(["all"]);
    let per_interface = ["rp_filter", "arp_ignore", "arp_announce"];
    let keys = names.flat_map(|name| per_interface.map(|key| format!("net/ipv4/conf/{name}/{key}")));
    for key in keys.chain(["net/mptcp/enabled".to_owned(), "net/mptcp/pm_type".to_owned()]) {
        lines.push(format!("{key} {:?}", sysctl::read(&key).ok()));
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
