//! `pathbench setup` in labs whose client is misconfigured: after `--apply` both paths carry bytes, and an undo restores
//! the client byte for byte, also after a kill between any two steps.

#![allow(clippy::disallowed_methods, reason = "these tests wait by the real clock")]

use crate::inside::{assert_as_before, image, remove_rules, set, set_fullmesh, set_link};
use crate::support;
use crate::support::measured::Measured;
use crate::support::processes::signal;
use crate::support::standing::{Lab, SERVER};
use crate::support::{Dice, Finished, TWO_PATHS, binary, captured, finish, within};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command};
use std::time::Duration;

/// A client that lacks everything.
const NOTHING: &str = r#"
[host.client.mptcp]
endpoints = []
subflows = 0
add_addr_accepted = 0

[host.client.sysctl]
"net.mptcp.enabled" = 0
"#;

/// Commands in a lab.
trait Setup {
    /// `pathbench setup` in the host `client`, after the words of `prefix`; its journal is in the test's directory.
    fn setup_after(&self, prefix: &[&str], options: &[&str]) -> Command;

    fn setup(&self, options: &[&str]) -> Finished {
        finish(&mut self.setup_after(&[], options))
    }

    fn has_journal(&self) -> bool;

    /// Fails unless an MPTCP transfer from the client to `server` carries bytes over both paths.
    fn assert_both_paths_carry_bytes(&self, server: &str);
}

impl Setup for Lab {
    fn setup_after(&self, prefix: &[&str], options: &[&str]) -> Command {
        let (program, journal) = (binary(), self.work.path().join("journal.jsonl"));
        let own = [program.to_str().unwrap(), "setup", "--journal", journal.to_str().unwrap()];
        self.exec("client", &[prefix, &own, options].concat())
    }

    fn has_journal(&self) -> bool {
        self.work.path().join("journal.jsonl").exists()
    }

    fn assert_both_paths_carry_bytes(&self, server: &str) {
        let program = binary();
        let out = format!("transfer-{}", std::fs::read_dir(self.work.path()).unwrap().count());
        let command = [
            program.to_str().unwrap(),
            "test",
            server,
            "--transports",
            "mptcp",
            "--patterns",
            "throughput-upload",
            "--duration",
            "2s",
            "--repeat",
            "1",
            "--no-report",
            "--out",
            &out,
        ];
        let finished = finish(&mut self.exec("client", &command));
        let measured = Measured::read(&self.work.path().join(&out), finished).expect(0);
        let run = measured.run("mptcp");
        assert!(run.multipath.used, "{:?} {:#?}", run.multipath, run.paths);
        let used = run.paths.iter().filter(|path| path.share >= 0.1).count();
        assert_eq!(used, 2, "{:#?}", run.paths);
    }
}

fn lab(keys: &str) -> Lab {
    Lab::of(&format!("{TWO_PATHS}{keys}"), &[])
}

/// Applies the set-up; both paths carry bytes then, a second call finds nothing to do, and an undo restores the client.
fn repairs(lab: &Lab, server: &str) {
    let before = image(lab);
    let applied = lab.setup(&["--apply"]).expect(0);
    assert_ne!(image(lab), before, "nothing was changed: {applied:#?}");
    lab.assert_both_paths_carry_bytes(server);
    let again = lab.setup(&["--apply"]).expect(0);
    assert!(again.stdout.contains("# nothing to do"), "{again:#?}");
    lab.setup(&["--undo"]).expect(0);
    assert_as_before(lab, &before);
    assert!(!lab.has_journal(), "the journal stays");
}

#[test]
fn a_healthy_client_needs_nothing() {
    let lab = lab("");
    let before = image(&lab);
    for options in [&[][..], &["--apply"], &["--undo"]] {
        lab.setup(options).expect(0);
        assert_as_before(&lab, &before);
        assert!(!lab.has_journal(), "a journal of nothing stays");
    }
    let plan = lab.setup(&[]).expect(0);
    assert!(plan.stdout.contains("# nothing to do"), "{plan:#?}");
}

#[test]
fn a_client_that_lacks_everything_is_set_up() {
    let lab = lab(NOTHING);
    let _server = lab.serve(&["--open"]);
    let before = image(&lab);
    let plan = lab.setup(&[]).expect(0);
    for command in
        ["sysctl -w net.mptcp.enabled=1", "ip mptcp limits set", "ip mptcp endpoint add 10.83.1.1 dev wlan"]
    {
        assert!(plan.stdout.contains(command), "{command}: {plan:#?}");
    }
    assert_as_before(&lab, &before);
    repairs(&lab, SERVER);
}

/// The shipped scenarios whose fault is on the client: after `--apply` both paths carry bytes.
fn repairs_scenario(name: &str, server: &str) {
    let lab = Lab::of_shipped(name, &[]);
    let _server = lab.serve(&["--open"]);
    repairs(&lab, server);
}

#[test]
fn mptcp_that_is_off_is_set_up() {
    repairs_scenario("broken-mptcp-off", SERVER);
}

#[test]
fn limits_of_0_are_set_up() {
    repairs_scenario("broken-limits", SERVER);
}

#[test]
fn a_missing_endpoint_is_set_up() {
    repairs_scenario("broken-no-endpoint", SERVER);
}

#[test]
fn a_missing_source_rule_is_set_up() {
    repairs_scenario("broken-no-source-rule", SERVER);
}

#[test]
fn a_strict_filter_is_set_up() {
    repairs_scenario("broken-rp-filter", SERVER);
}

#[test]
fn direct_links_are_set_up() {
    repairs_scenario("broken-unconfigured", "10.0.0.2");
}

#[test]
fn two_interfaces_in_one_subnet_are_set_up() {
    let lab = Lab::of_shipped("broken-foreign-endpoints", &[]);
    let server = on_server(&lab, &["--role", "server", "--apply"]);
    // The endpoints are of the article's author: the command names the remedies and changes nothing.
    for remedy in ["ip mptcp endpoint delete id 1", "names an address that this host does not have"] {
        assert!(server.stdout.contains(remedy), "{server:#?}");
    }
    let _server = lab.serve(&["--open"]);
    let plan = lab.setup(&[]).expect(0);
    assert!(plan.stdout.contains("ip mptcp endpoint change id 1 fullmesh"), "{plan:#?}");
    set_fullmesh(&lab, "client");
    repairs(&lab, "172.31.0.218");
    on_server(&lab, &["--undo"]);
}

/// `pathbench setup` in the lab's server.
fn on_server(lab: &Lab, options: &[&str]) -> Finished {
    let (program, journal) = (binary(), lab.work.path().join("server.jsonl"));
    let own = [program.to_str().unwrap(), "setup", "--journal", journal.to_str().unwrap()];
    finish(&mut lab.exec("server", &[&own[..], options].concat())).expect(0)
}

/// Default routes by both interfaces, as from two DHCP clients, and strict filtering.
#[test]
fn strict_filtering_passes_with_source_rules() {
    for address in ["10.83.0.2", "fd00:2::1"] {
        let text = "[[path]]\nname = \"eth\"\nrate = \"20mbit\"\nqueue = \"50ms\"\npath_mtu = 1500\n\
                    client_address = [\"10.1.0.1/24\", \"fd00:1::1/64\"]\nserver_address = [\"10.83.0.2/24\", \"fd00:2::1/64\"]\n\
                    [[path]]\nname = \"wlan\"\nrate = \"20mbit\"\nqueue = \"50ms\"\npath_mtu = 1500\n\
                    client_address = [\"10.1.1.1/24\", \"fd00:1:0:1::1/64\"]\nserver_address = [\"10.2.1.1/24\", \"fd00:2:0:1::1/64\"]\n";
        let lab = Lab::of(&format!("{text}{NOTHING}"), &[]);
        remove_rules(&lab, true);
        for interface in ["all", "eth", "wlan"] {
            set(&lab, "client", &format!("net/ipv4/conf/{interface}/rp_filter"), "1");
        }
        let _server = lab.serve(&["--open"]);
        repairs(&lab, address);
    }
}

#[test]
fn an_undo_restores_the_host_after_a_kill_at_every_byte_of_the_journal() {
    let lab = lab(NOTHING);
    remove_rules(&lab, true);
    let before = image(&lab);
    lab.setup(&["--apply"]).expect(0);
    let journal = std::fs::read(lab.work.path().join("journal.jsonl")).unwrap();
    lab.setup(&["--undo"]).expect(0);
    assert_as_before(&lab, &before);
    let ends: Vec<usize> =
        journal.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    assert!(ends.len() > 12, "{}", String::from_utf8_lossy(&journal));
    // The kernel kills the process when the journal would exceed the limit (SIGXFSZ): between two steps, or with half a
    // line written.
    for limit in ends.iter().flat_map(|end| [*end, end - 7]).filter(|limit| *limit < journal.len()) {
        let limit = format!("--fsize={limit}");
        let killed = finish(&mut lab.setup_after(&["prlimit", "--core=0", &limit], &["--apply"]));
        assert_ne!(killed.code, Some(0), "{limit}: {killed:#?}");
        lab.setup(&["--undo"]).expect(0);
        assert_as_before(&lab, &before);
        assert!(!lab.has_journal(), "{limit}: the journal stays");
    }
}

#[test]
fn an_undo_restores_the_host_after_a_kill_at_any_time() {
    let lab = lab(NOTHING);
    remove_rules(&lab, true);
    let before = image(&lab);
    let begun = std::time::Instant::now();
    lab.setup(&["--apply"]).expect(0);
    let whole_ms = begun.elapsed().as_millis() as u64;
    lab.setup(&["--undo"]).expect(0);
    let (mut dice, mut journals) = (Dice(7), 0);
    for _ in 0..16 {
        let mut running = captured(&mut lab.setup_after(&[], &["--apply"]));
        std::thread::sleep(Duration::from_millis(dice.below(whole_ms + 10)));
        each_setup(&lab, support::processes::Process::kill);
        let _killed_or_done = running.wait().unwrap();
        journals += u32::from(lab.has_journal());
        lab.setup(&["--undo"]).expect(0);
        assert_as_before(&lab, &before);
    }
    assert!(journals > 0, "it never came so far as to change anything");
}

/// Acts on the processes of `setup --apply` in the lab's client.
fn each_setup(lab: &Lab, act: impl Fn(&support::processes::Process)) {
    for process in lab.work.processes() {
        let arguments = process.arguments();
        if arguments.iter().any(|word| word == "--apply") && !arguments.iter().any(|word| word == "exec") {
            act(&process);
        }
    }
}

#[test]
fn options_change_the_flags_of_own_endpoints_only() {
    let lab = lab(NOTHING);
    let before = image(&lab);
    lab.setup(&["--apply"]).expect(0);
    let changed = lab.setup(&["--apply", "--backup", "wlan"]).expect(0);
    assert!(changed.stdout.contains("ip mptcp endpoint change id 2 backup"), "{changed:#?}");
    assert!(image(&lab).contains("backup: true"), "{}", image(&lab));
    lab.setup(&["--undo"]).expect(0);
    assert_as_before(&lab, &before);
    // The endpoints of a healthy lab are not from this command.
    let lab = self::lab("");
    let before = image(&lab);
    let plan = lab.setup(&["--apply", "--backup", "wlan"]).expect(0);
    assert!(plan.stdout.contains("of another program is no backup"), "{plan:#?}");
    assert_as_before(&lab, &before);
}

#[test]
fn a_server_announces_its_addresses() {
    let lab = lab(
        "\n[host.server.mptcp]\nendpoints = []\n\n[host.client.mptcp]\nendpoints = []\nadd_addr_accepted = 2\n",
    );
    let plan = on_server(&lab, &["--role", "server", "--apply"]);
    assert!(plan.stdout.contains("ip mptcp endpoint add 10.83.1.2 dev wlan id 2 signal"), "{plan:#?}");
    assert!(on_server(&lab, &["--role", "server"]).stdout.contains("# nothing to do"));
    let _server = lab.serve(&["--open"]);
    // The client has no endpoint: it opens the second subflow to the announced address.
    lab.assert_both_paths_carry_bytes(SERVER);
    on_server(&lab, &["--undo"]);
}

/// The output of a watch.
struct Watch {
    process: Child,
    lines: Box<dyn Iterator<Item = String>>,
    seen: Vec<String>,
}

impl Watch {
    fn start(lab: &Lab, options: &[&str]) -> Self {
        let mut process = captured(&mut lab.setup_after(
            // SIGHUP stays ignored in programs that `nohup` starts, which may include these tests.
            &["env", "--default-signal=HUP"],
            &[&["--apply", "--watch", "--duration", "60s"], options].concat(),
        ));
        let lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        Self { process, lines: Box::new(lines), seen: Vec::new() }
    }

    /// Waits for a line that begins with `text`: comments name the commands of the undo from the start.
    fn wait_for(&mut self, text: &str) {
        let seen = &mut self.seen;
        let found =
            self.lines.by_ref().inspect(|line| seen.push(line.clone())).any(|line| line.starts_with(text));
        assert!(found, "`{text}` does not come: {:#?}", self.seen);
    }
}

#[test]
fn a_watch_follows_an_interface_that_goes_and_comes() {
    let lab = lab(NOTHING);
    remove_rules(&lab, false);
    let before = image(&lab);
    let mut watch = Watch::start(&lab, &["--undo-at-end"]);
    watch.wait_for("# undo");
    set_link(&lab, "client", "wlan", false);
    for undone in ["ip mptcp endpoint delete id 2", "ip rule delete from 10.83.1.1"] {
        watch.wait_for(undone);
    }
    set_link(&lab, "client", "wlan", true);
    watch.wait_for("ip mptcp endpoint add 10.83.1.1 dev wlan");
    let applied = within(Duration::from_secs(10), || image(&lab).matches("Endpoint {").count() == 2);
    assert!(applied, "{}", image(&lab));
    each_setup(&lab, |process| signal(process.id, rustix::process::Signal::TERM));
    watch.wait_for("sysctl -w net.mptcp.enabled=0");
    assert_eq!(watch.process.wait().unwrap().code(), Some(0));
    assert!(!lab.has_journal(), "the journal stays");
    // The kernel adds the route of the address again, behind the others.
    let sorted = |image: &str| {
        let mut lines: Vec<String> = image.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let restored = within(Duration::from_secs(20), || sorted(&image(&lab)) == sorted(&before));
    assert!(restored, "before: {before}\nafter: {}", image(&lab));
}

#[test]
fn an_undo_by_another_process_ends_a_watch() {
    let lab = lab(NOTHING);
    let before = image(&lab);
    let mut watch = Watch::start(&lab, &[]);
    watch.wait_for("# undo");
    assert!(lab.has_journal(), "nothing is recorded");
    lab.setup(&["--undo"]).expect(0);
    assert_eq!(watch.process.wait().unwrap().code(), Some(0));
    assert_as_before(&lab, &before);
}

#[test]
fn one_path_is_reported_with_the_reason() {
    let lab = Lab::of("[[path]]\nname = \"eth\"\nrate = \"20mbit\"\n", &[]);
    lab.setup(&[]).expect(6).reports(&["eth is the only interface"]);
    lab.setup(&["--role", "server"]).expect(0);
    lab.setup(&["--path", "nosuch0"]).expect(2).reports(&["no interface `nosuch0` here"]);
}

#[test]
fn without_privilege_it_plans_and_names_the_missing_capability() {
    let lab = lab(NOTHING);
    let before = image(&lab);
    let bare = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
    let plan = finish(&mut lab.setup_after(&bare, &[])).expect(0);
    assert!(plan.stdout.contains("ip mptcp endpoint add"), "{plan:#?}");
    finish(&mut lab.setup_after(&bare, &["--apply"])).expect(7).reports(&["CAP_NET_ADMIN"]);
    assert_as_before(&lab, &before);
    assert!(!lab.has_journal(), "a journal of nothing stays");
}

#[test]
fn the_plan_is_a_document() {
    let lab = lab(NOTHING);
    let printed = lab.setup(&["--json"]).expect(0).stdout;
    let document: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(document["schema"], "pathbench.setup/1");
    assert_eq!((&document["applied"], &document["role"]), (&false.into(), &"client".into()));
    assert_eq!(document["paths"][1]["interface"], "wlan");
    assert_eq!(document["paths"][1]["addresses"][0]["address"], "10.83.1.1");
    let steps = document["steps"].as_array().unwrap();
    assert_eq!(steps[0]["commands"][0], "sysctl -w net.mptcp.enabled=1");
    assert_eq!(steps[0]["undo"][0], "sysctl -w net.mptcp.enabled=0");
    assert!(steps.iter().all(|step| !step["reason"].as_str().unwrap().is_empty()), "{printed}");
}

#[test]
fn what_network_managers_know_is_used() {
    let lab = lab(NOTHING);
    remove_rules(&lab, false);
    let root = lab.work.path().join("root");
    let write = |file: &str, text: &str| {
        let file = root.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    // The client's interfaces eth and wlan have the indices 2 and 3.
    write("run/systemd/netif/leases/2", "ADDRESS=10.83.0.1\nROUTER=10.83.0.2\n");
    write("run/systemd/netif/leases/3", "ADDRESS=10.83.1.1\nROUTER=10.83.1.2\n");
    write("run/NetworkManager/devices/3", "[device]\nmanaged=true\nconnection-uuid=a-b\n");
    write("proc/57/comm", "NetworkManager\n");
    write("proc/57/stat", "57 (NetworkManager) S 1 57 57 0 -1\n");
    write(
        "etc/NetworkManager/system-connections/lte.nmconnection",
        "[connection]\nid=lte\nuuid=a-b\nmetered=1\n",
    );
    let plan = lab.setup(&["--root", root.to_str().unwrap()]).expect(0);
    for text in [
        "# path wlan: 10.83.1.1, backup",
        "ip route add default via 10.83.1.2 dev wlan proto static table",
        "connection.mptcp-flags enabled,subflow,backup",
    ] {
        assert!(plan.stdout.contains(text), "{text}: {plan:#?}");
    }
    assert!(!plan.stdout.contains("endpoint add 10.83.1.1"), "{plan:#?}");
    // Files of the machine say nothing about a lab.
    let plan = lab.setup(&[]).expect(0);
    assert!(plan.stdout.contains("endpoint add 10.83.1.1"), "{plan:#?}");
}

#[test]
fn mistakes_are_reported_before_anything_is_changed() {
    let work = support::Workplace::new();
    for (arguments, text) in [
        (&["--undo", "--watch"][..], "cannot be used with"),
        (&["--undo", "--apply"], "cannot be used with"),
        (&["--force"], "--undo"),
        (&["--watch"], "--apply"),
        (&["--role", "router"], "possible values: client, server"),
        (&["--path", "nosuch0", "--backup", "nosuch1"], "no interface `nosuch1`"),
    ] {
        let refused = work.run(&[&["setup"], arguments].concat()).expect(2).reports(&[text]);
        assert_eq!(refused.stdout, "", "{arguments:?}");
    }
    work.run(&["setup", "--undo", "--journal", "none.jsonl", "--root", "."])
        .expect(0)
        .reports(&["nothing to undo"]);
}

/// State files of systemd-networkd for the client's `wlan`, whose index is 3.
fn networkd(root: &std::path::Path) {
    let links = root.join("run/systemd/netif/links");
    let process = root.join("proc/58");
    for directory in [&links, &process] {
        std::fs::create_dir_all(directory).unwrap();
    }
    std::fs::write(process.join("comm"), "systemd-network\n").unwrap();
    std::fs::write(process.join("stat"), "58 (systemd-network) S 1 58 58 0 -1\n").unwrap();
    std::fs::write(
        links.join("3"),
        "ADMIN_STATE=configured\nNETWORK_FILE=/etc/systemd/network/20-wlan.network\n",
    )
    .unwrap();
}

#[test]
fn files_are_written_once_and_removed_unless_changed() {
    let lab = lab(NOTHING);
    remove_rules(&lab, true);
    let root = lab.work.path().join("root");
    networkd(&root);
    let root_option = ["--root", root.to_str().unwrap()];
    let setup = |options: &[&str]| lab.setup(&[&root_option[..], options].concat());
    let plan = setup(&["--persist", "--backup", "wlan"]).expect(0);
    assert!(plan.stdout.contains("ManageForeignRoutingPolicyRules=no"), "{plan:#?}");
    let read = |file: &str| std::fs::read_to_string(root.join(file));
    let unit = "etc/systemd/system/pathbench-setup.service";
    let drop_in = "etc/systemd/network/20-wlan.network.d/90-pathbench-setup.conf";
    assert!(read(unit).unwrap().contains("setup --apply --backup wlan --watch"), "{:?}", read(unit));
    assert!(root.join("etc/systemd/system/multi-user.target.wants/pathbench-setup.service").exists());
    let sections = read(drop_in).unwrap();
    for section in
        ["[RoutingPolicyRule]\nFrom=10.83.1.1/32\n", "[Route]\nDestination=0.0.0.0/0\nGateway=10.83.1.2\n"]
    {
        assert!(sections.contains(section), "{sections}");
    }
    // Again, with other options: its own files are replaced.
    setup(&["--persist"]).expect(0);
    assert!(!read(unit).unwrap().contains("--backup"), "{:?}", read(unit));
    // A file that someone has changed is neither replaced nor removed.
    std::fs::write(root.join(unit), read(unit).unwrap() + "# mine\n").unwrap();
    setup(&["--persist"]).expect(1).reports(&["pathbench-setup.service exists"]);
    setup(&["--undo"]).expect(1).reports(&["changed since pathbench wrote it", "--force"]);
    assert!(read(unit).is_ok() && read(drop_in).is_err());
    setup(&["--undo", "--force"]).expect(0);
    assert!(read(unit).is_err() && !root.join(drop_in).parent().unwrap().exists());
    assert!(
        std::fs::symlink_metadata(
            root.join("etc/systemd/system/multi-user.target.wants/pathbench-setup.service")
        )
        .is_err()
    );
    // A file of another program stays, even with force.
    std::fs::write(root.join(unit), "[Unit]\n").unwrap();
    setup(&["--persist"]).expect(1);
    setup(&["--undo", "--force"]).expect(0);
    assert_eq!(read(unit).unwrap(), "[Unit]\n");
}
