//! Asks the kernel.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use pathbench_host::seccomp::OptionName;
use pathbench_host::sockets::refused_by_mptcp;
use pathbench_supervisor::options::{REFUSED, refused_here};

#[test]
fn this_kernel_refuses_most_options_and_none_twice() {
    let refused = refused_here().unwrap();
    assert!(refused.len() >= REFUSED.len() / 2, "{refused:?}");
    let mut distinct = REFUSED.map(|(level, number, _)| (level, number));
    distinct.sort_unstable();
    assert!(distinct.windows(2).all(|pair| pair[0] != pair[1]));
    let taken = [(libc::SOL_TCP, libc::TCP_NODELAY), (libc::SOL_SOCKET, libc::SO_KEEPALIVE)];
    let taken = taken.map(|(level, name)| OptionName { level, name });
    assert_eq!(refused_by_mptcp(&taken), Ok(Vec::new()));
}
