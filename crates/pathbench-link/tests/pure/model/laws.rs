//! Laws that hold for every link and every packet.

use crate::model::bench::at;
use pathbench_link::packet::{Ecn, Fate, Outcome, PacketFlow, PipePacket};
use pathbench_link::pipe::Pipe;
use pathbench_link::pipe::PipeCondition;
use pathbench_link::{
    ArqModel, BaseDelay, Discipline, GilbertElliott, JitterDistribution, LinkChange, LinkModel, LossModel,
    PolicerModel, QueueIsolation, RateModel,
};
use pathbench_link::{OpportunitySchedule, RateSchedule, ScheduleEnd, Train, TrainSchedule};
use pathbench_record::time::Timestamp;
use pathbench_record::units::QueueLimit;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// An operation on a pipe.
#[derive(Debug, Clone)]
enum Act {
    Offer { ip_bytes: u32, segments: u32, ect: bool },
    Change(Box<LinkChange>),
    Condition(PipeCondition),
}

fn microseconds(most: u64) -> impl Strategy<Value = Duration> {
    (0..=most).prop_map(Duration::from_micros)
}

fn rates() -> impl Strategy<Value = RateModel> {
    let steps = prop::collection::vec((1..20_000_u64, 0..50_000_000_u64), 1..5).prop_map(|gaps| {
        let mut steps = vec![(Duration::ZERO, 5_000_000)];
        let mut time = Duration::ZERO;
        for (gap_us, rate_bps) in gaps {
            time += Duration::from_micros(gap_us);
            steps.push((time, rate_bps));
        }
        RateModel::Steps(Arc::new(RateSchedule {
            steps,
            end: ScheduleEnd::Repeat(time + Duration::from_millis(5)),
        }))
    });
    let opportunities = prop::collection::vec(0..50_u64, 1..30).prop_map(|mut at_ms| {
        at_ms.sort_unstable();
        at_ms.push(50);
        RateModel::Opportunities(Arc::new(OpportunitySchedule { at_ms }))
    });
    let trains = prop::collection::vec((1..30_u64, 0..20_u64, prop::collection::vec(0..10_u64, 1..8)), 1..5)
        .prop_map(|lines| {
            let mut time_ms = 0;
            let trains = lines.into_iter().map(|(gap_ms, delay_ms, mut gaps_ms)| {
                gaps_ms.sort_unstable();
                time_ms += gap_ms;
                Train {
                    at: Duration::from_millis(time_ms),
                    base_delay: Duration::from_millis(delay_ms),
                    opportunities: gaps_ms.into_iter().map(Duration::from_millis).collect(),
                }
            });
            RateModel::Trains(Arc::new(TrainSchedule { trains: trains.collect() }))
        });
    prop_oneof![
        Just(RateModel::Unlimited),
        (1_000_000..200_000_000_u64).prop_map(RateModel::Constant),
        steps,
        opportunities,
        trains
    ]
}

const TARGET: Duration = Duration::from_millis(1);
const INTERVAL: Duration = Duration::from_millis(5);

fn queues() -> impl Strategy<Value = (QueueLimit, Discipline, bool)> {
    let limit = prop_oneof![
        (0..30_u32).prop_map(QueueLimit::Packets),
        (0..50_000_u64).prop_map(QueueLimit::Bytes),
        Just(QueueLimit::Packets(1_000))
    ];
    let discipline = prop::sample::select(Discipline::NAMED.map(|(_, discipline)| discipline).to_vec());
    (limit, discipline, any::<bool>())
}

fn losses() -> impl Strategy<Value = LossModel> {
    let channel =
        (0.0..1.0, 0.0..1.0, 0.0..0.2, 0.0..=1.0).prop_map(|(to_bad, to_good, loss_good, loss_bad)| {
            LossModel::GilbertElliott(GilbertElliott { to_bad, to_good, loss_good, loss_bad })
        });
    prop_oneof![
        (0.0..0.5).prop_map(LossModel::Independent),
        Just(LossModel::Independent(0.0)),
        channel,
        Just(LossModel::Bursts {
            period: Duration::from_millis(7),
            length: Duration::from_millis(2),
            loss: 0.8
        })
    ]
}

/// Base delay, jitter, its distribution, and whether it reorders.
fn delays(reordering: bool) -> impl Strategy<Value = (BaseDelay, Duration, JitterDistribution, bool)> {
    let distribution = prop_oneof![
        Just(JitterDistribution::Uniform),
        Just(JitterDistribution::Normal),
        Just(JitterDistribution::Exponential),
        Just(JitterDistribution::Pareto { shape: 1.5 }),
        Just(JitterDistribution::NetemPareto)
    ];
    let jitter = prop_oneof![Just(Duration::ZERO), microseconds(3_000)];
    (microseconds(20_000), jitter, distribution, any::<bool>()).prop_map(
        move |(base, jitter, distribution, reorder)| {
            (BaseDelay::Constant(base), jitter, distribution, reorder && reordering)
        },
    )
}

fn policers() -> impl Strategy<Value = Option<PolicerModel>> {
    let policer = (100_000..50_000_000_u64, 1..20_000_u64)
        .prop_map(|(rate_bps, burst_bytes)| PolicerModel { rate_bps, burst_bytes });
    prop_oneof![2 => Just(None), 1 => policer.prop_map(Some)]
}

/// Correlation of losses and of jitter, and the share, correlation and gap of packets that skip the delay.
fn correlations(reordering: bool) -> impl Strategy<Value = (f64, f64, f64, f64, u32)> {
    (0.0..1.0, 0.0..1.0, 0.0..0.5, 0.0..1.0, 1..4_u32, any::<[bool; 3]>()).prop_map(
        move |(loss, jitter, share, correlation, gap, [some_loss, some_jitter, some_share])| {
            let share = if some_share && reordering { share } else { 0.0 };
            (
                if some_loss { loss } else { 0.0 },
                if some_jitter { jitter } else { 0.0 },
                share,
                correlation,
                gap,
            )
        },
    )
}

prop_compose! {
    fn models(reordering: bool)(
        policer in policers(),
        queue_isolation in prop::sample::select(QueueIsolation::NAMED.map(|(_, isolation)| isolation).to_vec()),
        burst_bytes in prop_oneof![Just(0), 1..20_000_u64],
        in_flight_limit in prop_oneof![2 => Just(0), 1 => 1..20_u32],
        (loss_correlation, jitter_correlation, reorder_share, reorder_correlation, reorder_gap) in correlations(reordering),
        mtu_bytes in prop_oneof![Just(65_535_u32), 1_000..2_000_u32],
        duplicate in 0.0..0.2,
        corrupt in 0.0..0.2,
        (queue, queue_discipline, ecn) in queues(),
        rate in rates(),
        arq in prop::option::of((0..4_u32, microseconds(300))),
        loss in losses(),
        (delay, jitter, jitter_distribution, reorder) in delays(reordering),
    ) -> LinkModel {
        let arq = arq.map(|(retries, pause)| ArqModel { retries, pause });
        let (queue_target, queue_interval) = (Some(TARGET), Some(INTERVAL));
        LinkModel {
            mtu_bytes, duplicate, corrupt, queue, queue_discipline, queue_target, queue_interval, ecn, rate, arq, loss, delay,
            jitter, jitter_distribution, reorder, policer, queue_isolation, burst_bytes, in_flight_limit, loss_correlation,
            jitter_correlation, reorder_share, reorder_correlation, reorder_gap, ..LinkModel::default()
        }
    }
}

fn acts(reordering: bool) -> impl Strategy<Value = Vec<(Duration, Act)>> {
    let offer = (40..1_600_u32, prop_oneof![9 => Just(1_u32), 1 => 2..5_u32], any::<bool>())
        .prop_map(|(bytes, segments, ect)| Act::Offer { ip_bytes: bytes * segments, segments, ect });
    let change = (
        prop::option::of(rates()),
        prop::option::of(queues()),
        prop::option::of(losses()),
        prop::option::of(delays(reordering)),
        prop::option::of(prop::option::of((0..4_u32, microseconds(300)))),
        prop::option::of((policers(), 0..20_000_u64, 0..20_u32)),
    )
        .prop_map(|(rate, queue, loss, delay, arq, limits)| {
            let arq = arq.map(|arq| arq.map(|(retries, pause)| ArqModel { retries, pause }));
            Act::Change(Box::new(LinkChange {
                rate,
                queue: queue.map(|(limit, ..)| limit),
                queue_discipline: queue.map(|(_, discipline, _)| discipline),
                ecn: queue.map(|(.., ecn)| ecn),
                loss,
                jitter: delay.as_ref().map(|(_, jitter, ..)| *jitter),
                jitter_distribution: delay.as_ref().map(|(.., distribution, _)| *distribution),
                reorder: delay.as_ref().map(|(.., reorder)| *reorder),
                delay: delay.map(|(base, ..)| base),
                arq,
                policer: limits.map(|(policer, ..)| policer),
                burst_bytes: limits.map(|(_, burst_bytes, _)| burst_bytes),
                in_flight_limit: limits.map(|(.., packets)| packets),
                ..LinkChange::default()
            }))
        });
    let condition =
        prop_oneof![1 => Just(PipeCondition::Outage), 1 => Just(PipeCondition::Blackhole), 3 => Just(PipeCondition::Carrying)].prop_map(Act::Condition);
    let act = prop_oneof![40 => offer, 1 => change, 1 => condition];
    let gap = prop_oneof![3 => Just(Duration::ZERO), 6 => microseconds(300), 1 => microseconds(30_000)];
    prop::collection::vec((gap, act), 1..250)
}

/// When a pipe is polled between acts.
#[derive(Debug, Clone, Copy)]
enum Polling {
    AtDeadlines,
    AtActs,
    Every(Duration),
    Never,
}

/// Does the acts and lets everything come out in the end, by when the pipe carries in any case.
fn play(
    model: &LinkModel,
    seed: u64,
    acts: &[(Duration, Act)],
    polling: Polling,
) -> (Pipe<u64>, Vec<Outcome<u64>>) {
    let mut pipe = Pipe::new(model.clone(), seed, Timestamp::default());
    let reorders = seed % 2 == 1;
    let mut outcomes = Vec::new();
    let mut drain = |pipe: &mut Pipe<u64>, now| {
        while let Some(outcome) = pipe.poll(now) {
            outcomes.push(outcome);
        }
    };
    let (mut now, mut payload) = (Timestamp::default(), 0);
    for (gap, act) in acts {
        let next = now + *gap;
        match polling {
            Polling::AtDeadlines => {
                while let Some(deadline) = pipe.next_deadline().filter(|deadline| *deadline < next) {
                    drain(&mut pipe, deadline);
                }
            }
            Polling::Every(step) => {
                while now + step < next {
                    now = now + step;
                    drain(&mut pipe, now);
                }
            }
            Polling::AtActs => drain(&mut pipe, next),
            Polling::Never => {}
        }
        now = next;
        match act {
            Act::Offer { ip_bytes, segments, ect } => {
                let ecn = if *ect { Ecn::Ect } else { Ecn::NotEct };
                // Several flows, and hosts with several of them, where a fair queue may reorder packets.
                let (source, flow) = if reorders { (payload as u32 % 2, payload as u32 % 5) } else { (0, 0) };
                let flow = PacketFlow { source, destination: 0, flow };
                pipe.offer(now, PipePacket { ip_bytes: *ip_bytes, segments: *segments, ecn, flow, payload });
                payload += 1;
            }
            Act::Change(change) => pipe.change(now, change),
            Act::Condition(condition) => pipe.set_condition(now, *condition),
        }
    }
    pipe.set_condition(now, PipeCondition::Carrying);
    pipe.change(now, &LinkChange { rate: Some(RateModel::Constant(1_000_000_000)), ..LinkChange::default() });
    while let Some(deadline) = pipe.next_deadline() {
        let late =
            if matches!(polling, Polling::Never) { Duration::from_secs(3_600) } else { Duration::ZERO };
        drain(&mut pipe, deadline + late);
    }
    (pipe, outcomes)
}

fn ended(outcome: &Outcome<u64>) -> Timestamp {
    match outcome.fate {
        Fate::Delivered(delivery) => delivery.due,
        Fate::Dropped { at, .. } => at,
    }
}

fn offers(acts: &[(Duration, Act)]) -> Vec<(u32, u32)> {
    let size = |(_, act): &(Duration, Act)| match act {
        Act::Offer { ip_bytes, segments, .. } => Some((*ip_bytes, *segments)),
        _ => None,
    };
    acts.iter().filter_map(size).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn packets_are_conserved_and_every_drop_has_a_cause(
        model in models(true), seed: u64, acts in acts(true)
    ) {
        let (pipe, outcomes) = play(&model, seed, &acts, Polling::AtDeadlines);
        let offers = offers(&acts);
        prop_assert_eq!(outcomes.len(), offers.len());
        let mut once = vec![false; offers.len()];
        let (mut packets, mut bytes) = ([0_u64; 2], [0_u64; 2]);
        let mut causes = BTreeMap::new();
        for outcome in &outcomes {
            prop_assert!(!std::mem::replace(&mut once[outcome.number as usize], true), "each ends once");
            prop_assert_eq!(outcome.packet.payload, outcome.number);
            let (ip_bytes, segments) = offers[outcome.number as usize];
            prop_assert_eq!((outcome.packet.ip_bytes, outcome.packet.segments), (ip_bytes, segments));
            let kind = usize::from(matches!(outcome.fate, Fate::Dropped { .. }));
            packets[kind] += u64::from(segments);
            bytes[kind] += u64::from(ip_bytes + segments * 14);
            if let Fate::Dropped { cause, .. } = outcome.fate {
                *causes.entry(cause).or_insert(0) += u64::from(segments);
            }
        }
        let statistics = pipe.statistics();
        prop_assert_eq!(statistics.offered_packets, packets[0] + packets[1]);
        prop_assert_eq!(statistics.offered_bytes, bytes[0] + bytes[1]);
        prop_assert_eq!((statistics.delivered_packets, statistics.delivered_bytes), (packets[0], bytes[0]));
        prop_assert_eq!(&statistics.dropped_packets, &causes);
        prop_assert_eq!((statistics.queue_packets, statistics.queue_bytes), (0, 0));
    }

    #[test]
    fn order_is_kept_where_no_reordering_is_asked(model in models(false), seed: u32, acts in acts(false)) {
        let seed = u64::from(seed) * 2; // a single flow
        let (pipe, outcomes) = play(&model, seed, &acts, Polling::AtDeadlines);
        let delivered = outcomes.iter().filter(|outcome| matches!(outcome.fate, Fate::Delivered(_)));
        prop_assert!(delivered.map(|outcome| outcome.number).is_sorted());
        prop_assert_eq!(pipe.statistics().reordered_packets, 0);
    }

    #[test]
    fn outcomes_do_not_depend_on_the_times_of_polls(model in models(true), seed: u64, acts in acts(true)) {
        let (_, often) = play(&model, seed, &acts, Polling::AtDeadlines);
        prop_assert!(often.is_sorted_by_key(ended), "in order of time");
        for polling in [Polling::AtActs, Polling::Every(Duration::from_micros(777)), Polling::Never] {
            let (_, outcomes) = play(&model, seed, &acts, polling);
            prop_assert_eq!(&outcomes, &often, "{:?}", polling);
        }
    }

    #[test]
    fn no_packet_is_faster_than_the_delay(
        base in microseconds(20_000), mut model in models(true), seed: u64, acts in acts(true)
    ) {
        (model.delay, model.jitter) = (BaseDelay::Constant(base), Duration::ZERO);
        model.reorder_share = 0.0;
        let acts: Vec<_> = acts.into_iter().filter(|(_, act)| !matches!(act, Act::Change(_))).collect();
        let (_, outcomes) = play(&model, seed, &acts, Polling::AtDeadlines);
        for outcome in outcomes {
            if let Fate::Delivered(delivery) = outcome.fate {
                prop_assert!(delivery.due >= outcome.offered_at + base);
            }
        }
    }

    #[test]
    fn losses_are_decided_by_the_number_alone(
        loss in losses(), seed: u64, gaps in prop::collection::vec((microseconds(2_000), microseconds(2_000)), 1..200)
    ) {
        prop_assume!(!matches!(loss, LossModel::Bursts { .. }));
        let queue = QueueLimit::Packets(1_000);
        let fates = |rate: RateModel, gap: fn(&(Duration, Duration)) -> Duration| {
            let model = LinkModel { loss: loss.clone(), duplicate: 0.3, rate, queue, ..LinkModel::default() };
            let acts: Vec<_> = gaps
                .iter()
                .map(|pair| (gap(pair), Act::Offer { ip_bytes: 100, segments: 1, ect: false }))
                .collect();
            let (_, mut outcomes) = play(&model, seed, &acts, Polling::AtActs);
            outcomes.sort_by_key(|outcome| outcome.number);
            outcomes
                .into_iter()
                .map(|outcome| match outcome.fate {
                    Fate::Delivered(delivery) => Some(delivery.twice),
                    Fate::Dropped { .. } => None,
                })
                .collect::<Vec<_>>()
        };
        prop_assert_eq!(
            fates(RateModel::Unlimited, |pair| pair.0),
            fates(RateModel::Constant(2_000_000), |pair| pair.1)
        );
    }

    /// Packets arrive at the far end within any window at no more than the rate, but for one packet.
    #[test]
    fn no_window_carries_more_than_the_rate(
        first in 1_000_000..100_000_000_u64,
        second in 1_000_000..100_000_000_u64,
        change_at in microseconds(50_000),
        by_steps: bool,
        offers in prop::collection::vec((microseconds(500), 40..1_600_u32), 1..300),
    ) {
        let steps = RateSchedule { steps: vec![(Duration::ZERO, first), (change_at, second)], end: ScheduleEnd::Hold };
        let rate = if by_steps { RateModel::Steps(Arc::new(steps)) } else { RateModel::Constant(first) };
        let mut pipe = Pipe::new(LinkModel { rate, ..LinkModel::default() }, 0, Timestamp::default());
        let mut now = Duration::ZERO;
        let mut changed = by_steps || change_at.is_zero();
        let change = LinkChange { rate: Some(RateModel::Constant(second)), ..LinkChange::default() };
        for (gap, ip_bytes) in offers {
            now += gap;
            if !changed && now >= change_at {
                pipe.change(at(change_at), &change);
                changed = true;
            }
            let flow = PacketFlow::default();
            pipe.offer(at(now), PipePacket { ip_bytes, segments: 1, ecn: Ecn::NotEct, flow, payload: () });
        }
        if !changed {
            pipe.change(at(change_at.max(now)), &change);
        }
        let change_at = if changed { change_at } else { change_at.max(now) };
        let mut arrivals = Vec::new();
        while let Some(deadline) = pipe.next_deadline() {
            while let Some(outcome) = pipe.poll(deadline) {
                if let Fate::Delivered(delivery) = outcome.fate {
                    let bits = f64::from(outcome.packet.ip_bytes + 14) * 8.0;
                    arrivals.push((delivery.due.as_nanos() as f64 / 1e9, bits));
                }
            }
        }
        let change_s = change_at.as_secs_f64();
        let capacity = |time: f64| {
            first as f64 * time.min(change_s) + second as f64 * (time - change_s).max(0.0)
        };
        for from in 0..arrivals.len() {
            let mut bits = 0.0;
            for (until, size) in &arrivals[from..] {
                bits += size;
                let most = capacity(*until) - capacity(arrivals[from].0) + arrivals[from].1;
                prop_assert!(bits <= most * (1.0 + 1e-9) + 0.5, "{bits} bits where {most} fit");
            }
        }
    }
}
