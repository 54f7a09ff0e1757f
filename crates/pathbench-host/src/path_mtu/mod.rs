//! The kernel's path-MTU state and its correction. [`PathObserver`] reads the state, and [`plan()`] plans the correction
//! without changes; [`crate::change::Applier`] applies the plan.

mod plan;
mod state;

pub use crate::connections::{LiveConnection, LiveSubflow, Recovery, is_stuck};
pub use crate::netlink::{CachedMtu, FibEntry, NextHop};
pub use plan::{PlanError, plan};
pub use state::{HostPath, PathMtuState, PathObserver, PathStateError};
