use pathbench_record::network::*;
use proptest::prelude::*;
use std::net::IpAddr;

#[test]
fn text_forms() {
    let network: IpNetwork = "10.0.1.2/24".parse().unwrap();
    assert_eq!(network.network().to_string(), "10.0.1.0/24");
    assert_eq!("fd00::1".parse::<IpNetwork>().unwrap().to_string(), "fd00::1/128");
    assert_eq!("0.0.0.0/0".parse(), Ok(IpNetwork::DEFAULT_V4));
    for wrong in ["", "10.0.0.1/33", "10.0.0.1/", "10.0.0.1/+8", "10.0.0/8", "fd00::/129", "/8", "a/8"] {
        assert!(wrong.parse::<IpNetwork>().is_err(), "{wrong}");
    }
}

#[test]
fn serialises_as_text() {
    let network: IpNetwork = serde_json::from_str("\"10.0.1.0/24\"").unwrap();
    assert_eq!(serde_json::to_string(&network).unwrap(), "\"10.0.1.0/24\"");
    assert!(serde_json::from_str::<IpNetwork>("\"10.0.1.0/99\"").is_err());
}

proptest! {
    #[test]
    fn text_round_trip(address: IpAddr, prefix in 0u8..=128) {
        if let Ok(network) = IpNetwork::new(address, prefix) {
            prop_assert_eq!(network.to_string().parse(), Ok(network));
            prop_assert!(network.contains(address));
            prop_assert!(network.network().contains(address));
        }
    }

    #[test]
    fn any_text_is_accepted_or_refused(text: String) {
        let _: Result<IpNetwork, _> = text.parse();
    }
}
