//! Values and small system calls, without namespaces.

use pathbench_host::kernel::{Release, cpu_count, memory_bytes, release};
use pathbench_host::namespace::peer_uid;
use pathbench_host::scheduling::{CpuLatencyRequest, Precedence, prefer_latency};
use pathbench_host::sysctl::{self, SysctlError};
use pathbench_host::tun::{PacketHeader, Segmentation, TunError};
use proptest::prelude::*;
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

#[test]
fn as_the_kernel_writes_it() {
    let bytes = [1, 0x81, 54, 0, 0xb4, 5, 34, 0, 16, 0];
    let header = PacketHeader {
        checksum: Some((34, 16)),
        segmentation: Some(Segmentation::TcpV4),
        ecn: true,
        header_bytes: 54,
        segment_bytes: 1_460,
    };
    #[cfg(target_endian = "little")]
    assert_eq!(PacketHeader::parse(&bytes), Some(header));
    #[cfg(target_endian = "little")]
    assert_eq!(header.to_bytes(), bytes);
    assert_eq!(PacketHeader::parse(&bytes[..9]), None);
    assert_eq!(PacketHeader::parse(&[0, 3, 0, 0, 0, 0, 0, 0, 0, 0]), None, "UFO was not offered");
}

proptest! {
    #[test]
    fn parsed_headers_are_written_unchanged(bytes: [u8; PacketHeader::BYTES]) {
        if let Some(header) = PacketHeader::parse(&bytes) {
            prop_assert_eq!(PacketHeader::parse(&header.to_bytes()), Some(header));
        }
    }
}

#[test]
fn releases() {
    let numbers = |text| {
        let release = Release::parse(text);
        (release.major, release.minor, release.patch)
    };
    assert_eq!(numbers("6.18.44-fc-v445"), (6, 18, 44));
    assert_eq!(numbers("5.15-rc3"), (5, 15, 0));
    assert_eq!(numbers("6.1.0-18-amd64"), (6, 1, 0));
    assert_eq!(numbers("nonsense"), (0, 0, 0));
    assert!(Release::parse("6.5.0").is_at_least(6, 5));
    assert!(!Release::parse("5.19.17").is_at_least(6, 5));
}

#[test]
fn this_machine() {
    assert!(release().is_at_least(3, 0));
    assert!(cpu_count() >= 1);
    assert!(memory_bytes() > 1 << 20);
}

#[test]
fn the_other_end_of_an_own_pair_is_this_user() {
    let (one, _other) = UnixStream::pair().unwrap();
    assert_eq!(peer_uid(&one), Ok(rustix::process::geteuid().as_raw()));
    let file = File::open("/dev/null").unwrap();
    assert_eq!(peer_uid(&file), Err(Errno::NOTSOCK));
}

#[test]
fn recent_kernels_grant_a_latency_policy() {
    // In a temporary thread, because the policy would persist.
    let got = std::thread::spawn(prefer_latency).join().unwrap();
    assert_ne!(got, Precedence::None);
}

fn tolerated() -> i32 {
    let mut value = [0; 4];
    File::open("/dev/cpu_dma_latency").unwrap().read_exact(&mut value).unwrap();
    i32::from_ne_bytes(value)
}

#[test]
fn a_latency_request_holds_where_the_device_may_be_opened() {
    match CpuLatencyRequest::zero() {
        Ok(request) => {
            assert_eq!(tolerated(), 0);
            drop(request);
        }
        Err(error) => {
            let known = [io::ErrorKind::PermissionDenied, io::ErrorKind::NotFound];
            assert!(known.contains(&error.kind()), "{error}");
        }
    }
}

#[test]
fn a_missing_setting_is_reported() {
    assert!(matches!(sysctl::read("net.ipv4.no_such_setting"), Err(SysctlError::NoSuchKey { .. })));
    assert!(matches!(sysctl::read("../etc/passwd"), Err(SysctlError::InvalidKey { .. })));
    assert!(matches!(sysctl::write("net.ipv4.no_such_setting", "1"), Err(SysctlError::NoSuchKey { .. })));
}

#[test]
fn dots_and_slashes() {
    let file = PathBuf::from("/proc/sys/net/ipv4/tcp_mtu_probing");
    assert_eq!(sysctl::path("net.ipv4.tcp_mtu_probing").unwrap(), file);
    assert_eq!(sysctl::path("net/ipv4/tcp_mtu_probing").unwrap(), file);
    assert_eq!(
        sysctl::path("net/ipv4/conf/eth0.5/rp_filter").unwrap(),
        PathBuf::from("/proc/sys/net/ipv4/conf/eth0.5/rp_filter")
    );
}

proptest! {
    #[test]
    fn no_key_leads_out_of_proc_sys(key in "[a-z./ ]{0,20}") {
        if let Ok(path) = sysctl::path(&key) {
            prop_assert!(path.starts_with("/proc/sys"));
            prop_assert!(path.components().all(|part| part != std::path::Component::ParentDir));
        }
    }
}

#[test]
fn missing_host_features_and_invalid_requests_have_different_errors() {
    let name = || "wlan".to_owned();
    let missing = TunError::Missing { name: name(), errno: Errno::NOENT };
    let forbidden = TunError::NotPermitted { name: name(), errno: Errno::ACCESS };
    let taken = TunError::Refused { name: name(), step: "set the name", errno: Errno::BUSY };
    assert!(missing.is_host_unable() && missing.to_string().contains("modprobe tun"));
    assert!(forbidden.is_host_unable() && forbidden.to_string().contains("chmod 666 /dev/net/tun"));
    assert!(!taken.is_host_unable() && taken.to_string().contains("exists already"));
}
