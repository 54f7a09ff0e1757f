//! `run.pattern`, and the table of each pattern.

use super::{LONGEST_RUN, congestion, patience};
use crate::scenario::keys;
use crate::scenario::mistake::MistakeKind;
use crate::scenario::plan::{IperfPlan, PatternPlan, SocketPlan};
use crate::scenario::section::Section;
use crate::scenario::suggestion::choices;
use crate::scenario::tree::{Origin, Value};
use pathbench_record::direction::DataDirection;
use pathbench_record::pattern::{
    BulkParameters, InteractiveParameters, MAX_MESSAGE_BYTES, MAX_MESSAGES, MIN_MESSAGE_BYTES, PingParameters,
};
use std::time::Duration;

const DEFAULT_DURATION: Duration = Duration::from_secs(10);
/// The largest value of `SO_SNDBUF` that does not overflow when the kernel doubles it.
const LARGEST_BUFFER_BYTES: u64 = 1 << 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    Ping,
    Bulk,
    Iperf(Option<DataDirection>),
    Interactive,
    Suite,
}

const NAMES: [(&str, Name); 7] = [
    ("iperf", Name::Iperf(None)),
    ("ping", Name::Ping),
    ("bulk", Name::Bulk),
    ("interactive", Name::Interactive),
    ("suite", Name::Suite),
    ("iperf-upload", Name::Iperf(Some(DataDirection::Upload))),
    ("iperf-download", Name::Iperf(Some(DataDirection::Download))),
];

/// What `suite` stands for: `MultipathTester`'s test of a stable network.
const SUITE: [Name; 5] = [
    Name::Ping,
    Name::Bulk,
    Name::Iperf(Some(DataDirection::Upload)),
    Name::Iperf(Some(DataDirection::Download)),
    Name::Interactive,
];

/// The patterns in the order given; iperf when none is. All tables are checked, whether their pattern runs or not.
pub(super) fn read(run: &Section<'_>, socket: &SocketPlan) -> Vec<PatternPlan> {
    let names = names(run);
    let duration = duration(run, &names);
    let [ping, bulk, iperf, interactive] =
        ["ping", "bulk", "iperf", "interactive"].map(|key| run.section(key));
    ping.only("run.ping", &keys::PING);
    bulk.only("run.bulk", &keys::BULK);
    iperf.only("run.iperf", &keys::IPERF);
    interactive.only("run.interactive", &keys::INTERACTIVE);
    let (ping, bulk) = (read_ping(&ping), read_bulk(&bulk));
    let interactive = read_interactive(&interactive, duration, names.contains(&Name::Interactive));
    let iperf_plan = read_iperf(&iperf, duration, socket);
    check_omit(&iperf, &iperf_plan, &names);
    names
        .into_iter()
        .map(|name| match name {
            Name::Ping => PatternPlan::Ping(ping.clone()),
            Name::Bulk => PatternPlan::Bulk(bulk.clone()),
            Name::Interactive | Name::Suite => PatternPlan::Interactive(interactive.clone()),
            Name::Iperf(None) => PatternPlan::Iperf(iperf_plan.clone()),
            Name::Iperf(Some(direction)) => {
                PatternPlan::Iperf(IperfPlan { direction, named_by_direction: true, ..iperf_plan.clone() })
            }
        })
        .collect()
}

fn names(run: &Section<'_>) -> Vec<Name> {
    let Some(texts) = run.texts("pattern", "iperf") else { return vec![Name::Iperf(None)] };
    if matches!(run.get("pattern").map(|item| &item.value), Some(Value::List(items)) if items.is_empty()) {
        let remedy = "give some, as in [\"ping\", \"iperf\"]";
        run.wrong(MistakeKind::Value, "pattern", "names no pattern", remedy);
    }
    let mut names: Vec<Name> = Vec::new();
    for (text, origin) in texts {
        for name in meant(run, text, &origin) {
            if names.contains(&name) {
                let own = NAMES.iter().find(|(_, known)| *known == name).map_or(text, |(own, _)| *own);
                let problem = if own == text {
                    format!("`{text}` is there twice")
                } else {
                    format!("`{text}` holds `{own}`, which is there already")
                };
                let remedy = "remove one; run.repeat says how often each runs";
                run.ledger.add(MistakeKind::Duplicate, &origin, run.key("pattern"), problem, remedy);
            } else {
                names.push(name);
            }
        }
    }
    names
}

fn meant(run: &Section<'_>, text: &str, origin: &Origin) -> Vec<Name> {
    match NAMES.iter().find(|(name, _)| *name == text) {
        Some((_, Name::Suite)) => SUITE.into(),
        Some((_, name)) => vec![*name],
        None => {
            let problem = format!("`{text}` is not a pattern");
            let remedy = choices(text, &NAMES.map(|(name, _)| name));
            run.ledger.add(MistakeKind::Value, origin, run.key("pattern"), problem, remedy);
            Vec::new()
        }
    }
}

fn duration(run: &Section<'_>, names: &[Name]) -> Duration {
    let given = run.duration("duration", Duration::from_millis(100)..=LONGEST_RUN);
    let runs_by_time = names.contains(&Name::Interactive);
    let iperf = names.iter().any(|name| matches!(name, Name::Iperf(_)));
    if run.has("duration") && run.section("iperf").has("bytes") && iperf && !runs_by_time {
        let problem = "the run ends by time or by run.iperf.bytes, not both";
        run.wrong(MistakeKind::Conflict, "duration", problem, "remove one of the two");
    }
    given.unwrap_or(DEFAULT_DURATION)
}

fn message_bytes(section: &Section<'_>, key: &str, default: u32) -> u32 {
    let sizes = MIN_MESSAGE_BYTES as u64..=MAX_MESSAGE_BYTES as u64;
    section.bytes(key, sizes).map_or(default, |bytes| bytes as u32)
}

fn read_ping(ping: &Section<'_>) -> PingParameters {
    let default = PingParameters::default();
    let times = Duration::from_millis(1)..=Duration::from_secs(60);
    PingParameters {
        count: ping.integer("count", 1..=10_000).map_or(default.count, |count| count as u32),
        warm_up: ping.integer("warm_up", 0..=1_000).map_or(default.warm_up, |count| count as u32),
        interval: ping.duration("interval", times.clone()).unwrap_or(default.interval),
        request_bytes: message_bytes(ping, "request", default.request_bytes),
        response_bytes: message_bytes(ping, "response", default.response_bytes),
        timeout: ping.duration("timeout", times).unwrap_or(default.timeout),
    }
}

fn read_bulk(bulk: &Section<'_>) -> BulkParameters {
    let default = BulkParameters::default();
    let plan = BulkParameters {
        bytes: bulk.bytes("bytes", 0..=1 << 40).unwrap_or(default.bytes),
        upload_bytes: bulk.bytes("upload", 0..=1 << 40).unwrap_or(default.upload_bytes),
        streams: bulk.integer("streams", 1..=128).map_or(default.streams, |streams| streams as u32),
    };
    if plan.bytes == 0 && plan.upload_bytes == 0 {
        let remedy = "give the bytes to download (bytes), those to upload, or both";
        bulk.wrong(MistakeKind::Value, "bytes", "nothing goes either way", remedy);
    }
    plan
}

/// `runs`: only then does the interval have to go with the duration.
fn read_interactive(interactive: &Section<'_>, duration: Duration, runs: bool) -> InteractiveParameters {
    let default = InteractiveParameters::default();
    let intervals = Duration::from_millis(1)..=Duration::from_secs(60);
    let lingers = Duration::ZERO..=Duration::from_secs(300);
    let plan = InteractiveParameters {
        duration,
        interval: interactive.duration("interval", intervals).unwrap_or(default.interval),
        request_bytes: message_bytes(interactive, "request", default.request_bytes),
        response_bytes: message_bytes(interactive, "response", default.response_bytes),
        linger: interactive.duration("linger", lingers).unwrap_or(default.linger),
    };
    let requests = plan.messages();
    let wrong =
        |problem: String, remedy| interactive.wrong(MistakeKind::Conflict, "interval", problem, remedy);
    if runs && plan.interval > duration {
        let problem = "the run is over before the second request".to_owned();
        wrong(problem, "give less than run.duration");
    } else if runs && requests > MAX_MESSAGES {
        let problem =
            format!("{requests} requests each way are more than a run can record, which is {MAX_MESSAGES}");
        wrong(problem, "give a longer interval, or a shorter run.duration");
    }
    plan
}

fn read_iperf(iperf: &Section<'_>, duration: Duration, socket: &SocketPlan) -> IperfPlan {
    let directions = [
        ("upload", DataDirection::Upload),
        ("download", DataDirection::Download),
        ("both", DataDirection::Both),
    ];
    let buffers = 1_024..=LARGEST_BUFFER_BYTES;
    IperfPlan {
        direction: iperf.choice("direction", &directions).unwrap_or(DataDirection::Upload),
        named_by_direction: false,
        duration: (!iperf.has("bytes")).then_some(duration),
        streams: iperf.integer("streams", 1..=128).unwrap_or(1) as u32,
        bytes: iperf.bytes("bytes", 1..=1 << 50),
        rate_bps: iperf.rate_bps("rate"),
        omit: iperf.duration("omit", Duration::ZERO..=LONGEST_RUN).unwrap_or_default(),
        congestion: congestion(iperf).or_else(|| socket.congestion.clone()),
        send_buffer_bytes: iperf.bytes("send_buffer", buffers.clone()),
        receive_buffer_bytes: iperf.bytes("receive_buffer", buffers),
        block_bytes: iperf.bytes("block", 1..=16 << 20).map(|bytes| bytes as u32),
        patience: patience(iperf).unwrap_or(socket.patience),
    }
}

fn check_omit(iperf: &Section<'_>, plan: &IperfPlan, names: &[Name]) {
    let runs = names.iter().any(|name| matches!(name, Name::Iperf(_)));
    if runs && plan.duration.is_some_and(|duration| plan.omit >= duration) {
        let remedy = "give less than run.duration";
        iperf.wrong(MistakeKind::Conflict, "omit", "the warm-up takes all of the run", remedy);
    }
}
