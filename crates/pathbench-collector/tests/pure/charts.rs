//! Every chart: from no result, from few, and from many.

use crate::support::memory::{MemoryDatabase, new_result};
use crate::support::synthetic::Campaign;
use pathbench_api::consent::Consent;
use pathbench_api::name::Name;
use pathbench_api::summary::{FamilyPair, GroupSummary, HandoverSummary, Mode, Summary};
use pathbench_collector::chart::table::{csv_text, grouped};
use pathbench_collector::chart::{Cell, Chart, Scene, all};
use pathbench_collector::columns::{Columns, Filter};
use pathbench_collector::facts::{Source, encode};
use pathbench_collector::store::{Database, ResultChange};
use pathbench_collector::viewer::Viewer;
use pathbench_record::document::HandoverReason;
use pathbench_record::transport::Transport;

fn columns(campaign: Campaign, results: u64) -> Columns {
    let database = MemoryDatabase::default();
    let all: Vec<_> = (0..results).map(|index| new_result(&campaign.checked(index), None)).collect();
    database.insert(&all).unwrap();
    let mut columns = Columns::default();
    columns.apply(&database.changes_after(0, usize::MAX).unwrap());
    columns
}

fn chart(columns: &Columns, filter: &Filter, name: &str) -> Chart {
    Scene::new(columns, filter).chart(name).unwrap()
}

#[test]
fn a_chart_without_results_says_so() {
    let columns = Columns::default();
    for (name, title) in all() {
        let chart = chart(&columns, &Filter::new(Viewer::Operator), name);
        assert_eq!((chart.n, chart.title()), (0, title));
        assert!(chart.svg().to_string().contains("No results with this figure"), "{name}");
        assert!(chart.csv().lines().count() >= 1 && chart.json()["n"] == 0, "{name}");
    }
}

#[test]
fn every_chart_of_a_campaign_has_values_a_table_and_its_number_of_results() {
    let columns = columns(Campaign::default(), 1500);
    for (name, _) in all() {
        let chart = chart(&columns, &Filter::new(Viewer::Everybody), name);
        assert!(chart.n > 0, "{name}");
        assert!(!chart.table.rows.is_empty() && chart.caption().contains("n = "), "{name}");
        assert!(chart.csv().lines().count() > 1, "{name}");
        let rows = &chart.table.rows;
        assert!(rows.iter().all(|row| row.len() == chart.table.columns.len()), "{name}: {rows:?}");
        let svg = chart.svg().to_string();
        assert!(!svg.contains("NaN") && svg.len() < 300_000, "{name}: {} bytes", svg.len());
    }
}

#[test]
fn figures_of_the_paper_have_their_number() {
    let columns = columns(Campaign::default(), 300);
    for (name, number) in [
        ("ipv4-ipv6-completion", "Figure 4 "),
        ("second-path-reasons", "Table I "),
        ("handover-duration", "Figure 6 "),
        ("mobile-max-delay", "Figure 7 "),
        ("max-delay-ratio", "Figure 8a "),
        ("max-delay-scatter", "Figure 8b "),
    ] {
        let chart = chart(&columns, &Filter::new(Viewer::Everybody), name);
        assert!(chart.caption().contains(&format!("{number}of the MultipathTester paper")), "{name}");
    }
}

/// Results of one agent with the given change of their summary.
fn of_one(results: u64, change: impl Fn(u64, &mut Summary)) -> Columns {
    let mut columns = Columns::default();
    let changes = (1..=results).map(|sequence| {
        let mut checked = Campaign::default().checked(sequence);
        change(sequence, &mut checked.submission.summary);
        let one = new_result(&checked, None);
        let agent = pathbench_api::Uuid::from_u128(7);
        ResultChange::Added {
            sequence,
            id: one.id,
            agent,
            consent: Consent::Public,
            received_ms: 0,
            facts: one.facts,
        }
    });
    columns.apply(&changes.collect::<Vec<_>>());
    columns
}

#[test]
fn table_i_and_figure_6_count_what_the_paper_counts() {
    let reasons = [
        HandoverReason::RttThreshold,
        HandoverReason::UnderRto,
        HandoverReason::UnderRto,
        HandoverReason::Other,
    ];
    let columns = of_one(4, |index, summary| {
        let duration = [-500.0, 2000.0, 12_000.0, 15_000.0][index as usize - 1];
        summary.mode = Mode::Mobile;
        summary.handovers = vec![HandoverSummary {
            transport: Transport::Mptcp,
            reason: reasons[index as usize - 1],
            duration_sent_ms: Some(duration),
            duration_received_ms: None,
        }];
    });
    let filter = Filter::new(Viewer::Everybody);
    let table = chart(&columns, &filter, "second-path-reasons").table;
    assert_eq!(table.columns[1], ("handovers".to_owned(), "Handovers".to_owned()));
    let counts: Vec<&Cell> = table.rows.iter().map(|row| &row[1]).collect();
    assert_eq!(counts, [&Cell::Count(1), &Cell::Count(2), &Cell::Count(0), &Cell::Count(1)]);
    assert_eq!(table.rows[1][2], Cell::Quantity(0.5, "50.0 %".to_owned()));
    let durations = chart(&columns, &filter, "handover-duration");
    assert_eq!(durations.n, 4);
    // A quarter is abrupt; half of all last at least 10 s.
    let csv = durations.csv();
    let parts: Vec<&str> = csv.lines().skip(1).map(|line| line.rsplit(',').next().unwrap()).collect();
    assert_eq!(parts, ["0.25", "0.5", "0.75", "1"]);
    assert!(
        csv.lines().nth(1).unwrap().contains(",-5") || csv.lines().nth(1).unwrap().contains(",-49"),
        "{csv}"
    );
}

#[test]
fn figures_of_mobile_runs_have_no_value_of_other_results() {
    let names = [
        "second-path-reasons",
        "handover-duration",
        "mobile-max-delay",
        "max-delay-ratio",
        "max-delay-scatter",
    ];
    let moving = Campaign::default();
    let moving = (0..1000).map(|index| moving.checked(index).submission.summary);
    let moving =
        moving.into_iter().find(|one| !one.handovers.is_empty() && !one.delay_pairs.is_empty()).unwrap();
    for (mode, has_values) in
        [(Mode::Mobile, true), (Mode::Stable, false), (Mode::Lab, false), (Mode::Other, false)]
    {
        let columns = of_one(3, |_, summary| *summary = Summary { mode, ..moving.clone() });
        for name in names {
            let chart = chart(&columns, &Filter::new(Viewer::Everybody), name);
            assert_eq!(chart.n > 0, has_values, "{name}, {mode:?}");
        }
    }
}

#[test]
fn download_goodput_has_no_uploads() {
    let columns = of_one(10, |_, summary| {
        summary.groups.iter_mut().for_each(|group| {
            group.pattern = Name::new("throughput").unwrap();
            group.figures = [(Name::new("goodput_mbps").unwrap(), 10.0)].into();
        });
    });
    let filter = Filter::new(Viewer::Everybody);
    assert_eq!(chart(&columns, &filter, "goodput-over-time").n, 0);
    assert!(chart(&columns, &filter, "goodput").n > 0);
}

#[test]
fn figure_4_divides_ipv4_by_ipv6() {
    let columns = of_one(1, |_, summary| {
        summary.family_pairs =
            vec![FamilyPair { transport: Transport::Quic, ipv4_ms: 3000.0, ipv6_ms: 1000.0 }];
    });
    let table = chart(&columns, &Filter::new(Viewer::Everybody), "ipv4-ipv6-completion").table;
    let Cell::Quantity(median, _) = table.rows[0][4] else { panic!("{table:?}") };
    assert!((median / 3.0 - 1.0).abs() < 0.02, "{median}");
}

#[test]
fn groups_of_fewer_than_three_agents_are_for_the_operator_only() {
    let columns = of_one(30, |_, summary| {
        summary.server = Some(Name::new("lonely.example").unwrap());
    });
    for name in ["gain-by-server", "gain-by-operator", "usage-by-server", "usage-by-operator"] {
        let public = chart(&columns, &Filter::new(Viewer::Everybody), name);
        assert_eq!(public.n, 0, "{name}");
        assert!(!public.svg().to_string().contains("lonely"), "{name}");
        assert!(chart(&columns, &Filter::new(Viewer::Operator), name).n > 0, "{name}");
    }
    let filter = Filter { server: Some("lonely.example".to_owned()), ..Filter::new(Viewer::Everybody) };
    let public = chart(&columns, &filter, "goodput");
    assert!(public.n == 0 && public.svg().to_string().contains("Fewer than 3 agents"));
    let operator = Filter { viewer: Viewer::Operator, ..filter };
    assert!(chart(&columns, &operator, "goodput").n > 0);
}

/// One client can invent agents, and one agent can move between networks: neither makes a group of three.
#[test]
fn a_group_is_shown_from_three_agents_and_three_sources_on() {
    let of = |agents: u64, sources: u64| {
        let change = |sequence: u64| {
            let mut checked = Campaign { public: 1.0, ..Campaign::default() }.checked(sequence);
            checked.submission.summary.server = Some(Name::new("nyc.example").unwrap());
            ResultChange::Added {
                sequence,
                id: checked.submission.id,
                agent: pathbench_api::Uuid::from_u128(u128::from(sequence % agents)),
                consent: Consent::Public,
                received_ms: 0,
                facts: encode(&checked, Source(sequence % sources)),
            }
        };
        let mut columns = Columns::default();
        columns.apply(&(1..=30).map(change).collect::<Vec<_>>());
        let everybody = || Filter::new(Viewer::Everybody);
        let filter = Filter { server: Some("nyc.example".to_owned()), ..everybody() };
        let is_named = chart(&columns, &filter, "goodput").n > 0;
        let is_group = chart(&columns, &everybody(), "usage-by-server").n > 0;
        assert_eq!(is_named, is_group);
        is_named
    };
    assert_eq!((of(2, 9), of(9, 2), of(9, 1), of(1, 9)), (false, false, false, false));
    assert!(of(3, 3) && of(9, 3));
}

#[test]
fn a_private_result_is_in_no_chart_of_everybody() {
    let columns = columns(Campaign { public: 0.0, ..Campaign::default() }, 200);
    for (name, _) in all() {
        assert_eq!(chart(&columns, &Filter::new(Viewer::Everybody), name).n, 0, "{name}");
        assert!(chart(&columns, &Filter::new(Viewer::Operator), name).n > 0, "{name}");
    }
}

#[test]
fn fields_of_csv_are_quoted_and_never_formulas() {
    assert_eq!(csv_text("a,b"), "\"a,b\"");
    assert_eq!(csv_text("a\"b"), "\"a\"\"b\"");
    assert_eq!(csv_text("=cmd|' /C calc'!A0"), "\"'=cmd|' /C calc'!A0\"");
    for formula in ["=1", "+1", "-1", "@a", "\t=1", " =1", "＝1"] {
        assert!(csv_text(formula).trim_start_matches('"').starts_with('\''), "{formula}");
    }
    assert_eq!(csv_text("a\r\nb"), "\"a  b\"".trim_matches('"'));
    assert_eq!(csv_text("europe.example"), "europe.example");
}

#[test]
fn large_counts_are_readable() {
    assert_eq!(grouped(1_234_567), "1\u{202f}234\u{202f}567");
    assert_eq!(grouped(12), "12");
}

#[test]
fn the_gain_by_direction_gives_each_agent_one_vote_and_counts_what_is_left_out() {
    let name = |text: &str| Name::new(text).unwrap();
    let group = |label: &str, mbps: f64, used: u32| GroupSummary {
        label: name(label),
        pattern: name("throughput-download"),
        variant: None,
        runs: 1,
        valid: 1,
        completed: 1,
        multipath_used: used,
        figures: [(name("goodput_mbps"), mbps)].into(),
        shares: match label.split_once('@') {
            Some((_, path)) => [(name(path), 1.0)].into(),
            None => [(name("lte"), 0.5), (name("wlan"), 0.5)].into(),
        },
    };
    // Agent 0 submits most results; two results of agent 6 do not count.
    let mut columns = Columns::default();
    let changes = (1..=12_u64).map(|sequence| {
        let mut checked = Campaign::default().checked(sequence);
        let agent = sequence.saturating_sub(6);
        let used = u32::from(sequence != 11);
        let gain = if agent == 0 { 1.9 } else { 1.0 + agent as f64 / 10.0 };
        let summary = &mut checked.submission.summary;
        summary.mode = Mode::Stable;
        summary.groups = vec![group("tcp@wlan", 10.0, 0), group("mptcp", 20.0 * gain, used)];
        if sequence != 12 {
            summary.groups.push(group("tcp@lte", 20.0, 0));
        }
        let one = new_result(&checked, None);
        ResultChange::Added {
            sequence,
            id: one.id,
            agent: pathbench_api::Uuid::from_u128(agent.min(6).into()),
            consent: Consent::Public,
            received_ms: 0,
            facts: one.facts,
        }
    });
    columns.apply(&changes.collect::<Vec<_>>());
    let found = chart(&columns, &Filter::new(Viewer::Everybody), "gain-by-direction");
    let [row] = found.table.rows.as_slice() else { panic!("{:?}", found.table.rows) };
    let number = |column: &str| {
        let index = found.table.columns.iter().position(|(one, _)| one == column).unwrap();
        match &row[index] {
            Cell::Count(count) => *count as f64,
            Cell::Quantity(value, _) => *value,
            other => panic!("{column}: {other:?}"),
        }
    };
    // Votes: 1.9, 1.1, 1.2, 1.3, 1.4; with one vote per result the median would be 1.9.
    assert_eq!(
        (number("agents"), number("used"), number("measured"), number("left_out")),
        (5.0, 11.0, 12.0, 2.0)
    );
    assert!((number("p50") - 1.3).abs() < 0.02, "{}", number("p50"));
    assert_eq!(row[4], Cell::Absent, "five votes have no interval");
}
