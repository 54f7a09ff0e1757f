//! Hosts whose first path is not the one that it seems: `check` and `setup` name the same paths and the same cause, the
//! plan corrects it, and an undo restores the host.

use crate::inside::{assert_as_before, image, remove_rules, set};
use crate::support::standing::Lab;
use crate::support::{Finished, TWO_PATHS, binary, finish};
use serde_json::Value;

const ETH: &str = "10.83.0.1";
const WLAN: &str = "10.83.1.1";

/// A lab whose client has a default route by each interface, as from DHCP clients, and the endpoints of the lab.
fn lab() -> Lab {
    let lab = Lab::of(TWO_PATHS, &[]);
    remove_rules(&lab, true);
    lab
}

/// Shell commands in the client.
fn shell(lab: &Lab, script: &str) -> Finished {
    finish(&mut lab.exec("client", &["sh", "-ec", script])).expect(0)
}

fn pathbench(lab: &Lab, arguments: &[&str]) -> Finished {
    let program = binary();
    finish(&mut lab.exec("client", &[&[program.to_str().unwrap()], arguments].concat()))
}

fn setup(lab: &Lab, options: &[&str]) -> Finished {
    let journal = lab.work.path().join("journal.jsonl");
    pathbench(lab, &[&["setup", "--journal", journal.to_str().unwrap()], options].concat())
}

fn document(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished:#?}"))
}

/// `id subject` of the check's problems.
fn problems(lab: &Lab) -> Vec<String> {
    let found = document(&pathbench(lab, &["check", "--json"]));
    let findings = found["findings"].as_array().unwrap().clone();
    let problems = findings.into_iter().filter(|finding| finding["level"] == "problem");
    let subject = |finding: &Value| finding["subject"].as_str().unwrap_or_default().to_owned();
    problems.map(|one| format!("{} {}", one["id"].as_str().unwrap(), subject(&one))).collect()
}

/// The remedy of the check's first problem that is a command.
fn remedy(lab: &Lab) -> String {
    let found = document(&pathbench(lab, &["check", "--json"]));
    let findings = found["findings"].as_array().unwrap().clone();
    let problem = findings.into_iter().find(|finding| finding["level"] == "problem").unwrap();
    problem["remedy"][0].as_str().unwrap().to_owned()
}

/// The addresses of the paths, according to `check` and to `setup`, which are the same.
fn paths(lab: &Lab, options: &[&str]) -> Vec<String> {
    let sorted = |mut of: Vec<String>| {
        of.sort();
        of
    };
    let found = document(&pathbench(lab, &["check", "--json"]));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let by_check = found["host"]["paths"].as_array().unwrap().iter().map(|path| text(&path["address"]));
    let by_check = sorted(by_check.collect());
    let plan = document(&setup(lab, &[&["--json"], options].concat()));
    let addresses =
        plan["paths"].as_array().unwrap().iter().flat_map(|path| path["addresses"].as_array().unwrap());
    let by_setup = sorted(addresses.map(|at| text(&at["address"])).collect());
    assert_eq!(by_check, by_setup);
    by_check
}

#[test]
fn a_best_default_route_without_a_carrier_is_the_problem() {
    let lab = lab();
    assert_eq!(problems(&lab), [""; 0]);
    shell(
        &lab,
        "ip link add usb0 type veth peer name usb1; ip link set usb0 up; ip address add 10.4.0.2/24 dev usb0",
    );
    shell(&lab, "ip route add default via 10.4.0.1 dev usb0 metric 1");
    let before = image(&lab);
    assert_eq!(problems(&lab), ["default-route usb0"]);
    assert_eq!(paths(&lab, &[]), [ETH, WLAN]);
    let plan = setup(&lab, &[]);
    assert!(plan.stdout.contains("sysctl -w net.ipv4.conf.usb0.ignore_routes_with_linkdown=1"), "{plan:#?}");
    setup(&lab, &["--apply"]).expect(0);
    assert_eq!(problems(&lab), [""; 0]);
    setup(&lab, &["--undo"]).expect(0);
    assert_as_before(&lab, &before);
    // The remedy of the check is as good.
    assert_eq!(problems(&lab), ["default-route usb0"]);
    let command = remedy(&lab);
    shell(&lab, &command);
    assert_eq!(problems(&lab), [""; 0], "{command}");
}

#[test]
fn a_userspace_path_manager_is_not_set_up() {
    let lab = lab();
    setup(&lab, &["--apply"]).expect(0);
    // Before Linux 6.15 there is only the number.
    let by_name = finish(&mut lab.exec("client", &["test", "-e", "/proc/sys/net/mptcp/path_manager"]));
    let (key, value) = match by_name.code {
        Some(0) => ("net/mptcp/path_manager", "userspace"),
        _ => ("net/mptcp/pm_type", "1"),
    };
    set(&lab, "client", key, value);
    assert_eq!(problems(&lab), ["mptcp-path-manager "]);
    let plan = setup(&lab, &[]);
    assert!(!plan.stdout.contains("this host is set up"), "{plan:#?}");
    setup(&lab, &["--apply"]).expect(0);
    assert_eq!(problems(&lab), [""; 0]);
    let again = setup(&lab, &[]).expect(0);
    assert!(again.stdout.contains("this host is set up"), "{again:#?}");
}

/// Two routers in one default route, as bird and FRR make it, as next hops and as a next hop object.
#[test]
fn both_routers_of_an_ecmp_default_route_stay_reachable() {
    for route in [
        "ip route add default nexthop via 10.83.0.2 dev eth nexthop via 10.83.1.2 dev wlan",
        "ip nexthop add id 1 via 10.83.0.2 dev eth; ip nexthop add id 2 via 10.83.1.2 dev wlan; \
         ip nexthop add id 9 group 1/2; ip route add default nhid 9",
    ] {
        let lab = lab();
        shell(&lab, "ip route del default; ip route del default");
        shell(&lab, route);
        let before = image(&lab);
        assert_eq!(paths(&lab, &[]), [ETH, WLAN], "{route}");
        setup(&lab, &["--apply"]).expect(0);
        for (address, interface, router) in [(ETH, "eth", "10.83.0.2"), (WLAN, "wlan", "10.83.1.2")] {
            let leaves = shell(&lab, &format!("ip route get 192.0.2.1 from {address}")).stdout;
            assert!(leaves.contains(&format!("via {router} dev {interface}")), "{route}: {leaves}");
        }
        let kept = shell(&lab, "ip route show default").stdout;
        assert!(kept.contains("10.83.0.2") && kept.contains("10.83.1.2"), "{kept}");
        let again = setup(&lab, &["--apply"]).expect(0);
        assert!(again.stdout.contains("# nothing to do"), "{again:#?}");
        setup(&lab, &["--undo"]).expect(0);
        assert_as_before(&lab, &before);
    }
}

/// A third link, of the data plane: a TUN device, as VPNs have.
const TUN: &str = "[[path]]\nname = \"vpn\"\nrate = \"10mbit\"\nengine = \"emulated\"\n";

/// Routes by which VPNs take all connections.
const VPNS: [&str; 4] = [
    "ip route add 0.0.0.0/1 via 10.83.2.2 dev vpn; ip route add 128.0.0.0/1 via 10.83.2.2 dev vpn",
    "ip route add default dev vpn metric 1",
    "ip route add default via 10.83.2.2 dev vpn metric 1; ip route add 203.0.113.5/32 via 10.83.0.2 dev eth",
    "ip route add default dev vpn table 51820; ip rule add not fwmark 0xca6c table 51820; \
     ip rule add table main suppress_prefixlength 0",
];

#[test]
fn endpoints_bypass_a_vpn_only_with_a_word_of_the_user() {
    for routes in VPNS {
        let lab = Lab::of(&format!("{TWO_PATHS}{TUN}"), &[]);
        remove_rules(&lab, true);
        shell(&lab, "ip mptcp endpoint flush; ip route del default dev vpn");
        // A tunnel that takes nothing needs no word.
        let plan = setup(&lab, &[]).expect(0);
        assert!(plan.stdout.contains("endpoint add 10.83.1.1 dev wlan"), "{plan:#?}");
        assert!(!plan.stdout.contains("dev vpn"), "{plan:#?}");
        shell(&lab, routes);
        let before = image(&lab);
        assert_eq!(problems(&lab), [""; 0], "{routes}");
        let refused = setup(&lab, &["--apply"]).expect(6);
        assert!(
            refused.stderr.contains("VPN vpn") && refused.stderr.contains("--bypass-vpn"),
            "{refused:#?}"
        );
        assert!(!refused.stdout.contains("this host is set up"), "{refused:#?}");
        assert_as_before(&lab, &before);
        assert_eq!(paths(&lab, &["--bypass-vpn"]), [ETH, WLAN], "{routes}");
        setup(&lab, &["--apply", "--bypass-vpn"]).expect(0);
        for (address, interface) in [(ETH, "eth"), (WLAN, "wlan")] {
            let leaves = shell(&lab, &format!("ip route get 192.0.2.1 from {address}")).stdout;
            assert!(leaves.contains(&format!("dev {interface}")), "{routes}: {leaves}");
        }
        // The endpoints that are there now have that word.
        let again = setup(&lab, &[]).expect(0);
        assert!(again.stdout.contains("this host is set up"), "{again:#?}");
        setup(&lab, &["--undo"]).expect(0);
        assert_as_before(&lab, &before);
    }
}

/// A stable address of each interface, a preferred temporary one and a deprecated one; the kernel makes the temporary ones
/// itself (RFC 8981).
#[test]
fn privacy_addresses_are_no_further_paths() {
    let lab = lab();
    for (interface, net) in [("eth", 1), ("wlan", 2)] {
        set(&lab, "client", &format!("net/ipv6/conf/{interface}/use_tempaddr"), "2");
        shell(
            &lab,
            &format!(
                "ip address add 2001:db8:{net}::2/64 dev {interface} nodad mngtmpaddr valid_lft 3600 preferred_lft 1800; \
                 ip address add 2001:db8:{net}::9/64 dev {interface} nodad valid_lft 3600 preferred_lft 0; \
                 ip -6 route add default via 2001:db8:{net}::1 dev {interface} metric {net}"
            ),
        );
    }
    let found = shell(&lab, "ip -6 address show temporary").stdout;
    assert!(found.contains("2001:db8:1:") && found.contains("2001:db8:2:"), "{found}");
    assert_eq!(paths(&lab, &[]), [ETH, WLAN, "2001:db8:1::2", "2001:db8:2::2"]);
    let applied = setup(&lab, &["--apply"]).expect(0);
    assert_eq!(applied.stdout.matches("ip mptcp endpoint add 2001:db8:").count(), 2, "{applied:#?}");
    assert_eq!(problems(&lab), [""; 0]);
}
