//! Which paths MPTCP can use.

use pathbench_analysis::mptcp_setup::{LocalSetup, not_backup, shortage};
use pathbench_record::mptcp::{EndpointFlags, MptcpEndpoint};
use pathbench_record::network::ClientPath;

fn path(name: &str, host: u8) -> ClientPath {
    ClientPath {
        name: name.to_owned(),
        interface: name.to_owned(),
        addresses: vec![[192, 0, 2, host].into()],
        ..ClientPath::default()
    }
}

#[test]
fn a_shortage_names_the_path_and_the_remedy() {
    let paths = [path("eth0", 1), path("wlan0", 2)];
    let mut setup = LocalSetup { subflow_limit: 2, ..LocalSetup::default() };
    let words = shortage(&setup, &paths).unwrap();
    assert!(words.contains("ip mptcp endpoint add 192.0.2.2 dev wlan0 subflow"), "{words}");
    setup.endpoints = vec![[192, 0, 2, 2].into()];
    assert_eq!(shortage(&setup, &paths), None);
    setup.subflow_limit = 0;
    assert!(shortage(&setup, &paths).unwrap().contains("ip mptcp limits set subflows"));
    assert_eq!(shortage(&setup, &paths[..1]), None, "one path is all there is");
}

fn endpoint(backup: bool) -> MptcpEndpoint {
    let flags = EndpointFlags { backup, ..EndpointFlags::SUBFLOW };
    MptcpEndpoint { address: [192, 0, 2, 2].into(), port: None, id: Some(3), interface: None, flags }
}

/// Regression: a remedy lowered the limit of accepted addresses, added an endpoint that exists, and named 127.0.0.1.
#[test]
fn remedies_keep_what_is_in_force() {
    let address = [192, 0, 2, 2].into();
    let announced = EndpointFlags { signal: true, backup: true, ..EndpointFlags::default() };
    let mut setup = LocalSetup {
        add_addr_accepted_limit: 4,
        addresses: vec![[127, 0, 0, 1].into(), address],
        ..LocalSetup::default()
    };
    assert_eq!(setup.subflow_limit_remedy(), "ip mptcp limits set subflows 2 add_addr_accepted 4");
    setup.subflow_limit = 4;
    assert_eq!(setup.announced_address_remedy(), None);
    setup.add_addr_accepted_limit = 0;
    let remedy = "ip mptcp limits set subflows 4 add_addr_accepted 1".to_owned();
    assert_eq!(setup.announced_address_remedy(), Some(remedy));
    setup.path_manager.endpoints = vec![MptcpEndpoint { flags: announced, ..endpoint(false) }];
    assert_eq!(
        setup.endpoint_remedy(address, Some("wlan0")),
        "ip mptcp endpoint delete id 3; ip mptcp endpoint add 192.0.2.2 dev wlan0 id 3 signal subflow backup"
    );
    assert_eq!(setup.further_addresses().collect::<Vec<_>>(), [address]);
    let loopback = ClientPath { addresses: vec![[127, 0, 0, 1].into()], ..path("lo", 1) };
    assert_eq!(shortage(&setup, &[path("eth0", 1), loopback.clone()]), None);
    assert_eq!(not_backup(&loopback, None), None);
}

#[test]
fn a_backup_path_needs_a_backup_endpoint() {
    let lte = path("lte", 2);
    assert_eq!(not_backup(&lte, Some(endpoint(true))), None);
    assert!(not_backup(&lte, Some(endpoint(false))).unwrap().contains("endpoint change id 3 backup"));
    let none = not_backup(&lte, None).unwrap();
    assert!(none.contains("endpoint add 192.0.2.2 dev lte subflow backup"), "{none}");
}
