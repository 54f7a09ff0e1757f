//! A lab's own namespaces: made, entered as a guest, and gone with the processes.

use crate::guests::{GUEST, HOST, PARENT, SIGN};
use pathbench_host::kernel;
use pathbench_host::netlink::RouteSocket;
use pathbench_kerneltest::{Outcome, STAGE, again, ensure, tests};
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::{Duration, Instant};

tests!(
    a_rootless_lab_can_be_made,
    a_guest_enters_a_running_lab,
    threads_forbid_a_user_namespace,
    a_child_goes_with_its_parent,
    a_network_namespaces_number_is_its_own_for_good
);

fn a_rootless_lab_can_be_made() -> Outcome {
    let before = RouteSocket::open()?.links()?;
    kernel::user_namespaces()?;
    let after = RouteSocket::open()?.links()?;
    ensure!(before == after, "trying it moved this process");
    Ok(())
}

/// `lab up` and `lab exec` in small: one process makes a lab and waits, another enters it.
fn a_guest_enters_a_running_lab() -> Outcome {
    let mut host = again(HOST).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let output = host.stdout.take().ok_or("no standard output")?;
    let mut lines = BufReader::new(output).lines();
    // Its number in the PID namespace of /proc, which is not this one's.
    let process = lines.next().ok_or("the host said nothing")??;
    let guest = again(GUEST).env("PATHBENCH_KERNEL_TEST_LAB", &process).output()?;
    drop(host.stdin.take());
    let ended = host.wait()?;
    let text = String::from_utf8_lossy(&guest.stdout).into_owned();
    ensure!(guest.status.success(), "{text} {}", String::from_utf8_lossy(&guest.stderr));
    // Its network, its root, and the third process of its PID namespace at the latest.
    ensure!(text.lines().any(|line| line == SIGN), "{text}");
    ensure!(text.lines().any(|line| line == "uid 0"), "{text}");
    ensure!(text.lines().any(|line| matches!(line, "pid 2" | "pid 3")), "{text}");
    ensure!(ended.success(), "{ended}");
    Ok(())
}

fn a_network_namespaces_number_is_its_own_for_good() -> Outcome {
    use pathbench_host::namespace::{NetNamespace, current_cookie};
    let mut seen = vec![current_cookie()?];
    // Each goes before the next is made, which is then given its inode.
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

fn threads_forbid_a_user_namespace() -> Outcome {
    use pathbench_host::namespace::{Isolation, Refusal, enter_lab};
    ensure!(std::env::var(STAGE).is_ok(), "only inside");
    let (stop, wait) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || wait.recv());
    let refused = enter_lab(Isolation::User);
    drop(stop);
    let _ = other.join();
    ensure!(matches!(refused, Err(error) if error.refusal == Refusal::Threads), "{refused:?}");
    Ok(())
}

fn a_child_goes_with_its_parent() -> Outcome {
    let mut parent = again(PARENT).stdout(Stdio::piped()).spawn()?;
    let mut output = BufReader::new(parent.stdout.take().ok_or("no standard output")?);
    let mut line = String::new();
    output.read_line(&mut line)?;
    ensure!(line == "ready\n", "{line:?}");
    parent.kill()?;
    parent.wait()?;
    // The child has the output open, too, and would keep it open for a minute.
    let start = Instant::now();
    output.read_to_string(&mut line)?;
    ensure!(start.elapsed() < Duration::from_secs(10), "the child lived on");
    Ok(())
}
