//! A lab's namespaces: created, entered as a guest, and removed with their processes.

use crate::guests::{GUEST, HOST, PARENT, SIGN};
use pathbench_host::namespace::try_user_namespace;
use pathbench_host::netlink::RouteSocket;
use pathbench_testkit::{STAGE, TrialOutcome, again, ensure, tests};
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::{Duration, Instant};

tests!(
    a_rootless_lab_can_be_created,
    a_guest_enters_a_running_lab,
    threads_forbid_a_user_namespace,
    a_child_ends_with_its_parent,
    a_network_namespace_cookie_is_never_reused
);

fn a_rootless_lab_can_be_created() -> TrialOutcome {
    let before = RouteSocket::open()?.links()?;
    try_user_namespace()?;
    let after = RouteSocket::open()?.links()?;
    ensure!(before == after, "trying it moved this process");
    Ok(())
}

/// Like `lab up` and `lab exec`: one process creates a lab and waits, another one enters it.
fn a_guest_enters_a_running_lab() -> TrialOutcome {
    let mut host = again(HOST).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let output = host.stdout.take().ok_or("no standard output")?;
    let mut lines = BufReader::new(output).lines();
    // Its pid in the PID namespace of /proc, which differs from this one.
    let process = lines.next().ok_or("no output from the host process")??;
    let guest = again(GUEST).env("PATHBENCH_KERNEL_TEST_LAB", &process).output()?;
    drop(host.stdin.take());
    let ended = host.wait()?;
    let text = String::from_utf8_lossy(&guest.stdout).into_owned();
    ensure!(guest.status.success(), "{text} {}", String::from_utf8_lossy(&guest.stderr));
    // The lab's network, its root user, and a PID of at most 3 in its PID namespace.
    ensure!(text.lines().any(|line| line == SIGN), "{text}");
    ensure!(text.lines().any(|line| line == "uid 0"), "{text}");
    ensure!(text.lines().any(|line| matches!(line, "pid 2" | "pid 3")), "{text}");
    ensure!(ended.success(), "{ended}");
    Ok(())
}

fn a_network_namespace_cookie_is_never_reused() -> TrialOutcome {
    use pathbench_host::namespace::{NetNamespace, current_cookie};
    let mut seen = vec![current_cookie()?];
    // Each namespace is removed before the next one is created, which then gets its inode.
    for _ in 0..20 {
        let namespace = NetNamespace::create()?;
        let [first, second] = [namespace.run_in(current_cookie)??, namespace.run_in(current_cookie)??];
        ensure!(first == second, "{first} became {second}");
        ensure!(!seen.contains(&first), "{first} was given twice: {seen:?}");
        seen.push(first);
    }
    ensure!(current_cookie()? == seen[0], "this namespace's number changed");
    Ok(())
}

fn threads_forbid_a_user_namespace() -> TrialOutcome {
    use pathbench_host::namespace::{Isolation, NamespaceRefusal, enter_lab};
    ensure!(std::env::var(STAGE).is_ok(), "only inside");
    let (stop, wait) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || wait.recv());
    let refused = enter_lab(Isolation::User);
    drop(stop);
    let _ = other.join();
    ensure!(matches!(refused, Err(error) if error.refusal == NamespaceRefusal::Threads), "{refused:?}");
    Ok(())
}

fn a_child_ends_with_its_parent() -> TrialOutcome {
    let mut parent = again(PARENT).stdout(Stdio::piped()).spawn()?;
    let mut output = BufReader::new(parent.stdout.take().ok_or("no standard output")?);
    let mut line = String::new();
    output.read_line(&mut line)?;
    ensure!(line == "ready\n", "{line:?}");
    parent.kill()?;
    parent.wait()?;
    // The child holds the output pipe too, and would keep it open for a minute.
    let start = Instant::now();
    output.read_to_string(&mut line)?;
    ensure!(start.elapsed() < Duration::from_secs(10), "the child lived on");
    Ok(())
}
