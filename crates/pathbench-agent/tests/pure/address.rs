//! URLs of collectors.

use pathbench_agent::client::CollectorAddress;

#[test]
fn urls_are_normalised() {
    let url = |text: &str| text.parse::<CollectorAddress>().unwrap().url("/v1/results");
    assert_eq!(url("https://C.example/"), "https://c.example/v1/results");
    assert_eq!(url("http://127.0.0.1:8080"), "http://127.0.0.1:8080/v1/results");
    assert_eq!(url("https://c.example/pathbench/"), "https://c.example/pathbench/v1/results");
    assert_eq!(url("http://[::1]:80"), "http://[::1]:80/v1/results");
}

#[test]
fn other_texts_are_rejected() {
    for text in [
        "",
        "c.example",
        "ftp://c.example",
        "https://",
        "https://u:p@c.example",
        "https://c?x",
        "https://c#x",
    ] {
        assert!(text.parse::<CollectorAddress>().is_err(), "{text}");
    }
}

#[test]
fn clear_text_is_private_on_this_host_only() {
    let exposed = |text: &str| text.parse::<CollectorAddress>().unwrap().is_exposed();
    assert!(exposed("http://c.example") && exposed("http://192.0.2.1"));
    assert!(!exposed("https://c.example") && !exposed("http://127.0.0.1:1") && !exposed("http://[::1]:1"));
}
