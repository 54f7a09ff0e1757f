//! The rate of a bottleneck after which packets are lost, delayed and reordered, from a train of numbered packets.

const MIN_ARRIVALS: usize = 8;

/// Limit of kept arrivals; a train of usual length has fewer.
const MOST_ARRIVALS: usize = 65_536;

/// Numbers above this belong to no train.
const MOST_NUMBER: u64 = 1 << 24;

/// If times scatter less than this fraction of a packet's transmission time, a gap shows how many packets are missing.
const CLEAR: f64 = 0.2;

/// An arrival this many standard deviations off the line, and at least one packet's time, was not delayed by the link.
const BESIDE: f64 = 6.0;
/// Ratio of a normal distribution's standard deviation to its median absolute deviation.
const DEVIATION: f64 = 1.4826;

/// Standard errors within which an estimate agrees with another.
const AGREEMENT: f64 = 2.0;

/// Estimates the rate from the arrivals of a train of equal-sized packets, by least squares.
///
/// A missing packet was either dropped before the bottleneck by a full queue, and took no transmission time, or was
/// lost after it, and left a time gap. So the slope is first fitted within stretches without missing packets. If
/// arrivals are regular enough, each gap then shows how many packets it held, and the slope is fitted over all
/// arrivals. Otherwise two more slopes are fitted, counting all or none of the missing packets; the first that agrees
/// with the stretches' slope is used, else the stretches' slope.
///
/// Times scatter, bytes do not, so times are fitted over packets: jitter makes the result uncertain, not low. When the
/// sender was descheduled so long that the bottleneck's queue was empty, a new stretch begins; this follows from the
/// send times, which jitter does not affect. When the emulator or the receiver stalls for a moment, the packets of the
/// following burst lie off the line of the others and are left out.
#[derive(Debug, Clone)]
pub struct SequenceMeter {
    asked_bps: u64,
    head_start_ns: u64,
    wire_bytes: u64,
    arrivals: Vec<Arrival>,
}

#[derive(Debug, Clone, Copy)]
struct Arrival {
    first: u64,
    count: u64,
    at_ns: u64,
    sent_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Point {
    at_ns: f64,
    sent: f64,
    received: f64,
    count: f64,
    missing: f64,
    busy_period: u32,
    /// Incremented with `busy_period` and whenever packets are missing.
    stretch: u32,
    /// Delayed by the sending or receiving host, not by the link.
    held_up: bool,
}

#[derive(Debug, Clone, Copy)]
struct Fit {
    ns_per_packet: f64,
    error_ns: f64,
    scatter_ns: f64,
}

impl SequenceMeter {
    /// A meter without arrivals, for a bottleneck of about `asked_bps`. The sender fills its queue with `head_start_ns`
    /// of packets before the train.
    pub const fn new(asked_bps: u64, head_start_ns: u64) -> Self {
        let asked_bps = if asked_bps == 0 { 1 } else { asked_bps };
        Self { asked_bps, head_start_ns, wire_bytes: 0, arrivals: Vec::new() }
    }

    /// Packets `first .. first + count` of `wire_bytes` each, sent at `sent_ns` on the sender's clock, arrived at
    /// `at_ns` (on any steady clock).
    pub fn arrived(&mut self, first: u64, count: u64, wire_bytes: u64, sent_ns: u64, at_ns: u64) {
        if self.arrivals.len() < MOST_ARRIVALS && first < MOST_NUMBER && (1..MOST_NUMBER).contains(&count) {
            self.wire_bytes = wire_bytes;
            self.arrivals.push(Arrival { first, count, at_ns, sent_ns });
        }
    }

    pub const fn arrivals(&self) -> u64 {
        self.arrivals.len() as u64
    }

    /// Bits per second; `None` with too few arrivals.
    pub fn rate_bps(&self) -> Option<u64> {
        let mut points = self.points();
        if points.len() < MIN_ARRIVALS {
            return None;
        }
        let bits = self.wire_bytes as f64 * 8e9;
        let rate = |fit: Fit| {
            let bps = bits / fit.ns_per_packet;
            (bps.is_finite() && bps > 0.0).then_some(bps.round() as u64)
        };
        let lower = fit(&points, |point| point.received, |point| point.busy_period);
        if points.iter().all(|point| point.missing == 0.0) {
            return lower.and_then(rate);
        }
        let Some(within) = fit(&points, |point| point.sent, |point| point.stretch) else {
            return lower.and_then(rate);
        };
        if within.scatter_ns < within.ns_per_packet * CLEAR {
            fill_holes(&mut points, within.ns_per_packet);
            return fit(&points, |point| point.sent, |point| point.busy_period).and_then(rate);
        }
        let upper = fit(&points, |point| point.sent, |point| point.busy_period);
        let agrees =
            |fit: &Fit| (fit.ns_per_packet - within.ns_per_packet).abs() <= within.error_ns * AGREEMENT;
        // A slow train seldom fills the queue, so drops there are assumed last.
        [upper, lower].into_iter().flatten().find(agrees).or(Some(within)).and_then(rate)
    }

    fn points(&self) -> Vec<Point> {
        let mut arrivals = self.arrivals.clone();
        arrivals.sort_unstable_by_key(|arrival| (arrival.first, arrival.at_ns));
        let (Some(&first), Some(origin_ns)) =
            (arrivals.first(), arrivals.iter().map(|arrival| arrival.at_ns).min())
        else {
            return Vec::new();
        };
        let packet_ns = self.wire_bytes as f64 * 8e9 / self.asked_bps as f64;
        let since = |ns: u64| ns.saturating_sub(first.sent_ns) as f64;
        // Time until which the bottleneck has packets to send, computed from the send times.
        let mut busy_until = self.head_start_ns as f64;
        let (mut expected, mut received) = (first.first, 0.0);
        let (mut busy_period, mut stretch) = (0, 0);
        let mut points = Vec::with_capacity(arrivals.len());
        for arrival in arrivals {
            if arrival.first < expected {
                continue;
            }
            let (missing, count) = ((arrival.first - expected) as f64, arrival.count as f64);
            let sent_at = since(arrival.sent_ns);
            if sent_at > busy_until {
                busy_until = sent_at;
                busy_period += 1;
            }
            busy_until += (missing + count) * packet_ns;
            stretch += u32::from(missing > 0.0);
            expected = arrival.first + arrival.count;
            received += count;
            points.push(Point {
                at_ns: arrival.at_ns.saturating_sub(origin_ns) as f64,
                sent: (expected - first.first) as f64,
                received,
                count,
                missing,
                busy_period,
                stretch: stretch + busy_period,
                held_up: false,
            });
        }
        mark_held_up(&mut points);
        points
    }
}

/// Marks the arrivals off the line of most arrivals. The line's slope is the median of the slopes over half a busy
/// period, which a minority of the arrivals cannot change.
fn mark_held_up(points: &mut [Point]) {
    let periods = |left: &Point, right: &Point| left.busy_period == right.busy_period;
    let slopes = points.chunk_by(periods).flat_map(|period| {
        let half = (period.len() / 2).max(1);
        period
            .iter()
            .zip(&period[half..])
            .map(|(one, other)| (other.at_ns - one.at_ns) / (other.received - one.received))
    });
    let Some(slope) = median(slopes.collect()) else { return };
    for period in points.chunk_by_mut(periods) {
        let beside = |point: &Point| point.at_ns - slope * point.received;
        let Some(middle) = median(period.iter().map(beside).collect()) else { continue };
        let usual = median(period.iter().map(|point| (beside(point) - middle).abs()).collect());
        let limit = (usual.unwrap_or_default() * DEVIATION * BESIDE).max(slope);
        for point in period {
            point.held_up = (beside(point) - middle).abs() > limit;
        }
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Counts missing packets without a time gap as not sent.
fn fill_holes(points: &mut [Point], ns_per_packet: f64) {
    let (mut sent, mut before) = (0.0, None::<(f64, u32)>);
    for point in points {
        let lost = match before {
            Some((at_ns, busy_period)) if busy_period == point.busy_period => {
                let packets = ((point.at_ns - at_ns) / ns_per_packet).round();
                (packets - point.count).clamp(0.0, point.missing)
            }
            _ => 0.0,
        };
        sent += lost + point.count;
        point.sent = sent;
        before = Some((point.at_ns, point.busy_period));
    }
}

/// Least squares of time over `packets`, with an intercept for each group; `None` with too few points.
fn fit(points: &[Point], packets: impl Fn(&Point) -> f64, group: impl Fn(&Point) -> u32) -> Option<Fit> {
    let (mut both, mut square, mut time_square) = (0.0, 0.0, 0.0);
    let (mut used, mut groups) = (0.0, 0.0);
    for members in points.chunk_by(|left, right| group(left) == group(right)) {
        let members: Vec<&Point> = members.iter().filter(|point| !point.held_up).collect();
        if members.len() < 2 {
            continue;
        }
        let count = members.len() as f64;
        let mean_packets = members.iter().map(|point| packets(point)).sum::<f64>() / count;
        let mean_time = members.iter().map(|point| point.at_ns).sum::<f64>() / count;
        for point in members {
            let (x, y) = (packets(point) - mean_packets, point.at_ns - mean_time);
            both += x * y;
            square += x * x;
            time_square += y * y;
        }
        used += count;
        groups += 1.0;
    }
    let freedom = used - groups - 1.0;
    if square <= 0.0 || both <= 0.0 || freedom < (MIN_ARRIVALS / 2) as f64 {
        return None;
    }
    let residual = (time_square - both * both / square).max(0.0) / freedom;
    Some(Fit {
        ns_per_packet: both / square,
        error_ns: (residual / square).sqrt(),
        scatter_ns: residual.sqrt(),
    })
}
