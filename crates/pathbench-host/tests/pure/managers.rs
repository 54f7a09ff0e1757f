//! Settings of systemd-networkd.

use pathbench_host::managers::networkd_keeps_rules;
use std::fs;
use std::path::Path;

fn write(root: &Path, file: &str, value: &str) {
    let file = root.join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(
        file,
        format!("[Network]\n#ManageForeignRoutingPolicyRules=no\nManageForeignRoutingPolicyRules={value}\n"),
    )
    .unwrap();
}

#[test]
fn the_last_drop_in_wins_and_etc_hides_other_files_of_its_name() {
    let root = tempfile::tempdir().unwrap();
    let keeps = || networkd_keeps_rules(root.path());
    assert!(!keeps(), "the default is to manage them");
    write(root.path(), "usr/lib/systemd/networkd.conf", "no");
    assert!(keeps());
    write(root.path(), "etc/systemd/networkd.conf", "yes");
    assert!(!keeps(), "the file in /etc precedes");
    write(root.path(), "run/systemd/networkd.conf.d/50-rules.conf", "no");
    assert!(keeps(), "a drop-in precedes the file");
    write(root.path(), "etc/systemd/networkd.conf.d/40-rules.conf", "yes");
    assert!(keeps(), "by name, not by directory");
    write(root.path(), "etc/systemd/networkd.conf.d/50-rules.conf", "true");
    assert!(!keeps(), "hidden");
    write(root.path(), "etc/systemd/networkd.conf.d/60-rules.conf", "off");
    assert!(keeps());
}
