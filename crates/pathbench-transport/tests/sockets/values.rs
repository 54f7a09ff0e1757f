//! The text form of fingerprints, and panics as messages.

use pathbench_transport::{CertificateFingerprint, contain_panic};

#[test]
fn fingerprints_are_read_as_they_are_written() {
    let fingerprint = CertificateFingerprint(std::array::from_fn(|index| index as u8 * 7));
    assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
    let spread: Vec<String> = fingerprint.0.iter().map(|byte| format!("{byte:02X}")).collect();
    assert_eq!(spread.join(":").parse(), Ok(fingerprint));
    for wrong in ["", "00", "zz", &"0".repeat(63), &"0".repeat(66)] {
        assert!(wrong.parse::<CertificateFingerprint>().is_err(), "{wrong}");
    }
}

#[test]
fn a_panic_comes_back_as_its_message() {
    assert_eq!(contain_panic(|| 1), Ok(1));
    assert_eq!(contain_panic(|| -> u8 { panic!("plain") }), Err("plain".to_owned()));
    assert_eq!(contain_panic(|| -> u8 { panic!("number {}", 7) }), Err("number 7".to_owned()));
}
