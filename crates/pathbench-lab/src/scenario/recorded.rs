//! The text of a scenario with measured lines. Each value has a comment with its measurement; a value that was not
//! measured is absent, and a comment gives the reason.

use pathbench_analysis::line::{
    DirectionEstimate, LEAST_JITTER_MS, LineEstimate, LossBasis, LossEstimate, QueueBasis, QueueEstimate,
    RateBasis,
};
use pathbench_record::direction::Direction;
use pathbench_record::units::Span;
use std::fmt::Write as _;
use std::time::Duration;

/// Rates that a scenario takes.
const RATES_BPS: [u64; 2] = [8_000, 100_000_000_000];
/// MTUs that a scenario takes.
const MTUS_BYTES: [u32; 2] = [68, 65_535];
const LONGEST_NAME: usize = 15;

/// Lines that were measured together.
#[derive(Debug, Clone)]
pub struct RecordedLines {
    /// The command that measured: `test`, `roam`.
    pub command: &'static str,
    pub server: String,
    /// Time of the measurement, RFC 3339.
    pub measured: String,
    /// How the values were measured in general.
    pub method: String,
    pub lines: Vec<RecordedLine>,
    pub traffic: RecordedTraffic,
}

/// A line, as constants or with traces of its delay and loss.
#[derive(Debug, Clone)]
pub struct RecordedLine {
    pub estimate: LineEstimate,
    /// The keys `delay_trace` and `loss_trace` with their files.
    pub traces: Vec<(&'static str, String)>,
}

/// The traffic of the scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedTraffic {
    Throughput,
    /// For the duration of the traces.
    Interactive(Duration),
}

/// The text of the scenario.
pub fn recorded_scenario(recorded: &RecordedLines) -> String {
    let mut text = Text::default();
    let measured = single_line(&recorded.measured);
    let server = single_line(&recorded.server);
    text.line(&format!(
        "# Lines from this host to {server}, measured by `pathbench {} --record` at {measured}.",
        recorded.command
    ));
    for line in recorded.method.lines() {
        text.line(&format!("# {}", single_line(line)));
    }
    text.line("# A value that was not measured is absent, and its default holds.");
    text.line("");
    text.line("name = \"recorded\"");
    let description = format!("the lines to {server}, measured at {measured}");
    text.line(&format!("description = {}", quote(&description)));
    let names = names(&recorded.lines);
    for (line, name) in recorded.lines.iter().zip(&names) {
        text.path(name, line);
    }
    text.traffic(recorded.traffic, &names);
    text.0
}

fn single_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}

fn quote(text: &str) -> String {
    serde_json::Value::from(text.to_owned()).to_string()
}

/// Names of paths that a scenario takes: one for each line, all different.
fn names(lines: &[RecordedLine]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let legal = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
        let name: String = line.estimate.name.chars().map(legal).take(LONGEST_NAME).collect();
        let is_usable = name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && !["lo", "all", "default"].contains(&name.as_str())
            && !names.contains(&name);
        names.push(if is_usable { name } else { format!("path{index}") });
    }
    names
}

fn ms(value: f64) -> String {
    let micros = Duration::from_micros((value * 1e3).round().max(0.0) as u64);
    Span(micros).to_string()
}

/// Three or four significant digits.
fn mbps(bps: f64) -> String {
    let digits = if bps < 10e6 { 3 } else { 1 };
    format!("{:.digits$}", bps / 1e6)
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    /// A key with the measurement of its value.
    fn value(&mut self, key: &str, value: &str, measurement: &str) {
        self.comment(measurement);
        self.line(&format!("{key} = {value}"));
    }

    fn comment(&mut self, comment: &str) {
        self.line(&format!("# {}", single_line(comment)));
    }

    fn absent(&mut self, key: &str, reason: &str) {
        self.comment(&format!("{key}: not measured: {reason}"));
    }

    fn path(&mut self, name: &str, line: &RecordedLine) {
        let estimate = &line.estimate;
        self.line("\n[[path]]");
        self.line(&format!("name = {}", quote(name)));
        if estimate.is_backup {
            self.line("backup = true");
        }
        match &estimate.mtu_bytes {
            Ok(mtu_bytes) if (MTUS_BYTES[0]..=MTUS_BYTES[1]).contains(mtu_bytes) => {
                self.value(
                    "mtu",
                    &mtu_bytes.to_string(),
                    "mtu: largest packet that passed, the smaller of both directions",
                );
            }
            Ok(mtu_bytes) => self.absent("mtu", &format!("{mtu_bytes} bytes is no MTU of a scenario")),
            Err(reason) => self.absent("mtu", reason),
        }
        let has = |key: &str| line.traces.iter().any(|(known, _)| *known == key);
        for (key, file) in &line.traces {
            let measurement = match *key {
                "delay_trace" => {
                    "delay_trace: half of the round trip of each probe; a lost probe leaves the delay as it was"
                }
                _ => {
                    "loss_trace: lost probes in windows of at least 10; a loss p of round trips is 1 - sqrt(1 - p) in each direction"
                }
            };
            self.value(key, &quote(file), measurement);
        }
        if !has("delay_trace") {
            self.delay(estimate);
        }
        let unmeasured = match (&estimate.upload.loss, &estimate.download.loss) {
            (Err(reason), Err(_)) => Some(reason),
            _ => None,
        };
        if let Some(reason) = unmeasured.filter(|_| !has("loss_trace")) {
            self.comment(&format!("loss by direction: not measured: {reason}"));
            self.loss(estimate.loss(Direction::Upload));
        }
        for direction in Direction::BOTH {
            self.line(&format!("\n[path.{}]", direction.name()));
            self.direction(
                estimate.direction(direction),
                has("loss_trace") || unmeasured.is_some(),
                estimate.loss(direction),
            );
        }
    }

    fn delay(&mut self, estimate: &LineEstimate) {
        let (idle, delay_ms) = match (&estimate.idle, estimate.delay_ms()) {
            (Ok(idle), Some(delay_ms)) => (idle, delay_ms),
            (Err(reason), _) => return self.absent("delay, jitter and loss", reason),
            (Ok(_), None) => return,
        };
        let measurement = format!(
            "delay: half of the smallest round trip of {} UDP probes of the idle path, {:.2} ms, less {:.2} ms that a probe takes \
             at the rates below; both directions are taken as equal",
            idle.probes,
            idle.base_rtt_ms,
            estimate.transmission_ms()
        );
        self.value("delay", &quote(&ms(delay_ms)), &measurement);
        if idle.jitter_ms < LEAST_JITTER_MS {
            self.comment(&format!(
                "jitter: {:.2} ms in the mean of each direction, which hosts have themselves, so it is left out",
                idle.jitter_ms
            ));
            return;
        }
        let measurement = format!(
            "jitter: half of the mean round trip above the smallest one, {:.2} ms; the shape of its distribution is not measured",
            idle.jitter_ms * 2.0
        );
        self.value("jitter", &quote(&ms(idle.jitter_ms)), &measurement);
        self.line("jitter_distribution = \"exponential\"");
    }

    fn loss(&mut self, loss: Option<LossEstimate>) {
        let Some(loss) = loss else { return };
        let percent = |share: f64| format!("{:.2}", share * 100.0);
        let [low, high] = loss.interval.map(percent);
        let (basis, share) = match loss.basis {
            LossBasis::RoundTrips => (
                "round trips of the idle path were lost",
                "; each direction is taken as equal, by 1 - sqrt(1 - p)",
            ),
            LossBasis::Datagrams => ("datagrams of this direction were lost", ""),
        };
        let counts = format!("{} of {} {basis}{share}", loss.lost, loss.sent);
        if !loss.is_distinct() {
            return self.comment(&format!(
                "loss: not told from none: {counts}: at most {high} % in one direction (95 %), so it is left out"
            ));
        }
        let coarse = if loss.is_coarse() { "; too few for a good estimate" } else { "" };
        let measurement =
            format!("loss: {} % ({low} to {high} at 95 %): {counts}{coarse}", percent(loss.loss));
        self.value("loss", &quote(&format!("{:.3}%", loss.loss * 100.0)), &measurement);
    }

    fn direction(&mut self, direction: &DirectionEstimate, has_loss: bool, loss: Option<LossEstimate>) {
        self.rate(direction);
        self.queue(direction);
        if !has_loss {
            self.loss(loss);
        }
    }

    fn rate(&mut self, direction: &DirectionEstimate) {
        let rate = match &direction.rate {
            Ok(rate) => rate,
            Err(reason) => return self.absent("rate", reason),
        };
        let measurement = match rate.basis {
            RateBasis::Tcp { goodput_mbps, payload_bytes, probes_bps } => {
                let sender =
                    direction.congestion.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
                let limited = match &direction.queue {
                    Ok(queue) if !queue.is_filled() => "; the queue never filled, so the line may have more",
                    _ => "",
                };
                let probes = match probes_bps {
                    0 => String::new(),
                    bps => format!(", and {:.0} kbit/s of probes", bps as f64 / 1e3),
                };
                format!(
                    "rate: {goodput_mbps:.2} Mbit/s of TCP{sender} alone on this path, {payload_bytes} bytes in each frame of {}{probes}{limited}",
                    rate.frame_bytes
                )
            }
            RateBasis::Datagrams { fill, loss } => {
                let behind = match loss {
                    0.0 => String::new(),
                    loss => format!(
                        ", and {:.2} % of the rate were lost behind it, as without load",
                        loss * 100.0
                    ),
                };
                format!(
                    "rate: {} of {} Mbit/s of datagrams arrived in {:.1} s, in frames of {} bytes (standard error {:.1} %){behind}",
                    mbps(fill.arrived_bps),
                    mbps(fill.offered_bps),
                    fill.seconds,
                    rate.frame_bytes,
                    fill.error * 100.0
                )
            }
        };
        if !(RATES_BPS[0]..=RATES_BPS[1]).contains(&rate.rate_bps) {
            return self.absent("rate", &format!("{measurement} is no rate of a scenario"));
        }
        self.value("rate", &quote(&format!("{}kbit", (rate.rate_bps as f64 / 1e3).round())), &measurement);
    }

    fn queue(&mut self, direction: &DirectionEstimate) {
        let queue = match (&direction.queue, &direction.rate) {
            (Ok(queue), Ok(_)) => queue,
            (Err(reason), _) => return self.absent("queue", reason),
            (Ok(_), Err(_)) => return self.absent("queue", "without a rate there is none"),
        };
        if !queue.is_filled() {
            let load = match queue.basis {
                QueueBasis::Probes { .. } => "TCP added",
                QueueBasis::Datagrams { .. } => "datagrams above the rate added",
            };
            return self.comment(&format!(
                "queue: {load} {:.2} ms to the delay, so no queue filled, and the size is unknown",
                queue.queue_ms
            ));
        }
        let measurement = match queue.basis {
            QueueBasis::Probes { probes, loaded_rtt_ms } => {
                let bound = match &direction.congestion {
                    Some(name) if !direction.fills_queues() => {
                        format!("; {name} does not fill a queue, so it may be larger")
                    }
                    _ => String::new(),
                };
                format!(
                    "queue: {probes} UDP probes while TCP filled it: {loaded_rtt_ms:.1} ms at the {:.0}th percentile, {:.1} ms above the 90th of the idle path{bound}",
                    QueueEstimate::PERCENTILE * 100.0,
                    queue.queue_ms
                )
            }
            QueueBasis::Datagrams { judged, is_full } => {
                let bound = if is_full { "" } else { "; it dropped few of them, so it may be larger" };
                format!(
                    "queue: {:.1} ms at the rate, the median of {judged} datagrams above it: what arrived while each was later than the series for the loss{bound}",
                    queue.queue_ms
                )
            }
        };
        self.value("queue", &quote(&ms(queue.queue_ms)), &measurement);
    }

    fn traffic(&mut self, traffic: RecordedTraffic, names: &[String]) {
        self.line("\n[run]");
        let mut transports: Vec<String> = match (traffic, names) {
            (RecordedTraffic::Throughput, [_, _, ..]) => {
                names.iter().map(|name| format!("tcp@{name}")).collect()
            }
            _ => vec!["tcp".to_owned()],
        };
        transports.extend(["mptcp", "mpquic"].map(str::to_owned));
        let listed: Vec<String> = transports.iter().map(|name| quote(name)).collect();
        self.line(&format!("transports = [{}]", listed.join(", ")));
        match traffic {
            RecordedTraffic::Throughput => {
                self.line("pattern = \"throughput\"\nduration = \"10s\"\nrepeat = 3");
            }
            RecordedTraffic::Interactive(duration) => {
                let duration = Span(Duration::from_secs(duration.as_secs().max(1)));
                let _infallible =
                    writeln!(self.0, "pattern = \"interactive\"\nduration = \"{duration}\"\nrepeat = 3");
            }
        }
        self.line(
            "\n# Comparisons over these lines: remove the `#` in front of [matrix] and of one or both lines below it.\n\
             # [matrix]\n\
             # \"run.quic.scheduler\" = [\"lowest-rtt\", \"round-robin\", \"weighted\"]\n\
             # \"run.congestion\" = [\"cubic\", \"reno\"]      # of tcp and mptcp; bbr where the kernel has it",
        );
    }
}
