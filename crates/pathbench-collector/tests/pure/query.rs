//! Filters as query strings, in both directions.

use axum::extract::FromRequestParts as _;
use axum::http::Request;
use pathbench_collector::columns::Filter;
use pathbench_collector::reader::query::{Fields, date, encoded, of_filter};
use pathbench_collector::refusal::Refusal;
use pathbench_collector::viewer::Viewer;

async fn filter(query: &str) -> Result<Filter, Refusal> {
    let (mut parts, ()) = Request::get(format!("/?{query}")).body(()).unwrap().into_parts();
    Fields::from_request_parts(&mut parts, &()).await?.filter(Viewer::Everybody)
}

#[tokio::test]
async fn dates_are_read_and_written() {
    for (text, expected) in [("1970-01-01", 0), ("2026-10-01", 1_790_812_800), ("2000-02-29", 951_782_400)] {
        assert_eq!(filter(&format!("since={text}")).await.unwrap().since_s, Some(expected));
        assert_eq!(date(expected), text);
    }
    assert_eq!(filter("until=1790812800").await.unwrap().until_s, Some(1_790_812_800));
    assert_eq!(filter("since=").await.unwrap().since_s, None);
    for odd in [
        "2026",
        "2026-13-01",
        "2026-00-10",
        "x-y-z",
        "2026-10-01-1",
        "99999999999",
        "-1",
        "+1",
        "2026-2-3",
        "2026-02-29",
        "2100-01-01",
        "2026-10-01T00:00:00Z",
        "+026-01-01",
    ] {
        assert!(filter(&format!("since={}", encoded(odd))).await.is_err(), "{odd}");
    }
}

#[tokio::test]
async fn a_filter_survives_its_address() {
    let fields = [
        ("transport", "quic"),
        ("transport", "mptcp"),
        ("server", "a&b=c d"),
        ("network", "wifi"),
        ("operator", "O'Hara <b>"),
        ("mode", "mobile"),
        ("since", "2026-10-01"),
        ("until", "2026-10-03"),
        ("q", "ä%"),
    ];
    let fields = fields.map(|(name, value)| format!("{name}={}", encoded(value)));
    let known = filter(&fields.join("&")).await.unwrap();
    let expected = (Some("a&b=c d"), Some("O'Hara <b>"), Some("ä%"));
    assert_eq!((known.server.as_deref(), known.operator.as_deref(), known.text.as_deref()), expected);
    let query = of_filter(&known);
    assert!(!query.contains(['<', '\'', ' ']), "{query}");
    assert_eq!(filter(&query).await.unwrap(), known);
}
