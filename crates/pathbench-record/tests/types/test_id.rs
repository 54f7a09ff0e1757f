use pathbench_record::test_id::*;

#[test]
fn text_form_round_trips() {
    let id = TestId(*b"\x00\x01\x02\x03\xff\xfe\xfd\xfc\x10\x20\x30\x40\x50\x60\x70\x80");
    assert_eq!(id.to_string(), "00010203fffefdfc1020304050607080");
    assert_eq!(id.to_string().parse(), Ok(id));
    assert!("+0010203fffefdfc1020304050607080".parse::<TestId>().is_err());
    assert!("00".parse::<TestId>().is_err());
}
