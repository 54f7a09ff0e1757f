//! Which kernel and which network namespace a journal tells of.

use crate::namespace::current_cookie;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt as _;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const NAMESPACE: &str = "/proc/thread-self/ns/net";

/// A network namespace of a running kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceIdentity {
    /// The kernel's number of this boot (`random(4)`).
    pub boot_id: String,
    /// Inode of the namespace, as `ls -L -i /proc/self/ns/net` prints it.
    pub inode: u64,
    /// The namespace's number that no other gets in this boot; absent before Linux 5.14.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<u64>,
}

impl NamespaceIdentity {
    /// That of the calling thread.
    ///
    /// # Errors
    /// With the name of the file of `/proc` that cannot be read.
    pub fn of_this_thread() -> Result<Self, (&'static str, io::Error)> {
        let boot_id = std::fs::read_to_string(BOOT_ID).map_err(|source| (BOOT_ID, source))?;
        let inode = std::fs::metadata(NAMESPACE).map_err(|source| (NAMESPACE, source))?.ino();
        Ok(Self { boot_id: boot_id.trim().to_owned(), inode, cookie: current_cookie().ok() })
    }
}

impl fmt::Display for NamespaceIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "network namespace {} of boot {}", self.inode, self.boot_id)
    }
}
