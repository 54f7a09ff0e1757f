//! The kernel's counters in the formats of `/proc/net`.

use pathbench_host::counters::KernelCounters;
use proptest::prelude::*;
use std::collections::BTreeMap;

// Recorded on Linux 6.18, shortened.
const NETSTAT: &str = "\
TcpExt: SyncookiesSent TCPTimeouts TCPMTUPFail
TcpExt: 0 13 0
IpExt: InNoRoutes InOctets OutOctets
IpExt: 0 2317004 18446744073709551615
MPTcpExt: MPCapableSYNRX MPCapableSYNTX MPJoinSynTx
MPTcpExt: 3 4 2
";
const SNMP: &str = "\
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens
Tcp: 1 200 120000 -1 17
";
const SNMP6: &str = "Ip6InReceives                   \t12\nIcmp6OutMsgs                    \t3\n";

fn recorded() -> KernelCounters {
    let mut counters = KernelCounters::default();
    counters.take_table(NETSTAT);
    counters.take_table(SNMP);
    counters.take_list(SNMP6);
    counters
}

#[test]
fn recorded_text() {
    let counters = recorded();
    assert_eq!(counters.get("MPTcpExt.MPJoinSynTx"), Some(2));
    assert_eq!(counters.get("Tcp.MaxConn"), Some(-1));
    assert_eq!(counters.get("IpExt.OutOctets"), Some(-1));
    assert_eq!(counters.get("Ip6InReceives"), Some(12));
    assert_eq!(counters.get("MPTcpExt.NoSuch"), None);
    assert_eq!(counters.iter().count(), 16);
}

#[test]
fn only_changed_counters_are_reported() {
    let before = recorded();
    let mut after = recorded();
    after.take_table("MPTcpExt: MPJoinSynTx MPFailTx\nMPTcpExt: 5 1\n");
    let expected = [("MPTcpExt.MPFailTx".to_owned(), 1), ("MPTcpExt.MPJoinSynTx".to_owned(), 3)];
    assert_eq!(KernelCounters::difference(&before, &after), BTreeMap::from(expected));
    assert!(KernelCounters::difference(&after, &after).is_empty());
}

proptest! {
    #[test]
    fn any_text(text: String) {
        let mut counters = KernelCounters::default();
        counters.take_table(&text);
        counters.take_list(&text);
    }
}
