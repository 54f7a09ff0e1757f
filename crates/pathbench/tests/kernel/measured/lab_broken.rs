//! The scenarios `broken-*`: their expectations hold, and the kernel's counters show that the cause is the fault that the
//! scenario names, and no other one.

use crate::support::Workplace;
use crate::support::measured::{Measured, goodput, path};
use pathbench_record::document::{PathRecord, RunRecord};
use pathbench_record::sample::Side::{self, Client, Server};

/// One test per scenario, so that several run at the same time.
macro_rules! broken {
    ($($test:ident, $name:literal => $check:expr;)*) => {
        const TESTED: &[&str] = &[$($name),*];
        $(
            #[test]
            fn $test() {
                let check: fn(&Measured) = $check;
                check(&measured($name));
            }
        )*
    };
}

/// The result of a shipped scenario whose expectations hold.
fn measured(name: &str) -> Measured {
    let work = Workplace::new();
    let finished = work.run(&["lab", "run", name, "--out", "result", "--no-calibration"]);
    let measured = Measured::read(&work.path().join("result"), finished).expect(0);
    let expectations = &measured.document.summary.expectations;
    assert!(!expectations.is_empty() && expectations.iter().all(|one| one.held), "{expectations:#?}");
    measured
}

fn count(run: &RunRecord, side: Side, counter: &str) -> i64 {
    let counters = run.counters.get(&side).unwrap_or_else(|| panic!("no counters of {side:?}: {run:#?}"));
    counters.get(counter).copied().unwrap_or_default()
}

/// Asserts which counters of MPTCP are above 0, and that the others named are 0.
#[track_caller]
fn counters(run: &RunRecord, above: &[(Side, &str)], zero: &[(Side, &str)]) {
    let count = |(side, name): &(Side, &str)| count(run, *side, &format!("MPTcpExt.{name}"));
    for one in above {
        assert!(count(one) > 0, "{one:?} is 0: {:#?}", run.counters);
    }
    for one in zero {
        assert_eq!(count(one), 0, "{one:?}: {:#?}", run.counters);
    }
}

/// Packets that a path's middleboxes have treated.
fn treated(run: &RunRecord, path: &str) -> u64 {
    let of_path = run.routers.iter().filter(|router| router.name.starts_with(path));
    of_path.flat_map(|router| router.middlebox.values()).sum()
}

/// MPTCP is negotiated, and the client does not try a join.
fn no_join(measured: &Measured) {
    counters(measured.run("mptcp"), &[(Client, "MPCapableSYNACKRX")], &[(Client, "MPJoinSynTx")]);
}

/// Bytes that entered a link at the client.
fn sent_on(run: &RunRecord, link: &str) -> u64 {
    let link = run.links.iter().find(|known| known.name == link).unwrap();
    link.forward_bytes.unwrap()
}

broken! {
    mptcp_is_off_at_the_client, "broken-mptcp-off" => |measured| {
        let run = measured.run("mptcp");
        let error = run.error.as_deref().unwrap_or_default();
        assert!(error.contains("net.mptcp.enabled=1"), "{error}");
    };
    the_server_has_tcp_only, "broken-server-tcp" => |measured| {
        let run = measured.run("mptcp");
        counters(run, &[(Client, "MPCapableFallbackSYNACK")], &[(Server, "MPCapableSYNRX")]);
        assert!(run.routers.is_empty(), "{run:#?}");
    };
    the_limit_of_subflows_is_0, "broken-limits" => no_join;
    the_client_has_no_endpoint, "broken-no-endpoint" => no_join;
    hosts_are_as_installed, "broken-unconfigured" => no_join;
    no_address_of_the_server_has_the_paths_ip_version, "broken-address-family" => no_join;
    the_announced_address_is_not_reached, "broken-nat-announcement" => |measured| {
        let run = measured.run("mptcp");
        counters(run, &[(Client, "AddAddr"), (Client, "MPJoinSynTx")], &[(Client, "MPJoinSynAckRx")]);
        assert!(!run.multipath.used, "{run:#?}");
    };
    no_rule_selects_the_second_link, "broken-no-source-rule" => |measured| {
        let run = measured.run("mptcp");
        // The subflow is established and carries data, but not over its link: both subflows are one path.
        counters(run, &[(Client, "MPJoinSynAckRx"), (Server, "MPJoinAckRx")], &[]);
        assert!(!run.multipath.used && goodput(run) < 22.0, "{run:#?}");
        let names: Vec<&str> = run.paths.iter().map(|path| path.name.as_str()).collect();
        assert_eq!((names, run.paths[0].subflows), (vec!["eth"], 2), "{run:#?}");
        assert!(run.multipath.reason.contains("ip rule add from 10.83.1.1 lookup"), "{:#?}", run.multipath);
        assert!(!run.notes.iter().any(|note| note.contains("differ by more than 5 %")), "{:#?}", run.notes);
        assert!(sent_on(run, "wlan") < sent_on(run, "eth") / 100, "{:#?}", run.links);
    };
    strict_rp_filter_drops_the_answer, "broken-rp-filter" => |measured| {
        let run = measured.run("mptcp");
        counters(run, &[(Client, "MPJoinSynTx"), (Server, "MPJoinSynRx")], &[(Client, "MPJoinSynAckRx")]);
        assert!(count(run, Client, "TcpExt.IPReversePathFilter") > 0, "{:#?}", run.counters);
    };
    the_servers_endpoints_are_the_clients, "broken-foreign-endpoints" => |measured| {
        let run = measured.run("mptcp");
        counters(run, &[(Client, "MPJoinSynTx")], &[(Client, "MPJoinSynAckRx")]);
        // Linux 6.18 counts the failure to bind to a foreign address under one of these names.
        let failures = ["MPJoinSynTxBindErr", "MPJoinSynTxCreatSkErr", "MPJoinSynTxConnectErr"];
        let failed: i64 = failures.iter().map(|name| count(run, Server, &format!("MPTcpExt.{name}"))).sum();
        assert!(failed > 0 && count(run, Client, "Tcp.OutRsts") > 0, "{:#?}", run.counters);
    };
    a_middlebox_strips_mp_capable, "broken-strip-mp-capable" => |measured| {
        let run = measured.run("mptcp");
        counters(run, &[(Client, "MPCapableFallbackSYNACK")], &[(Server, "MPCapableSYNRX")]);
        assert!(treated(run, "eth") > 0, "{:#?}", run.routers);
    };
    a_middlebox_strips_mp_join, "broken-strip-mp-join" => |measured| {
        let run = measured.run("mptcp");
        counters(run, &[(Client, "MPJoinSynTx"), (Client, "MPRstTx")], &[(Server, "MPJoinSynRx")]);
        assert!(treated(run, "wlan") > 0, "{:#?}", run.routers);
    };
    a_middlebox_strips_dss, "broken-strip-dss" => |measured| {
        let run = measured.run("mptcp");
        counters(run, &[(Client, "MPJoinSynAckRx"), (Client, "MPRstTx"), (Server, "MPRstRx")], &[]);
        // The subflow may end before the first sample of its state.
        let carries_nothing = |path: &PathRecord| path.name != "wlan" || path.bytes_delivered == 0;
        assert!(treated(run, "wlan") > 0 && run.paths.iter().all(carries_nothing), "{run:#?}");
    };
    a_middlebox_rewrites_payload, "broken-rewrite-payload" => |measured| {
        let run = measured.run("mptcp");
        // MPTCP has no checksum and does not notice; the application does.
        counters(run, &[(Server, "MPJoinAckRx")], &[(Client, "DataCsumErr"), (Server, "DataCsumErr")]);
        let error = run.error.as_deref().unwrap_or_default();
        assert!(error.contains("differs from the sent data"), "{error}");
        assert!(treated(run, "wlan") > 0, "{:#?}", run.routers);
    };
    a_middlebox_drops_udp, "broken-udp" => |measured| {
        assert_eq!(treated(measured.run("mptcp"), "wlan"), 0);
        for label in ["quic@wlan", "mpquic"] {
            assert!(treated(measured.run(label), "wlan") > 0, "{label}");
        }
    };
    buffers_are_too_small_for_a_long_path, "broken-small-buffers" => |measured| {
        let mbps = |label| measured.run(label).goodput_mbps.unwrap();
        assert!(mbps("mptcp") < mbps("tcp") * 0.7, "{} {}", mbps("mptcp"), mbps("tcp"));
    };
    a_path_drops_large_packets, "broken-mtu" => |measured| {
        let run = measured.run("mptcp");
        counters(run, &[(Client, "MPJoinSynAckRx"), (Server, "MPJoinAckRx")], &[]);
        let near = run.routers.iter().find(|router| router.name == "wlan.near").unwrap();
        assert!(near.too_big_suppressed > 0 && near.too_big_sent == 0, "{near:#?}");
        assert_eq!(path(run, "wlan").pmtu_bytes, 1500);
    };
}

#[test]
fn every_broken_scenario_has_a_test() {
    let list = Workplace::new().run(&["lab", "list"]).expect(0).stdout;
    let mut shipped: Vec<_> = list
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| name.starts_with("broken-"))
        .collect();
    let mut tested = TESTED.to_vec();
    shipped.sort_unstable();
    tested.sort_unstable();
    assert_eq!(shipped, tested);
}
