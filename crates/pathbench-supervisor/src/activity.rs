//! The calls so far: sockets created, sockets left on TCP, refused options. Pure and bounded.

use crate::confinement::Confinement;
use crate::decision::LeftOnTcp;
use pathbench_host::seccomp::OptionName;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Created sockets that are not connected yet. Older ones beyond it are no longer recognised.
const MOST_AWAITED: usize = 65_536;
/// Programs that are named in a note; further ones are counted without a name.
const MOST_PROGRAMS: usize = 64;
const FURTHER_PROGRAMS: &str = "further programs";

/// Shared by the thread that answers calls and the thread that samples.
#[derive(Debug, Default)]
pub struct SocketActivity {
    pub sockets_created: u64,
    /// Whether an IPv6 socket is among them, which may carry IPv4 as well.
    pub has_ipv6: bool,
    /// Calls that ended with `EMFILE`, the program's own limit of descriptors.
    pub refused_for_descriptors: u64,
    sockets_seen: u64,
    /// Cookies of created sockets that no snapshot has shown yet, and the inodes of their files.
    awaited: HashMap<u64, u32>,
    /// Inode → cookie of the same sockets.
    inodes: HashMap<u32, u64>,
    order: VecDeque<u64>,
    /// Reason, program → sockets.
    pub left_on_tcp: BTreeMap<(LeftOnTcp, String), u64>,
    /// Program → calls of `io_uring_setup`.
    pub io_uring: BTreeMap<String, u64>,
    /// Calls of setsockopt(2) on MPTCP sockets that MPTCP refuses.
    pub refused_options: BTreeMap<OptionName, u64>,
    pub(crate) confinement: Confinement,
}

impl SocketActivity {
    /// Whether a process of the tree has restricted itself by Landlock.
    pub fn is_anything_confined(&self) -> bool {
        self.confinement.is_in_use()
    }

    /// Leaves every later socket on TCP: a process that is not known has restricted itself.
    pub fn doubt_all(&mut self) {
        self.confinement.add_unknown();
    }

    /// Notes a created socket; `inode` of its file, 0 if unknown.
    pub fn created(&mut self, cookie: u64, inode: u32) {
        self.sockets_created += 1;
        self.awaited.insert(cookie, inode);
        if inode != 0 {
            self.inodes.insert(inode, cookie);
        }
        self.order.push_back(cookie);
        while self.order.len() > MOST_AWAITED {
            self.order.pop_front().map(|oldest| self.forget(oldest));
        }
    }

    /// Whether it was awaited.
    fn forget(&mut self, cookie: u64) -> bool {
        let Some(inode) = self.awaited.remove(&cookie) else { return false };
        if self.inodes.get(&inode) == Some(&cookie) {
            self.inodes.remove(&inode);
        }
        true
    }

    pub fn is_awaited(&self, cookie: u64) -> bool {
        self.awaited.contains_key(&cookie)
    }

    /// The cookie of the created socket with this inode that no snapshot has shown yet.
    pub fn awaited_by_inode(&self, inode: u32) -> Option<u64> {
        self.inodes.get(&inode).copied()
    }

    /// Sockets that never were connected or listening when the kernel's sockets were listed.
    pub const fn unseen(&self) -> u64 {
        self.sockets_created.saturating_sub(self.sockets_seen)
    }

    /// The socket is connected or listening; true if it was created here.
    pub fn appeared(&mut self, cookie: u64) -> bool {
        // Its position in the queue stays until it is the oldest.
        let is_own = self.forget(cookie);
        self.sockets_seen += u64::from(is_own);
        is_own
    }

    pub fn left(&mut self, reason: LeftOnTcp, program: &str) {
        let is_known = self.left_on_tcp.contains_key(&(reason, program.to_owned()));
        let program = bound_name(program, is_known, self.left_on_tcp.len());
        *self.left_on_tcp.entry((reason, program.to_owned())).or_default() += 1;
    }

    pub fn used_io_uring(&mut self, program: &str) {
        let program = bound_name(program, self.io_uring.contains_key(program), self.io_uring.len());
        *self.io_uring.entry(program.to_owned()).or_default() += 1;
    }

    pub fn refused_option(&mut self, option: OptionName) {
        *self.refused_options.entry(option).or_default() += 1;
    }
}

fn bound_name(program: &str, is_known: bool, programs: usize) -> &str {
    if is_known || programs < MOST_PROGRAMS { program } else { FURTHER_PROGRAMS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_sockets_takes_bounded_memory() {
        let mut activity = SocketActivity::default();
        let many = 3 * MOST_AWAITED as u64;
        (0..many).for_each(|cookie| activity.created(cookie, cookie as u32));
        assert_eq!(activity.sockets_created, many);
        assert_eq!((activity.awaited.len(), activity.order.len()), (MOST_AWAITED, MOST_AWAITED));
        assert!(!activity.appeared(0) && activity.appeared(many - 1) && !activity.appeared(many - 1));
        // Sockets that were connected leave the queue, too.
        (many..2 * many).for_each(|cookie| {
            activity.created(cookie, cookie as u32);
            assert!(activity.appeared(cookie));
        });
        assert!(activity.awaited.len() <= MOST_AWAITED && activity.order.len() <= MOST_AWAITED);
        assert!(activity.inodes.len() <= activity.awaited.len());
    }
}
