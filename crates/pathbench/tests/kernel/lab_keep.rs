//! `lab up`, `lab exec`, `lab list`, `lab down`: labs that stay up.

use crate::support;
use crate::support::machine::{Machine, interfaces};
use crate::support::processes::{Role, signal};
use crate::support::site::{Site, UNKNOWN_HOST, address, ask, connect, question};
use crate::support::{TWO_PATHS, captured, finish, finish_with_input, within};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::net::UnixListener;
use std::time::Duration;

fn names(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn two_labs_of_one_scenario_stand_side_by_side_and_leave_nothing() {
    let machine = Machine::now();
    let site = Site::new();
    let labs = [format!("{}-a", site.name), format!("{}-b", site.name)];
    for lab in &labs {
        let up = site.up(lab).expect(0);
        assert!(up.stdout.contains(lab) && up.stdout.contains("client, server"), "{up:#?}");
    }
    assert!(labs.iter().all(|lab| site.is_listed(lab)));
    let work = &site.work;
    // Both labs use the same addresses, isolated from each other.
    for lab in &labs {
        let seen =
            work.run(&["lab", "exec", "--lab", lab, "client", "--", "cat", "/proc/net/fib_trie"]).expect(0);
        assert!(seen.stdout.contains("10.83.0.1") && seen.stdout.contains("10.83.1.1"), "{seen:#?}");
    }
    work.run(&["lab", "exec", "client", "--", "true"]).expect(2).reports(&[
        "several labs are up",
        &labs[0],
        &labs[1],
    ]);
    work.run(&["lab", "down"]).expect(2).reports(&["several labs are up"]);

    let mut of_labs: Vec<Role> = work.processes().into_iter().map(|process| process.role).collect();
    of_labs.sort();
    let agents = ["client", "client", "server", "server"].map(|host| Role::Agent(host.to_owned()));
    assert_eq!(of_labs, [&[Role::Keeper, Role::Keeper][..], &agents].concat());

    site.down(&labs[0]).expect(0);
    assert!(!site.is_listed(&labs[0]) && site.is_listed(&labs[1]));
    site.down(&labs[1]).expect(0);
    let left = work.left_behind();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(Machine::now(), machine);
}

#[test]
fn a_name_is_unique_and_free_again_at_once() {
    let site = Site::standing();
    site.up(&site.name).expect(2).reports(&["is up already", "lab down", "--name"]);
    for _ in 0..5 {
        site.down(&site.name).expect(0);
        site.up(&site.name).expect(0);
    }
    site.down(&site.name).expect(0);
    site.down(&site.name).expect(2).reports(&["no lab named", &site.name]);
    site.up("no/slash").expect(2).reports(&["cannot name a lab"]);
    site.exec("client", &["true"]).expect(2).reports(&["no lab named", &site.name]);
}

#[test]
fn programs_run_inside_a_host_as_if_it_were_a_machine() {
    let site = Site::standing();
    for host in ["client", "server"] {
        let table = site.exec(host, &["cat", "/proc/net/dev"]).expect(0).stdout;
        assert_eq!(interfaces(&table), names(&["lo", "eth", "wlan"]), "{host}");
    }
    let wires = site.exec("wires", &["cat", "/proc/net/dev"]).expect(0).stdout;
    // Each link has a bridge and two ports.
    let expected = names(&["lo", "w0", "w0a", "w0b", "w1", "w1a", "w1b"]);
    assert!(interfaces(&wires).is_superset(&expected), "{wires}");
    let finished =
        site.exec("client", &["sh", "-c", "echo $PATHBENCH_LAB_HOST; id -u; echo aside >&2"]).expect(0);
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("client\n0\n", "aside\n"));
    site.down(&site.name).expect(0);
}

/// Programs that find interfaces in /sys, and programs that give up root, work in a host.
#[test]
fn programs_see_the_hosts_interfaces_in_sys_and_may_change_their_user() {
    let site = Site::standing();
    let listed = site.exec("client", &["ls", "/sys/class/net"]).expect(0);
    let found: BTreeSet<String> = listed.stdout.split_whitespace().map(str::to_owned).collect();
    assert_eq!((found, listed.stderr.as_str()), (names(&["lo", "eth", "wlan"]), ""));
    let mtu = site.exec("server", &["cat", "/sys/class/net/wlan/mtu"]).expect(0);
    assert_eq!(mtu.stdout, "1500\n");
    // As tcpdump does: groups, group and user of another id, and the owner of its file.
    let other = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
    site.exec("client", &[&other[..], &["chown", "65534:65534", "two.toml"]].concat()).expect(0);
    // The machine's /sys is unchanged.
    assert!(std::path::Path::new("/sys/class/net/lo").exists());
    assert!(!std::path::Path::new("/sys/class/net/wlan").exists());
    site.down(&site.name).expect(0);
}

#[test]
fn exit_codes_and_input_are_passed_on() {
    let site = Site::standing();
    site.exec("client", &["sh", "-c", "exit 7"]).expect(7);
    site.exec("client", &["sh", "-c", "kill -9 $$"]).expect(128 + 9);
    let arguments = ["lab", "exec", "--lab", &site.name, "server", "--", "tr", "a-z", "A-Z"];
    let mut command = site.work.pathbench(&arguments);
    assert_eq!(finish_with_input(&mut command, "hello\n").expect(0).stdout, "HELLO\n");
    site.exec("client", &["no-such-program"]).expect(2).reports(&["`no-such-program`", "host `client`"]);
    site.exec("clinet", &["true"]).expect(2).reports(&["`clinet`", "client, server"]);
    site.down(&site.name).expect(0);
}

#[test]
fn a_lab_is_ready_for_traffic_when_up_returns() {
    let site = Site::standing();
    // No program listens on this port: only the server itself can refuse, and only over the link.
    for address in ["10.83.0.2", "10.83.1.2"] {
        let script = format!("exec 3<>/dev/tcp/{address}/9");
        let refused = site.exec("client", &["timeout", "2", "bash", "-c", &script]);
        assert!(refused.stderr.contains("Connection refused"), "{refused:#?}");
    }
    // A lab has no route to the outside.
    let out = site.exec("client", &["bash", "-c", "exec 3<>/dev/tcp/192.0.2.1/9"]);
    assert!(out.stderr.contains("unreachable"), "{out:#?}");
    site.down(&site.name).expect(0);
}

#[test]
fn programs_in_a_lab_end_with_it() {
    let site = Site::standing();
    let arguments = ["lab", "exec", "--lab", &site.name, "client", "--", "sleep", "1000"];
    let mut sleeper = captured(&mut site.work.pathbench(&arguments));
    let sleeps = || site.work.processes().iter().any(|process| process.runs("sleep"));
    assert!(within(Duration::from_secs(5), sleeps), "{:?}", site.work.processes());
    site.down(&site.name).expect(0);
    assert!(within(Duration::from_secs(3), || sleeper.try_wait().unwrap().is_some()), "it sleeps on");
    assert_eq!(sleeper.wait().unwrap().code(), Some(128 + 9));
    let left = site.work.left_behind();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_signal_to_the_keeper_takes_the_lab_down_in_order() {
    for end in [Signal::TERM, Signal::INT] {
        let site = Site::standing();
        let processes = site.work.processes();
        let keeper = processes.iter().find(|process| process.role == Role::Keeper).unwrap();
        signal(keeper.id, end);
        let left = site.work.left_behind();
        assert!(left.is_empty(), "{left:?}");
        assert!(!site.is_listed(&site.name));
    }
}

#[test]
fn a_lab_outlives_the_terminal_it_was_started_from() {
    let site = Site::new();
    // The shell is a session leader; when it ends, all processes in its foreground group get SIGHUP.
    let script = "setsid sh -c '\"$0\" lab up two.toml --name \"$1\" && kill -HUP 0' \"$0\" \"$1\"";
    let mut shell = std::process::Command::new("sh");
    site.work.prepare(&mut shell);
    finish(shell.args(["-c", script]).arg(support::binary()).arg(&site.name));
    site.exec("client", &["true"]).expect(0);
    site.down(&site.name).expect(0);
}

#[test]
fn a_lab_that_cannot_be_built_is_reported_and_leaves_nothing() {
    let site = Site::new();
    let text = format!("{TWO_PATHS}\n[host.client.sysctl]\n\"net.ipv4.no_such_setting\" = 1\n");
    let file = site.work.scenario("wrong", &text);
    let refused = site.work.run(&["lab", "up", &file, "--name", &site.name]);
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    let refused = refused.reports(&["host `client`", "net.ipv4.no_such_setting"]);
    assert_eq!(refused.stdout, "");
    let left = site.work.left_behind();
    assert!(left.is_empty(), "{left:?}");
    assert!(!site.is_listed(&site.name));
}

/// Regression: a silent client blocked a lab, and the lab allocated an announced length.
#[test]
fn a_silent_client_does_not_block_a_lab() {
    let site = Site::standing();
    let silent = connect(&site.name);
    let mut endless = connect(&site.name);
    endless.write_all(&(1_u32 << 29).to_be_bytes()).unwrap();
    let mut slow = connect(&site.name);
    slow.write_all(&question(UNKNOWN_HOST)[..5]).unwrap();
    let mut exec =
        captured(&mut site.work.pathbench(&["lab", "exec", "--lab", &site.name, "client", "--", "true"]));
    let ended = within(Duration::from_secs(30), || {
        // Byte by byte, without ending the request.
        let _closed = slow.write_all(b" ");
        exec.try_wait().unwrap().is_some()
    });
    if !ended {
        exec.kill().unwrap();
    }
    assert_eq!(exec.wait().unwrap().code(), Some(0), "`lab exec` behind silent clients");
    drop((silent, endless, slow));
    site.down(&site.name).expect(0);
}

#[test]
fn a_lab_answers_its_user() {
    let site = Site::standing();
    let own = ask(&address(&site.name), &question(UNKNOWN_HOST)).unwrap();
    assert!(own.contains("client") && own.contains("server"), "{own}");
    site.exec("client", &["true"]).expect(0);
    site.down(&site.name).expect(0);
}

/// A socket of this user imitates a lab that does not answer: the command fails within a bounded time.
#[test]
fn a_socket_that_does_not_answer_is_no_lab() {
    let site = Site::new();
    let listener = UnixListener::bind_addr(&address(&site.name)).unwrap();
    site.exec("client", &["true"]).expect(1);
    drop(listener);
    site.up(&site.name).expect(0);
    site.down(&site.name).expect(0);
}
