//! The columns in memory, compared with a naive model.

use crate::support::memory::new_result;
use crate::support::synthetic::{Campaign, FIRST_MS};
use pathbench_api::Uuid;
use pathbench_api::consent::Consent;
use pathbench_api::summary::{Mode, NetworkKind};
use pathbench_collector::columns::{Columns, Dimension, Filter, Period};
use pathbench_collector::facts::{Bucket, FactNames, Facts, KINDS, MEASURES, decode, figure_index};
use pathbench_collector::store::ResultChange;
use pathbench_collector::viewer::Viewer;
use pathbench_record::transport::Transport;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

struct Row {
    sequence: u64,
    id: Uuid,
    agent: Uuid,
    consent: Consent,
    facts: Facts,
}

#[derive(Default)]
struct Model {
    rows: Vec<Row>,
    sequence: u64,
    changes: Vec<ResultChange>,
    ids: BTreeSet<Uuid>,
}

impl Model {
    fn add(&mut self, index: u64) {
        let campaign = Campaign { agents: 6, days: 9, ..Campaign::default() };
        let one = new_result(&campaign.checked(index), None);
        // A deleted result leaves a tombstone: its id never comes back.
        if !self.ids.insert(one.id) {
            return;
        }
        self.sequence += 1;
        let facts = decode(&one.facts).unwrap();
        let (id, agent, consent) = (one.id, one.agent, one.consent);
        self.rows.push(Row { sequence: self.sequence, id, agent, consent, facts });
        let (sequence, received_ms) = (self.sequence, one.received_ms);
        self.changes.push(ResultChange::Added {
            sequence,
            id,
            agent,
            consent,
            received_ms,
            facts: one.facts,
        });
    }

    fn delete(&mut self, index: usize) {
        if !self.rows.is_empty() {
            self.sequence += 1;
            let row = self.rows.remove(index % self.rows.len());
            self.changes.push(ResultChange::Deleted { sequence: self.sequence, id: row.id });
        }
    }

    /// Whether the viewer may see a name that these results have.
    fn shows(&self, viewer: Viewer, has: impl Fn(&FactNames) -> bool) -> bool {
        let public = self.rows.iter().filter(|row| row.consent == Consent::Public && has(&row.facts.names));
        let people: BTreeSet<(Uuid, u64)> = public.map(|row| (row.agent, row.facts.source)).collect();
        viewer == Viewer::Operator || people.len() >= 3
    }

    fn shows_server(&self, viewer: Viewer, name: &str) -> bool {
        self.shows(viewer, |names| names.server == name)
    }

    fn shows_operator(&self, viewer: Viewer, name: &str) -> bool {
        self.shows(viewer, |names| names.operators.iter().any(|one| one == name))
    }

    fn passing(&self, filter: &Filter) -> Vec<&Row> {
        let viewer = filter.viewer;
        if filter.server.as_ref().is_some_and(|name| !self.shows_server(viewer, name))
            || filter.operator.as_ref().is_some_and(|name| !self.shows_operator(viewer, name))
        {
            return Vec::new();
        }
        // The names with the text that the viewer may see.
        let texts: BTreeSet<&String> = filter.text.as_ref().map_or_else(BTreeSet::new, |wanted| {
            let names = self.rows.iter().map(|row| &row.facts.names);
            let servers = names.clone().map(|one| &one.server).filter(|one| self.shows_server(viewer, one));
            let operators =
                names.flat_map(|one| &one.operators).filter(|one| self.shows_operator(viewer, one));
            let found = servers.chain(operators);
            found.filter(|name| name.to_lowercase().contains(&wanted.to_lowercase())).collect()
        });
        let has =
            |filter: &Option<String>, name: &String| filter.as_ref().is_none_or(|wanted| wanted == name);
        let passes = |row: &&Row| {
            let (facts, names) = (&row.facts, &row.facts.names);
            let at = (facts.started_ms / 1000) as u32;
            let transports = &filter.transports;
            let has_transport = |one: &Transport| {
                facts.transports & (1 << Transport::ALL.iter().position(|other| other == one).unwrap()) != 0
            };
            let kind = filter.kind.map(|kind| KINDS.iter().position(|one| *one == kind).unwrap());
            let all = [&names.experiment, &names.scenario, &names.kernel];
            let text = |wanted: &String| {
                all.into_iter().any(|name| name.to_lowercase().contains(&wanted.to_lowercase()))
                    || [&names.server].into_iter().chain(&names.operators).any(|name| texts.contains(name))
            };
            (filter.viewer == Viewer::Operator || row.consent == Consent::Public)
                && (transports.is_empty() || transports.iter().any(has_transport))
                && has(&filter.server, &names.server)
                && kind.is_none_or(|bit| facts.kinds & (1 << bit) != 0)
                && filter.operator.as_ref().is_none_or(|wanted| names.operators.contains(wanted))
                && has(&filter.experiment, &names.experiment)
                && has(&filter.scenario, &names.scenario)
                && filter.mode.is_none_or(|mode| mode == facts.mode)
                && (filter.viewer == Viewer::Everybody || filter.agent.is_none_or(|agent| agent == row.agent))
                && filter.since_s.is_none_or(|since| at >= since)
                && filter.until_s.is_none_or(|until| at <= until)
                && filter.text.as_ref().is_none_or(text)
        };
        self.rows.iter().filter(passes).collect()
    }
}

fn maybe<T: Clone + std::fmt::Debug + 'static>(values: Vec<T>) -> impl Strategy<Value = Option<T>> {
    prop_oneof![3 => Just(None), 1 => proptest::sample::select(values).prop_map(Some)]
}

fn texts(values: &[&str]) -> Vec<String> {
    values.iter().map(|text| (*text).to_owned()).collect()
}

fn filters() -> impl Strategy<Value = Filter> {
    let campaign = Campaign { agents: 6, days: 9, ..Campaign::default() };
    let agents: Vec<Uuid> = (0..20).map(|index| campaign.submission(index).agent).collect();
    let days: Vec<u32> = (0..10).map(|day| (FIRST_MS / 1000) as u32 + day * 86_400).collect();
    let names = (
        maybe(texts(&["europe.example", "asia.example", "nowhere"])),
        maybe(texts(&["Telia Lab", "O'Hara Wireless", "CityFibre"])),
        maybe(texts(&["hourly", "commute", "none"])),
        maybe(texts(&["roam", "test", "failover"])),
        maybe(texts(&["EUROPE", "lab", "6.1", "o'", "%", ""])),
    );
    let others = (
        proptest::sample::select(vec![Viewer::Everybody, Viewer::Operator]),
        proptest::sample::subsequence(Transport::ALL.to_vec(), 0..3),
        maybe(vec![NetworkKind::Wifi, NetworkKind::Emulated, NetworkKind::Ethernet]),
        maybe(vec![Mode::Stable, Mode::Mobile, Mode::Lab]),
        maybe(agents),
        maybe(days.clone()),
        maybe(days),
    );
    (names, others).prop_map(|(names, others)| {
        let (server, operator, experiment, scenario, text) = names;
        let (viewer, transports, kind, mode, agent, since_s, until_s) = others;
        Filter {
            viewer,
            transports,
            server,
            kind,
            operator,
            experiment,
            scenario,
            mode,
            agent,
            since_s,
            until_s,
            text,
        }
    })
}

fn quantile(values: &mut [f64], q: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let rank = ((values.len() as f64 * q).ceil() as usize).max(1);
    values.get(rank - 1).copied()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn columns_agree_with_a_naive_model(
        steps in proptest::collection::vec((0..400_u64, 0..5_u8), 1..220),
        filters in proptest::collection::vec(filters(), 1..6),
        measure in 0..MEASURES.len(),
        batch in 1..50_usize,
        limit in 1..20_usize,
    ) {
        let mut model = Model::default();
        for (value, kind) in steps {
            if kind == 0 { model.delete(value as usize) } else { model.add(value) }
        }
        let mut columns = Columns::default();
        for changes in model.changes.chunks(batch) {
            columns.apply(changes);
            // A repeated change has no effect.
            columns.apply(changes);
        }
        prop_assert_eq!(columns.results(), model.rows.len());
        prop_assert_eq!(columns.last_sequence(), model.sequence);
        for name in model.rows.iter().flat_map(|row| &row.facts.names.operators) {
            let is_shown = columns.shows(Viewer::Everybody, Dimension::Operator, name);
            prop_assert_eq!(is_shown, model.shows_operator(Viewer::Everybody, name), "{}", name);
        }
        for filter in &filters {
            let rows = model.passing(filter);
            let selection = columns.select(filter);
            prop_assert_eq!(selection.len(), rows.len(), "{:?}", filter);
            let agents: BTreeSet<Uuid> = rows.iter().map(|row| row.agent).collect();
            let networks: BTreeSet<u64> = rows.iter().flat_map(|row| row.facts.networks.clone()).collect();
            prop_assert_eq!(columns.distinct(&selection), (agents.len() as u64, networks.len() as u64));
            for transport in Transport::ALL {
                let values = rows.iter().map(|row| row.facts.figures[figure_index(measure, transport)]);
                let mut values: Vec<f64> = values.filter_map(Bucket::value).collect();
                let histogram = columns.histogram(&selection, columns.figure(measure, transport));
                prop_assert_eq!(histogram.total(), values.len() as u64);
                for q in [0.0, 0.1, 0.5, 0.9, 1.0] {
                    prop_assert_eq!(histogram.quantile(q), quantile(&mut values, q));
                }
            }
            let mut sent: Vec<f64> =
                rows.iter().flat_map(|row| &row.facts.handovers).filter_map(|one| one.sent.value()).collect();
            let mut histogram = pathbench_collector::columns::BucketHistogram::default();
            columns.handovers(&selection).for_each(|one| histogram.add(one.sent));
            prop_assert_eq!(histogram.quantile(0.05), quantile(&mut sent, 0.05));
            // Pages by cursor are all results, each once, from the newest.
            let (mut found, mut before) = (Vec::new(), None);
            loop {
                let page = columns.newest(&selection, before, limit);
                prop_assert!(page.len() <= limit);
                before = page.last().copied();
                if page.is_empty() { break }
                found.extend(page);
            }
            let expected: Vec<u64> = rows.iter().rev().map(|row| row.sequence).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn members_agree_with_a_naive_model(
        count in 1..150_u64, offset in 0..200_u64, filter in filters(), least in 0..4_u64,
    ) {
        let mut model = Model::default();
        (0..count).for_each(|index| model.add(offset + index));
        let mut columns = Columns::default();
        columns.apply(&model.changes);
        let (rows, selection) = (model.passing(&filter), columns.select(&filter));
        let members = columns.members(&selection, Dimension::Operator, (least, 50));
        let mut expected: BTreeMap<&str, (u64, BTreeSet<Uuid>)> = BTreeMap::new();
        for row in &rows {
            for operator in &row.facts.names.operators {
                let entry = expected.entry(operator.as_str()).or_default();
                entry.0 += 1;
                entry.1.insert(row.agent);
            }
        }
        expected.retain(|_, (_, agents)| agents.len() as u64 >= least);
        let found: BTreeMap<&str, (u64, u64)> =
            members.members.iter().map(|one| (one.name.as_str(), (one.results, one.agents))).collect();
        let expected: BTreeMap<&str, (u64, u64)> =
            expected.into_iter().map(|(name, (results, agents))| (name, (results, agents.len() as u64))).collect();
        prop_assert_eq!(&found, &expected);
        let mut counts = vec![0_u64; members.members.len()];
        columns.for_each_member(&selection, &members, |_, place| counts[place] += 1);
        let results: Vec<u64> = members.members.iter().map(|one| one.results).collect();
        prop_assert_eq!(counts, results);
        if let Some(span) = columns.span_s(&selection) {
            let period = Period::covering(span, 4);
            prop_assert!(period.count <= 4);
            let mut all = 0;
            columns.for_each_period(&selection, period, |_, _| all += 1);
            prop_assert_eq!(all, rows.len());
        }
    }
}

#[test]
fn names_beyond_the_bound_are_other() {
    let mut columns = Columns::default();
    let template = new_result(&Campaign::default().checked(1), None);
    let change = |index: u64| {
        let mut checked = Campaign::default().checked(1);
        checked.submission.summary.scenario =
            pathbench_api::name::Name::nearest(&format!("scenario {index}"));
        let facts = pathbench_collector::facts::encode(&checked, pathbench_collector::facts::Source(1));
        let (id, agent) = (Uuid::from_u128(u128::from(index)), template.agent);
        ResultChange::Added { sequence: index, id, agent, consent: Consent::Public, received_ms: 0, facts }
    };
    let changes: Vec<ResultChange> = (1..=4200).map(change).collect();
    columns.apply(&changes);
    let selection = columns.select(&Filter::new(Viewer::Everybody));
    let members = columns.members(&selection, Dimension::Scenario, (1, 1));
    assert_eq!((members.members[0].name.as_str(), members.members[0].results), ("other", 4200 - 4094));
}

#[test]
fn damaged_facts_are_counted_and_have_no_row() {
    let mut columns = Columns::default();
    let (id, agent) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let facts = vec![9, 9, 9];
    columns.apply(&[ResultChange::Added {
        sequence: 7,
        id,
        agent,
        consent: Consent::Public,
        received_ms: 0,
        facts,
    }]);
    assert_eq!((columns.len(), columns.unreadable(), columns.last_sequence()), (0, 1, 7));
}

#[test]
fn columns_within_their_memory_leave_out_the_oldest() {
    const MOST_BYTES: usize = 1 << 20;
    let mut columns = Columns::with_memory(MOST_BYTES);
    let results = 20_000;
    let campaign = Campaign { public: 1.0, ..Campaign::default() };
    // A few contents, so that the test takes no time to make them.
    let made: Vec<_> = (0..50).map(|index| new_result(&campaign.checked(index), None)).collect();
    let change = |sequence: u64| {
        let one = &made[sequence as usize % made.len()];
        ResultChange::Added {
            sequence,
            id: Uuid::from_u128(u128::from(sequence)),
            agent: one.agent,
            consent: Consent::Public,
            received_ms: 0,
            facts: one.facts.clone(),
        }
    };
    for first in (1..=results).step_by(500) {
        let changes: Vec<ResultChange> = (first..first + 500).map(change).collect();
        columns.apply(&changes);
        assert!(columns.bytes() <= MOST_BYTES + 4096, "{} bytes", columns.bytes());
    }
    assert!(columns.len() > 500, "{} rows", columns.len());
    assert_eq!(columns.left_out() + columns.results() as u64, results);
    let selection = columns.select(&Filter::new(Viewer::Everybody));
    let newest = columns.newest(&selection, None, usize::MAX);
    let expected: Vec<u64> = (results - newest.len() as u64 + 1..=results).rev().collect();
    assert_eq!(newest, expected);
    // The deletion of one that was left out changes nothing.
    columns.apply(&[ResultChange::Deleted { sequence: results + 1, id: Uuid::from_u128(1) }]);
    assert_eq!(columns.results(), newest.len());
}
