//! Words and symbols of the summary and the figures.

use crate::synthetic;
use pathbench_record::datagram::{DatagramFigures, DatagramRecord};
use pathbench_record::delivery::{BIN, DeliveryLine};
use pathbench_record::direction::Direction;
use pathbench_record::document::{DirectionMtu, KernelPathState, MtuEvidence, MtuRecord, PathMtu, RunRecord};
use pathbench_record::end::MessageLine;
use pathbench_record::event::{Event, EventSource};
use pathbench_report::narrative::{self, Story};
use pathbench_report::terminal::{Style, mtu, summary};
use pathbench_report::{ResultSet, figures, html};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use unicode_width::UnicodeWidthStr;

fn plain(set: &ResultSet, width: usize) -> String {
    summary(set, Style { colour: false, width })
}

fn result_of(runs: impl IntoIterator<Item = RunRecord>) -> ResultSet {
    let mut set = synthetic::nothing("words", "");
    runs.into_iter().for_each(|run| synthetic::finish_run(&mut set, run));
    set
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// The summary's text for the traffic of a run.
fn traffic(pattern: &str, asked: &Value, variant: &Value) -> String {
    let mut run = synthetic::run("01", "tcp", 1);
    pattern.clone_into(&mut run.pattern);
    run.parameters.asked = object(asked);
    run.variant = object(variant).into_iter().collect();
    let text = plain(&result_of([run]), 600);
    text.lines().nth(1).and_then(|line| line.split(" · ").next()).unwrap().to_owned()
}

#[test]
fn requested_traffic_reads_as_a_sentence() {
    let usual = json!({ "direction": "upload", "duration_ms": 10000.0, "streams": 1, "omit_ms": 0.0,
        "patience_ms": 30000.0, "congestion": "cubic", "rate_bps": null });
    let unusual = json!({ "direction": "both", "bytes": 5_000_000, "streams": 4, "omit_ms": 500.0,
        "patience_ms": 3000.0, "rate_bps": 2_000_000, "new_key": true });
    let ping = json!({ "count": 5, "warm_up": 1, "interval_ms": 100.0, "request_bytes": 10, "response_bytes": 10,
        "timeout_ms": 3000.0 });
    let bulk = json!({ "bytes": 10_000_000, "streams": 4 });
    let interactive = json!({ "duration_ms": 10_000.0, "interval_ms": 100.0, "request_bytes": 2000,
        "response_bytes": 750, "linger_ms": 5000.0 });
    for (pattern, asked, variant, expected) in [
        ("throughput", &usual, json!({}), "upload for 10 s, cubic"),
        ("throughput", &usual, json!({ "run.throughput.congestion": "cubic" }), "upload for 10 s"),
        (
            "throughput",
            &unusual,
            json!({}),
            "upload and download at once of 5 MB per stream, 4 streams, the first 500 ms left out, gives up after 3 s without \
             progress, at most 2 Mbit/s per stream, new_key true",
        ),
        (
            "ping",
            &ping,
            json!({}),
            "ping, 5 requests, 1 before them, one each 100 ms, requests of 10 B, responses of 10 B, timeout 3 s",
        ),
        ("bulk", &bulk, json!({}), "bulk of 10 MB, 4 streams"),
        (
            "interactive",
            &interactive,
            json!({}),
            "interactive for 10 s, one each 100 ms, requests of 2 kB, responses of 750 B, waits 5 s for the last acknowledgement",
        ),
    ] {
        assert_eq!(traffic(pattern, asked, &variant), expected);
    }
}

#[test]
fn patterns_of_the_suite_are_known_by_the_begin_of_their_name() {
    let patterns = ["ping", "bulk", "throughput-upload", "interactive", "of-tomorrow"];
    let set = result_of(
        patterns
            .map(|pattern| RunRecord { pattern: pattern.to_owned(), ..synthetic::run(pattern, "tcp", 1) }),
    );
    let page = html::report(&[set]);
    let titles = ["transport", "ping", "bulk", "of-tomorrow", "upload", "interactive, p95"];
    assert!(page.contains(&titles.map(|title| format!("<th scope=\"col\">{title}</th>")).concat()), "{page}");
    for meaning in [
        "ping: round-trip time of a small request.",
        "bulk: time to open a connection and fetch all bytes.",
        "throughput-upload: goodput.",
        "of-tomorrow: goodput.",
        "interactive: delay that 95 % of the messages do not exceed.",
    ] {
        assert!(page.contains(meaning), "{meaning}");
    }
}

#[test]
fn variants_are_ordered_by_numbers_then_words_and_their_keys_are_shortened() {
    let of = |probing: u32, icmp: &str| {
        let variant =
            json!({ "host.client.sysctl.net.ipv4.tcp_mtu_probing": probing, "path.wlan.icmp": icmp });
        let id = format!("{probing}-{icmp}");
        RunRecord { variant: object(&variant).into_iter().collect(), ..synthetic::run(&id, "tcp", 1) }
    };
    let set = result_of([of(10, "on"), of(2, "on"), of(2, "off"), of(2, "10/s")]);
    let asides: Vec<String> = narrative::stories(&set).iter().map(Story::aside).collect();
    let expected = ["2, wlan.icmp=10/s", "2, wlan.icmp=off", "2, wlan.icmp=on", "10, wlan.icmp=on"];
    assert_eq!(asides, expected.map(|variant| format!(" (tcp_mtu_probing={variant})")));
    let one = |key: &str| {
        let variant = object(&json!({ key: 1 })).into_iter().collect();
        let set = result_of([RunRecord { variant, ..synthetic::run("r", "tcp", 1) }]);
        narrative::stories(&set)[0].aside()
    };
    assert_eq!(one("run.throughput.streams"), " (throughput.streams=1)");
    assert_eq!(one("seed"), " (seed=1)");
}

#[test]
fn file_names_are_safe_and_unique() {
    let scenarios = ["../../etc/passwd", "<script>", "µ", "tcp_mtu_probing=2, wlan.icmp=off"];
    let names = figures(&scenarios.map(|name| synthetic::nothing(name, "")));
    let names: Vec<&str> = names.iter().map(|figures| figures[0].name.as_str()).collect();
    assert_eq!(names[0], "1-etc-passwd-timeline");
    assert_eq!(names[1], "2-script-timeline");
    assert_eq!(names[2], "3-unnamed-timeline");
    assert_eq!(names[3], "4-tcp-mtu-probing-2-wlan-icmp-off-timeline");
    let variants = ["!", "?", "#", "%", "&", "*", "+", "=", "~", "^"];
    let runs = variants.map(|value| RunRecord {
        variant: [(value.to_owned(), Value::Null)].into(),
        ..synthetic::run(value, "tcp", 1)
    });
    let figures = figures(&[result_of(runs)]).concat();
    let mut names: Vec<&String> = figures.iter().map(|figure| &figure.name).collect();
    assert!(names[..3] == ["timeline-null", "timeline-null-2", "timeline-null-3"], "{names:?}");
    names.sort();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
}

#[test]
fn link_local_addresses_are_not_a_network_change() {
    let mut set = result_of([synthetic::run("r", "tcp", 1)]);
    let changed = |kind: &str, detail: &Value| Event {
        source: EventSource::Link,
        detail: object(detail),
        ..synthetic::event("r", 1.0, kind, "eth")
    };
    set.lines.held.events = vec![
        changed("address-added", &json!({ "address": "fe80::38d8:41ff:febd:6070/64" })),
        changed("address-added", &json!({ "address": "2001:db8::1/64" })),
        changed("down", &json!({})),
    ];
    let drawn = synthetic::drawn(&set, "timeline").unwrap();
    assert!(!drawn.contains("fe80::"), "{drawn}");
    assert!(drawn.contains("address=2001:db8::1/64 added"), "{drawn}");
    assert!(drawn.contains("eth down"), "{drawn}");
}

/// The output of `pathbench mtu` for one path.
fn examined(upload: DirectionMtu, kernel: KernelPathState) -> String {
    let path = PathMtu { upload, kernel: Some(kernel), ..synthetic::examination().paths[1].clone() };
    let record = MtuRecord { paths: vec![path], ..synthetic::examination() };
    mtu(&record, Style { colour: false, width: 600 })
}

#[test]
fn certainty_is_never_rounded_up() {
    let shown = |confidence: f64| {
        let upload = synthetic::examination().paths[1].upload.clone();
        let evidence = Some(MtuEvidence::DroppedSilently);
        let upload = DirectionMtu { confidence: Some(confidence), evidence, ..upload };
        let text = examined(upload, KernelPathState::default());
        let line = text.lines().find(|line| line.contains("confidence ")).unwrap().to_owned();
        line.split_once("(confidence ").unwrap().1.split_once([',', ')']).unwrap().0.to_owned()
    };
    assert_eq!(shown(0.999_6), "> 99.9 %");
    assert_eq!(shown(0.998_9), "99.8 %");
    assert_eq!(shown(0.5), "50.0 %");
    assert_eq!(shown(f64::NAN), "–");
}

#[test]
fn the_path_mtu_of_the_kernel_comes_from_cache_route_or_interface() {
    let shown = |kernel: &KernelPathState| {
        let text = examined(DirectionMtu::default(), kernel.clone());
        let mut words = text.split_whitespace().skip_while(|word| *word != "kernel").skip(1);
        words.next().unwrap().to_owned()
    };
    let kernel = KernelPathState { interface_mtu_bytes: 9000, ..KernelPathState::default() };
    assert_eq!(shown(&kernel), "9000");
    let of_route = KernelPathState { route_mtu_bytes: Some(4000), ..kernel };
    assert_eq!(shown(&of_route), "4000");
    let cached = KernelPathState { cached_mtu_bytes: Some(1500), ..of_route };
    assert_eq!(shown(&cached), "1500");
    assert_eq!(shown(&KernelPathState { route_mtu_locked: true, ..cached }), "4000");
}

#[test]
fn long_text_wraps_under_its_beginning() {
    let text = plain(&synthetic::nothing("x", &"word ".repeat(40)), 80);
    assert!(text.lines().all(|line| line.width() <= 80));
    let lines: Vec<&str> = text.lines().take_while(|line| line.contains("word")).collect();
    assert!(lines.len() > 1 && lines.iter().skip(1).all(|line| line.starts_with("   word")), "{text}");
    assert_eq!(text.matches("word").count(), 40);
}

#[test]
fn escape_sequences_from_files_do_not_reach_the_terminal() {
    let set = synthetic::nothing("x", "a\u{1b}[2Jb\u{202e}c");
    assert!(summary(&set, Style { colour: true, width: 80 }).contains("a [2Jb c\n"));
}

#[test]
fn colours_only_when_asked_for() {
    let set = synthetic::nothing("x", "");
    assert!(!plain(&set, 80).contains('\u{1b}'));
    assert!(summary(&set, Style { colour: true, width: 80 }).contains("\u{1b}["));
}

#[test]
fn a_sparkline_has_a_level_for_every_eighth() {
    let mut set = result_of([synthetic::run("r", "tcp", 1)]);
    let bin_ms = BIN.as_millis() as f64;
    set.lines.held.deliveries = (1..=8_u32)
        .map(|level| DeliveryLine {
            run: "r".to_owned(),
            direction: Direction::Upload,
            t_ms: f64::from(level + 1) * 50.0 - bin_ms,
            bytes: u64::from(level) * 1000 - 5,
        })
        .collect();
    let text = plain(&set, 80);
    assert!(text.contains(" ·▁▂▃▄▅▆▇█\n"), "{text}");
    assert!(text.contains("full height 1.28 Mbit/s, one column 50.0 ms"), "{text}");
    set.lines.held.deliveries.clear();
    assert!(!plain(&set, 80).contains("Timeline"), "there is nothing to draw");
}

/// Regression: the axis of lost datagrams counted milliseconds.
#[test]
fn shares_are_drawn_in_percent() {
    let all = DatagramFigures { loss: Some(0.1), jitter_ms: Some(3.5), ..DatagramFigures::default() };
    let record = DatagramRecord { all, ..DatagramRecord::default() };
    let run = RunRecord {
        pattern: "datagrams".to_owned(),
        datagrams: BTreeMap::from([(Direction::Upload, record)]),
        ..synthetic::run("r", "udp", 1)
    };
    let drawn = synthetic::drawn(&result_of([run]), "comparison").unwrap();
    assert!(drawn.contains(">% · less is better<") && drawn.contains(">10<"), "{drawn}");
    assert!(drawn.contains(">ms · less is better<"), "{drawn}");
}

#[test]
fn delays_are_drawn_on_a_logarithmic_scale() {
    let row = |delays: &[f64], unacknowledged: bool| {
        let run = RunRecord { pattern: "interactive".to_owned(), ..synthetic::run("r", "tcp", 1) };
        let mut set = result_of([run]);
        let line = |(index, delay_ms): (u32, &f64)| MessageLine {
            run: "r".to_owned(),
            direction: Direction::Upload,
            probe: None,
            path: None,
            phase: None,
            sequence: index,
            due_ms: f64::from(index) * 100.0,
            sent_ms: None,
            acknowledged_ms: None,
            answered_ms: None,
            delay_ms: *delay_ms,
            unacknowledged: unacknowledged && index + 1 == delays.len() as u32,
        };
        set.lines.held.messages = (0..).zip(delays).map(line).collect();
        let text = plain(&set, 80);
        assert_eq!(text.contains("(log scale); ! never acknowledged"), unacknowledged, "{text}");
        let row = text.lines().find(|line| line.trim_start().starts_with("upload ")).unwrap();
        row.trim_start().trim_start_matches("upload").trim_start().to_owned()
    };
    assert_eq!(row(&[10.0, 100.0, 999.0, f64::NAN, 1000.0], false), "▁▅ █  █");
    assert_eq!(row(&[10.0, 5000.0], true), "▁!");
    assert_eq!(row(&[10.0, 10.0], false), "▁▁");
}

#[test]
fn sizes_are_ranked_by_their_bytes() {
    let mut set = synthetic::shrink();
    for sizes in set.document.runs[0].links.iter_mut().filter_map(|link| link.packet_sizes.as_mut()) {
        sizes.forward = BTreeMap::from([(52, 1000), (1500, 100), (9000, 1)]);
    }
    let page = html::report(&[set]);
    let sums = "<td class=\"n\">1101</td><td class=\"n\">211 kB</td>";
    assert!(page.contains(&format!("{sums}<td>1500: 71 % (100), 52: 25 % (1000), 9000: 4.3 % (1)</td>")));
}

#[test]
fn text_is_escaped_without_control_characters() {
    let set = synthetic::nothing("a\"b<script>alert('1')</script>\u{1b}[0m", "c&d");
    let text = synthetic::drawn(&set, "timeline").unwrap();
    assert!(text.contains("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; [0m"));
    assert!(text.contains("aria-label=\"a&quot;b"));
    assert!(text.contains(">c&amp;d<"));
    assert!(!text.contains("<script>"));
}

type Colour = [f64; 3];

/// Luma of ITU-R BT.601: the brightness of a colour in a grey print.
fn luma([r, g, b]: Colour) -> f64 {
    0.299 * r + 0.587 * g + 0.114 * b
}

/// A colour as seen by a dichromat, by the matrices of Viénot, Brettel and Mollon (1999) without gamma.
fn seen_without([r, g, b]: Colour, red: bool) -> Colour {
    let mixed = if red { 0.112 * r + 0.888 * g } else { 0.293 * r + 0.707 * g };
    let blue = if red { 0.004 * r - 0.004 * g + b } else { -0.022 * r + 0.022 * g + b };
    [mixed, mixed, blue]
}

/// The line colour of a transport.
fn line_colour(svg: &str, transport: &str) -> Colour {
    let line =
        svg.lines().find(|line| line.ends_with(&format!("<title>{transport}</title></polyline>"))).unwrap();
    let (_, colour) = line.split_once(" stroke=\"#").unwrap();
    [0, 2, 4].map(|at| f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()))
}

#[test]
fn transports_stay_apart_in_grey_and_for_the_colour_blind() {
    let svg = synthetic::drawn(&synthetic::suite(), "distribution-interactive").unwrap();
    let all = ["tcp", "mptcp", "quic", "mpquic"].map(|transport| line_colour(&svg, transport));
    for (index, one) in all.iter().enumerate() {
        for other in &all[..index] {
            assert!((luma(*one) - luma(*other)).abs() > 30.0, "{one:?} and {other:?} in grey");
            for red in [true, false] {
                let (a, b) = (seen_without(*one, red), seen_without(*other, red));
                let distance = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                assert!(distance > 40.0, "{one:?} and {other:?}: {distance}");
            }
        }
    }
}
