//! Flows of UDP datagrams over one path: a series far below its rate for loss and delay, and a flow above its rate, which
//! fills the line whatever its loss, for rate and queue.

use super::runner::TestRunner;
use crate::client::ServerTarget;
use pathbench_analysis::line::{FillEstimate, FlowDatagram, MeasuredValue, SeriesEstimate};
use pathbench_analysis::metrics::{DatagramLogs, datagram_fates};
use pathbench_record::datagram::{DatagramsParameters, MAX_DATAGRAMS, MAX_PACKET_BYTES};
use pathbench_record::direction::{DataDirection, Direction};
use pathbench_record::network::{AddressFamily, ETHERNET_HEADER_BYTES};
use pathbench_record::pattern::PatternParameters;
use pathbench_record::transport::Transport;
use std::time::Duration;

/// Time of the series.
pub(super) const SERIES: Duration = Duration::from_secs(6);
/// Payload of a datagram of the series.
const SERIES_BYTES: u32 = 64;
/// Datagrams of the series in a second: as many as full packets fit the line, because packets that keep their order wait
/// for each other's jitter; at slow lines up to 100, with at most a fifth of the rate.
const SERIES_PER_SECOND: f64 = 5_000.0;
const SLOW_PER_SECOND: f64 = 100.0;
const SERIES_PART: f64 = 0.2;
/// Time of a flow above the rate: a queue of 1.5 s fills, and a third of the time remains to judge it.
pub(super) const FILL: Duration = Duration::from_secs(3);
/// Time of the second flow, for deeper queues and rates that vary.
const LONG_FILL: Duration = Duration::from_secs(8);
const SHORTEST_FILL: Duration = Duration::from_millis(500);
/// Rate of the flow relative to that of the line, and of the next flow relative to one that was not above it.
const EXCESS: f64 = 2.5;
const STEP: f64 = 3.0;
const FILLS: u32 = 3;
/// Standard error of the rate from which on the second flow is needed.
const LARGEST_ERROR: f64 = 0.03;
/// Frames in a second from which on a frame has several packets.
const FRAMES_PER_SECOND: f64 = 1_000.0;
/// Wait for late datagrams behind the end of the flow, which the same queue delays.
const LINGER: Duration = Duration::from_millis(500);

/// One path for datagrams.
pub(super) struct FlowPath<'a> {
    pub(super) runner: TestRunner<'a>,
    /// The path, and the address that serves tcp and UDP.
    pub(super) target: ServerTarget,
    pub(super) mtu_bytes: u32,
}

impl FlowPath<'_> {
    fn frame_bytes(&self, payload_bytes: u32) -> u32 {
        let family = AddressFamily::from_address(self.target.address.ip());
        family.udp_packet_bytes(payload_bytes as usize) + ETHERNET_HEADER_BYTES
    }

    fn full_payload_bytes(&self) -> u32 {
        let family = AddressFamily::from_address(self.target.address.ip());
        let payload = u32::try_from(family.udp_payload_bytes(self.mtu_bytes)).unwrap_or(MAX_PACKET_BYTES);
        payload.clamp(SERIES_BYTES, MAX_PACKET_BYTES)
    }

    /// The series of one direction of a line with about `rate_bps`.
    pub(super) fn series(&self, direction: Direction, rate_bps: f64) -> MeasuredValue<SeriesEstimate> {
        let frame_bytes = self.frame_bytes(SERIES_BYTES);
        let full = rate_bps / 8.0 / f64::from(self.frame_bytes(self.full_payload_bytes()));
        let slow = (rate_bps * SERIES_PART / 8.0 / f64::from(frame_bytes)).min(SLOW_PER_SECOND);
        let parameters = DatagramsParameters {
            frames_per_second: full.max(slow).clamp(1.0, SERIES_PER_SECOND).round() as u32,
            frame_bytes: SERIES_BYTES,
            packet_bytes: SERIES_BYTES,
            duration: SERIES,
            ..DatagramsParameters::default()
        };
        let datagrams = self.run(direction, &parameters)?;
        SeriesEstimate::from_datagrams(&datagrams, frame_bytes)
            .ok_or_else(|| "too few UDP datagrams arrived".to_owned())
    }

    /// The flow above the rate of a line with about `rate_bps`, and with `series` without load.
    pub(super) fn fill(
        &self,
        direction: Direction,
        mut rate_bps: f64,
        series: &SeriesEstimate,
    ) -> MeasuredValue<FillEstimate> {
        let (loss, mut offered_bps) = (series.loss(), 0.0);
        for _ in 0..FILLS {
            let fill = self.flow_above(direction, rate_bps, series, FILL)?;
            if !fill.is_above(loss) {
                offered_bps = fill.offered_bps;
                rate_bps = rate_bps.max(fill.arrived_bps) * STEP;
                continue;
            }
            if fill.is_full && fill.error <= LARGEST_ERROR {
                return Ok(fill);
            }
            let longer = self.flow_above(direction, fill.arrived_bps, series, LONG_FILL);
            return Ok(longer.ok().filter(|longer| longer.is_above(loss)).unwrap_or(fill));
        }
        Err(format!("UDP datagrams at {:.1} Mbit/s did not fill it", offered_bps / 1e6))
    }

    fn flow_above(
        &self,
        direction: Direction,
        rate_bps: f64,
        series: &SeriesEstimate,
        duration: Duration,
    ) -> MeasuredValue<FillEstimate> {
        let packet_bytes = self.full_payload_bytes();
        let frame_bytes = self.frame_bytes(packet_bytes);
        let packets_per_second = (rate_bps * EXCESS / 8.0 / f64::from(frame_bytes)).max(2.0);
        let packets = (packets_per_second / FRAMES_PER_SECOND).ceil();
        let longest = Duration::from_secs_f64(MAX_DATAGRAMS as f64 * 0.9 / packets_per_second);
        let duration = duration.min(longest);
        if duration < SHORTEST_FILL {
            return Err("it is too fast to be filled by the datagrams of one test".to_owned());
        }
        let parameters = DatagramsParameters {
            frames_per_second: (packets_per_second / packets).ceil() as u32,
            frame_bytes: packets as u32 * packet_bytes,
            packet_bytes,
            duration,
            ..DatagramsParameters::default()
        };
        let datagrams = self.run(direction, &parameters)?;
        FillEstimate::from_datagrams(&datagrams, frame_bytes, series)
            .ok_or_else(|| "too few UDP datagrams arrived".to_owned())
    }

    fn run(
        &self,
        direction: Direction,
        parameters: &DatagramsParameters,
    ) -> MeasuredValue<Vec<FlowDatagram>> {
        let data = match direction {
            Direction::Upload => DataDirection::Upload,
            Direction::Download => DataDirection::Download,
        };
        let parameters = DatagramsParameters { direction: data, linger: LINGER, ..parameters.clone() };
        let pattern = PatternParameters::Datagrams(parameters.clone());
        let outcome = self.runner.run(Transport::Udp, &self.target, &pattern, None)?;
        if let Some(error) = &outcome.error {
            return Err(error.to_string());
        }
        let client = outcome.client.datagrams.unwrap_or_default();
        let server = outcome.server.and_then(|server| server.datagrams).unwrap_or_default();
        let (sender, receiver) = match direction {
            Direction::Upload => (client, server),
            Direction::Download => (server, client),
        };
        if receiver.omitted > 0 {
            return Err(format!("{} UDP datagrams were beyond a rate limit of the server", receiver.omitted));
        }
        let logs = DatagramLogs {
            parameters: &parameters,
            sent: &sender.sent,
            received: &receiver.received,
            has_delays: false,
            is_flow_per_path: true,
        };
        let fates = datagram_fates(&logs);
        let ms = |nanos: u64| nanos as f64 / 1e6;
        Ok(fates
            .iter()
            .map(|fate| FlowDatagram {
                sent_ms: ms(fate.sent.as_nanos()),
                received_ms: fate.received.map(|received| ms(received.as_nanos())),
            })
            .collect())
    }
}
