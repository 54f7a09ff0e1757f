//! Tests that judge what a lab measured.

mod egress;
mod lab_broken;
mod lab_buckets;
mod lab_datagrams;
mod lab_diagnosis;
mod lab_emulated;
mod lab_limits;
mod lab_mtu;
mod lab_patterns;
mod lab_quic;
mod lab_return;
mod lab_run;
mod record;
mod response;
mod study;
mod suite;
mod suite_study;
