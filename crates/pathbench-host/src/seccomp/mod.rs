//! Seccomp user notification (seccomp(2), `Documentation/userspace-api/seccomp_filter.rst`): starts a program whose calls
//! of `socket` and a few others wait for this process, which replaces a call's result by a descriptor of its own or
//! leaves the call to the kernel.
//!
//! Requires Linux 5.14 (`SECCOMP_ADDFD_FLAG_SEND`) on `x86_64` or `aarch64`, and no privilege.

mod filter;
mod listener;
mod start;

pub(crate) use filter::SeccompFilter;
pub use filter::{FilterPlan, OptionName};
pub use listener::{SeccompListener, SeccompNotification, SeccompReception, SystemCall};
pub use start::{ProgramStartError, confine_self, pass_listener, start, take_listener};
