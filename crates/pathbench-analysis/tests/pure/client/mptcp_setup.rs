//! Which paths MPTCP can use.

use pathbench_analysis::mptcp_setup::{LocalSetup, not_backup, shortage};
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

#[test]
fn a_backup_path_needs_a_backup_endpoint() {
    let lte = path("lte", 2);
    assert_eq!(not_backup(&lte, Some((Some(3), true))), None);
    assert!(not_backup(&lte, Some((Some(3), false))).unwrap().contains("endpoint change id 3 backup"));
    let none = not_backup(&lte, None).unwrap();
    assert!(none.contains("endpoint add 192.0.2.2 dev lte subflow backup"), "{none}");
}
