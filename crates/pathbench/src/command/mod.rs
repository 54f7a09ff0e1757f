//! The commands, a module each.

pub(crate) mod check;
pub(crate) mod collect;
pub(crate) mod lab;
pub(crate) mod mtu;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod roam;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod setup;
pub(crate) mod test;
pub(crate) mod trace;
