//! Remedies, executed: hosts that are misconfigured at random, in network namespaces of the test's own. Each command that
//! `check` prints for a finding succeeds and removes it, lowers nothing that is in force and causes no other problem; so do
//! the plan of `setup`, and its application.

use crate::support::{Dice, Finished, Workplace, binary, finish};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;

pathbench_testkit::tests!(
    ["ip", "sysctl", "nft"] => printed_remedies_remove_their_findings,
    plans_of_setup_run_to_their_end;
);

const CHECK_SEEDS: u64 = 40;
/// Each is two hosts.
const SETUP_SEEDS: u64 = 20;
/// Hosts at the same time.
const PARALLEL: usize = 8;
const INTERFACES: [&str; 4] = ["eth0", "wlan0", "lan.7", "usb0"];
/// Advice with a remedy that concerns this host alone and needs no word from the user.
const UNCONDITIONAL: [&str; 4] = ["mptcp-limits", "endpoint-flags", "same-subnet", "join-initial-address"];

/// A host in namespaces of its own, which end with it.
struct Host {
    holder: Child,
    work: Workplace,
}

impl Host {
    fn new(script: &str) -> Self {
        let work = Workplace::new();
        let mut command = Command::new("unshare");
        work.prepare(&mut command);
        let mut holder = command
            .args(["--user", "--map-root-user", "--net", "--mount", "sh", "-ec"])
            .arg(format!("{script}\necho ready\nexec cat"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{script}");
        Self { holder, work }
    }

    fn run(&self, words: &[&str]) -> Finished {
        let target = self.holder.id().to_string();
        let mut command = Command::new("nsenter");
        self.work.prepare(&mut command);
        command.args(["--user", "--net", "--mount", "--preserve-credentials", "--target", &target, "--"]);
        finish(command.args(words))
    }

    fn sh(&self, script: &str) -> Finished {
        self.run(&["sh", "-ec", script])
    }

    fn pathbench(&self, words: &[&str]) -> Finished {
        let program = binary();
        self.run(&[&[program.to_str().unwrap()], words].concat())
    }

    fn findings(&self) -> Vec<Found> {
        let finished = self.pathbench(&["check", "--json"]);
        let document: Value =
            serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished:#?}"));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let found = document["findings"].as_array().unwrap().iter().map(|finding| Found {
            level: text(&finding["level"]),
            key: (text(&finding["id"]), text(&finding["subject"])),
            remedy: finding["remedy"].as_array().into_iter().flatten().map(text).collect(),
        });
        found.collect()
    }

    /// The limits, and the flags of the endpoints by address and port.
    fn in_force(&self) -> (BTreeMap<String, u32>, BTreeMap<String, Vec<String>>) {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let limits = words(&self.run(&["ip", "mptcp", "limits"]).expect(0).stdout);
        let limits = limits.chunks(2).map(|pair| (pair[0].clone(), pair[1].parse().unwrap())).collect();
        let shown = self.run(&["ip", "mptcp", "endpoint", "show"]).expect(0).stdout;
        let endpoint = |line: &str| {
            let mut words = words(line);
            let id = words.iter().position(|word| word == "id").unwrap();
            let flags = words.split_off(id + 2);
            words.truncate(id);
            (words.join(" "), flags.into_iter().filter(|word| FLAGS.contains(&word.as_str())).collect())
        };
        (limits, shown.lines().map(endpoint).collect())
    }
}

const FLAGS: [&str; 4] = ["signal", "subflow", "backup", "fullmesh"];

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _killed = self.holder.kill();
        let _reaped = self.holder.wait();
    }
}

#[derive(Debug, Clone)]
struct Found {
    level: String,
    key: (String, String),
    remedy: Vec<String>,
}

impl Found {
    fn is_problem(&self) -> bool {
        self.level == "problem"
    }

    /// The commands of the first alternative; none if it depends on a word from the user, or on another host.
    fn commands(&self) -> Vec<&str> {
        let steps = self.remedy.iter().map(String::as_str);
        let steps: Vec<&str> = steps.take_while(|step| !step.starts_with("or")).collect();
        let is_complete = !steps.iter().any(|step| step.contains("ROUTER"));
        let commands: Vec<&str> = steps.into_iter().take_while(|step| is_command(step)).collect();
        if is_complete && (self.is_problem() || UNCONDITIONAL.contains(&self.key.0.as_str())) {
            commands
        } else {
            Vec::new()
        }
    }
}

fn is_command(step: &str) -> bool {
    ["ip ", "sysctl ", "nft "].iter().any(|program| step.starts_with(program))
}

/// A script that makes a host, misconfigured in the ways of the seed.
fn misconfigured(seed: u64) -> String {
    let mut dice = Dice(seed);
    let mut script = "mount -t tmpfs none /run; ip netns add peer; ip link set lo up\n\
                      sysctl -q -w net.ipv6.conf.default.accept_dad=0\n"
        .to_owned();
    let count = [1, 2, 2, 2, 2, 3, 3, 4][dice.below(8) as usize];
    let shares = dice.below(4) == 0 && count > 1;
    // 0: no default route in the main table; 1: one; else: one by each interface.
    let defaults = dice.below(6);
    let mut own: Vec<(String, &str)> = Vec::new();
    for (number, name) in INTERFACES.iter().enumerate().take(count) {
        let n = number + 1;
        let (address, router, subnet) = if shares && number < 2 {
            (format!("192.168.8.10{n}"), "192.168.8.1".to_owned(), "192.168.8.0/24".to_owned())
        } else {
            (format!("10.{n}.0.2"), format!("10.{n}.0.1"), format!("10.{n}.0.0/24"))
        };
        writeln!(
            script,
            "ip link add {name} type veth peer name p{n} netns peer; ip -n peer link set p{n} up"
        )
        .unwrap();
        let six = dice.below(3) == 0;
        let four = !six || dice.below(4) > 0;
        writeln!(script, "ip link set {name} up").unwrap();
        for (program, address, router, prefix, subnet, wanted) in [
            ("ip", address, router, 24, subnet, four),
            ("ip -6", format!("fd0{n}::2"), format!("fd0{n}::1"), 64, format!("fd0{n}::/64"), six),
        ] {
            if !wanted {
                continue;
            }
            writeln!(script, "{program} address add {address}/{prefix} dev {name}").unwrap();
            if defaults > 1 || defaults == 1 && number == 0 {
                writeln!(script, "{program} route add default via {router} dev {name} metric {n}00").unwrap();
            }
            let table = 200 + n;
            let has_table = dice.below(3);
            if has_table > 0 {
                writeln!(script, "{program} route add {subnet} dev {name} table {table}").unwrap();
                writeln!(script, "{program} route add default via {router} dev {name} table {table}")
                    .unwrap();
            }
            if has_table > 1 {
                writeln!(script, "{program} rule add from {address} lookup {table}").unwrap();
            }
            own.push((address, name));
        }
        if dice.below(6) == 0 {
            // A deprecated address beside the other.
            writeln!(script, "ip address add 10.{n}.0.9/24 dev {name} preferred_lft 0").unwrap();
            own.push((format!("10.{n}.0.9"), name));
        }
        writeln!(script, "sysctl -q -w net/ipv4/conf/{name}/rp_filter={}", dice.below(3)).unwrap();
        if dice.below(2) == 0 {
            writeln!(
                script,
                "sysctl -q -w net/ipv4/conf/{name}/arp_ignore=1 net/ipv4/conf/{name}/arp_announce=2"
            )
            .unwrap();
        }
    }
    writeln!(script, "sysctl -q -w net.ipv4.conf.all.rp_filter={}", dice.below(3)).unwrap();
    path_manager(&mut script, &mut dice, &own);
    script
}

fn path_manager(script: &mut String, dice: &mut Dice, own: &[(String, &str)]) {
    let mut limit = || if dice.below(3) == 0 { 0 } else { dice.below(9) };
    let (subflows, accepted) = (limit(), limit());
    writeln!(script, "ip mptcp limits set subflows {subflows} add_addr_accepted {accepted}").unwrap();
    let mut room: u32 = 8;
    for (address, name) in own {
        let other = own.iter().find(|(_, other)| other != name).map_or("lo", |(_, other)| *other);
        let endpoint = match dice.below(12) {
            0 => format!("dev {name} signal"),
            1 => format!("dev {name} subflow backup"),
            2 => "subflow".to_owned(),
            3 => format!("dev {other} subflow"),
            4 => format!("dev {name} backup"),
            5 => format!("dev {name} signal subflow"),
            6 => format!("dev {name} subflow fullmesh"),
            7 => format!("dev {name} signal port 4455"),
            8 => format!("dev {name} subflow"),
            _ => continue,
        };
        if room == 0 {
            break;
        }
        writeln!(script, "ip mptcp endpoint add {address} {endpoint}").unwrap();
        room -= 1;
    }
    // Addresses of nobody, of a host in a subnet, and of loopback.
    for (address, flags) in [
        ("203.0.113.9", "subflow"),
        ("10.1.0.77", "subflow"),
        ("127.0.0.1", "subflow"),
        ("198.51.100.4", "signal"),
    ] {
        if dice.below(4) == 0 && room > 0 {
            writeln!(script, "ip mptcp endpoint add {address} {flags}").unwrap();
            room -= 1;
        }
    }
    if dice.below(8) == 0 {
        for number in 0..room {
            writeln!(script, "ip mptcp endpoint add 198.18.0.{} signal", number + 1).unwrap();
        }
    }
    for (key, odds) in [("enabled=0", 5), ("allow_join_initial_addr_port=0", 4), ("pm_type=1", 10)] {
        if dice.below(odds) == 0 {
            writeln!(script, "sysctl -q -w net.mptcp.{key}").unwrap();
        }
    }
    if dice.below(8) == 0 {
        let subtype = dice.below(4);
        writeln!(
            script,
            "nft 'add table inet f; add chain inet f o {{ type filter hook output priority 0; }}; \
             add rule inet f o tcp option mptcp subtype {subtype} drop'"
        )
        .unwrap();
    }
}

/// Examines hosts of all seeds, some in parallel, and reports all mistakes. `./test --all` examines more.
fn for_each_seed(end: u64, examine: fn(&str) -> Result<(), String>) {
    let factor = std::env::var("PATHBENCH_TEST_FUZZ_FACTOR").ok().and_then(|factor| factor.parse().ok());
    let end = end * factor.unwrap_or(1);
    let mistakes: Mutex<Vec<String>> = Mutex::default();
    let seeds: Mutex<std::ops::Range<u64>> = Mutex::new(0..end);
    thread::scope(|scope| {
        for _ in 0..PARALLEL {
            scope.spawn(|| {
                loop {
                    let Some(seed) = seeds.lock().unwrap().next() else { break };
                    let script = misconfigured(seed);
                    if let Err(mistake) = examine(&script) {
                        mistakes
                            .lock()
                            .unwrap()
                            .push(format!("seed {seed}: {mistake}\nof the host\n{script}"));
                    }
                }
            });
        }
    });
    let mistakes = mistakes.into_inner().unwrap();
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

fn printed_remedies_remove_their_findings() {
    for_each_seed(CHECK_SEEDS, follow_check);
}

fn follow_check(script: &str) -> Result<(), String> {
    let host = Host::new(script);
    let before = host.findings();
    let in_force = host.in_force();
    let followed: Vec<&Found> = before.iter().filter(|found| !found.commands().is_empty()).collect();
    let commands: Vec<&str> = followed.iter().flat_map(|found| found.commands()).collect();
    let commands = commands.join("\n");
    let done = host.sh(&commands);
    if done.code != Some(0) {
        return Err(format!("a remedy fails: {}\n{commands}", done.stderr));
    }
    let after = host.findings();
    let notable = |found: &&Found| matches!(found.level.as_str(), "problem" | "advice");
    for found in after.iter().filter(notable) {
        if followed.iter().any(|one| one.key == found.key) {
            return Err(format!("{found:#?} stays after\n{commands}"));
        }
        if found.is_problem() && !before.iter().any(|one| one.key == found.key && one.is_problem()) {
            return Err(format!("{found:#?} is new after\n{commands}"));
        }
    }
    assert_not_lowered(&in_force, &host.in_force()).map_err(|lowered| format!("{lowered}\n{commands}"))
}

type InForce = (BTreeMap<String, u32>, BTreeMap<String, Vec<String>>);

/// Endpoints with an address of the host keep their flags.
fn assert_not_lowered(before: &InForce, after: &InForce) -> Result<(), String> {
    for (limit, value) in &before.0 {
        if after.0[limit] < *value {
            return Err(format!("{limit} was {value} and is {}", after.0[limit]));
        }
    }
    let of_nobody = ["203.0.113.", "10.1.0.77", "127.", "198."];
    for (endpoint, flags) in
        before.1.iter().filter(|(at, _)| !of_nobody.iter().any(|start| at.starts_with(start)))
    {
        let now = after.1.get(endpoint);
        if !now.is_some_and(|now| flags.iter().all(|flag| now.contains(flag))) {
            return Err(format!("endpoint {endpoint} had {flags:?} and has {now:?}"));
        }
    }
    Ok(())
}

fn plans_of_setup_run_to_their_end() {
    for_each_seed(SETUP_SEEDS, follow_setup);
}

fn follow_setup(script: &str) -> Result<(), String> {
    for apply in [false, true] {
        let host = Host::new(script);
        let in_force = host.in_force();
        let journal = host.work.path().join("journal.jsonl");
        let setup = |options: &[&str]| {
            let journal = journal.to_str().unwrap();
            let done = host.pathbench(&[&["setup", "--journal", journal], options].concat());
            // 6: the host has one path at most.
            if matches!(done.code, Some(0 | 6)) { Ok(done) } else { Err(format!("{done:#?}")) }
        };
        let printed = setup(if apply { &["--apply"] } else { &[] })?.stdout;
        if !apply {
            let done = host.sh(&printed);
            if done.code != Some(0) {
                return Err(format!("the plan fails: {}\n{printed}", done.stderr));
            }
        }
        let again = setup(&[])?.stdout;
        if !again.contains("# nothing to do") {
            return Err(format!("apply {apply}: after\n{printed}there is more to do:\n{again}"));
        }
        assert_not_lowered(&in_force, &host.in_force()).map_err(|lowered| format!("{lowered}\n{printed}"))?;
    }
    Ok(())
}
