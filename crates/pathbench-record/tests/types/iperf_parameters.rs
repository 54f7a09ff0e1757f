use pathbench_record::pattern::*;

#[test]
fn defaults_are_valid_and_survive_json() {
    let parameters = IperfParameters { rate_bps: Some(10_000_000), ..IperfParameters::default() };
    assert_eq!(parameters.validate(), Ok(()));
    let json = serde_json::to_string(&parameters).unwrap();
    assert!(json.contains(r#""amount":{"duration_ns":10000000000}"#), "{json}");
    assert_eq!(serde_json::from_str::<IperfParameters>(&json).unwrap(), parameters);
}

#[test]
fn every_mistake_is_reported() {
    let parameters = IperfParameters {
        streams: 0,
        amount: Amount::Bytes(0),
        rate_bps: Some(1),
        block_bytes: 1,
        ..IperfParameters::default()
    };
    assert_eq!(parameters.validate().unwrap_err().len(), 4);
}

#[test]
fn parts_of_the_streams_add_up() {
    let parameters =
        IperfParameters { streams: 7, amount: Amount::Bytes(1_000_003), ..IperfParameters::default() };
    let total: u64 = (0..7)
        .map(|stream| match parameters.stream_amount(stream) {
            Amount::Bytes(bytes) => bytes,
            Amount::Duration(_) => 0,
        })
        .sum();
    assert_eq!(total, 1_000_003);
}
