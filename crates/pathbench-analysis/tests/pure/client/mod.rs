//! A client's conclusions before and during a measurement.

mod mptcp_setup;
mod reachability;
mod request_delay;
mod wifi;
