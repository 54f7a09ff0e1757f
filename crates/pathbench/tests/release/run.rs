//! `pathbench run` with a static program.

use crate::support::standing::{Lab, SERVER};
use crate::support::supervised::{
    DELAYED_JOIN, Supervised, document, in_client, nginx, used_both_paths, words,
};
use crate::support::{Workplace, finish};
use pathbench_testkit::program;
use rustix::process::Signal;
use std::process::Command;

pathbench_testkit::tests!(["go", "nginx"] => a_static_go_program_fetches_from_nginx_over_both_paths);

/// A static Go program, which no `LD_PRELOAD` reaches.
fn static_go_program(work: &Workplace) -> String {
    let source = pathbench_testkit::checkout().join("crates/pathbench/tests/run/fetch.go");
    let file = work.path().join("fetch");
    let mut build = Command::new(program("go"));
    build.args(["build", "-o"]).arg(&file).arg(source).env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=mod");
    build.env("GO111MODULE", "auto").env("GOTOOLCHAIN", "local").current_dir(work.path());
    finish(&mut build).expect(0);
    file.to_str().unwrap().to_owned()
}

fn a_static_go_program_fetches_from_nginx_over_both_paths() {
    let lab = Lab::standing(&DELAYED_JOIN);
    let server = Supervised::serve(&lab, "nginx", &nginx(&lab), 8080);
    let address = format!("{SERVER}:8080");
    let go = words(&[&static_go_program(&lab.work), &address, "/file"]);
    let found = document(&in_client(&lab, &go).expect(0));
    assert_eq!(found["sockets_created"], 1, "{found:#}");
    used_both_paths(&found);
    let found = server.end(Signal::TERM);
    assert_eq!(found["connections_multipath"], 1, "{found:#}");
    used_both_paths(&found);
}
