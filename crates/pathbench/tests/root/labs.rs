//! Labs of root: their privilege, and users that are not their owner.

use crate::support::site::{Site, UNKNOWN_HOST, address, ask, question};
use crate::support::{QUICK, Workplace};
use pathbench_record::document::ResultDocument;
use std::os::unix::net::UnixListener;
use std::thread;

pathbench_testkit::tests!(
    ["root"] => a_lab_as_root_has_the_privilege_of_root, a_lab_answers_no_other_user,
    a_socket_of_another_user_is_no_lab
);

/// Runs `act` in a thread with the user id 65534 (nobody); requires root.
fn as_nobody<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let uid = rustix::fs::Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            act()
        });
        thread.join().unwrap()
    })
}

fn a_lab_as_root_has_the_privilege_of_root() {
    let work = Workplace::new();
    let file = work.scenario("quick", QUICK);
    let command = ["lab", "run", &file, "--as-root", "--json", "--no-calibration", "--out", "out"];
    let document: ResultDocument = serde_json::from_str(&work.run(&command).expect(0).stdout).unwrap();
    assert_eq!(document.host.privilege, "root");
    assert!(work.left_behind().is_empty());
}

fn a_lab_answers_no_other_user() {
    let site = Site::standing();
    let address = address(&site.name);
    for text in [UNKNOWN_HOST, "{\"Enter\":{\"host\":\"client\"}}", "\"Down\""] {
        let answer = as_nobody(|| ask(&address, &question(text))).unwrap_or_default();
        assert!(answer.is_empty() || answer.contains("another user"), "{text}: {answer}");
    }
    site.exec("client", &["true"]).expect(0);
    site.down(&site.name).expect(0);
}

fn a_socket_of_another_user_is_no_lab() {
    let site = Site::new();
    let address = address(&site.name);
    let listener = as_nobody(|| UnixListener::bind_addr(&address).unwrap());
    for finished in [site.up(&site.name), site.exec("client", &["true"]), site.down(&site.name)] {
        finished.expect(2).reports(&["belongs to a process of user 65534", "--name"]);
    }
    assert!(!site.is_listed(&site.name), "listed as a lab");
    drop(listener);
    site.up(&site.name).expect(0);
    site.down(&site.name).expect(0);
}
