//! Links beyond the kernel's engine: the meaning of their keys, their engine, and mistakes.

use pathbench_lab::scenario::{
    EventAction, FadePlan, LinkEngine, LinkPlan, Overrides, ScenarioSource, VariantPlan, plan,
};
use pathbench_link::fading::{Ramp, Walk};
use pathbench_link::{
    ArqModel, BaseDelay, Discipline, GilbertElliott, JitterDistribution, LinkModel, LossModel, RateModel,
};
use pathbench_record::direction::LinkDirection;
use pathbench_record::units::QueueLimit;
use std::time::Duration;

fn variant(text: &str) -> VariantPlan {
    let source = ScenarioSource::from_text("mine.toml", format!("name = \"mine\"\n{text}\n"));
    let plan =
        plan(&source, &Overrides::default()).unwrap_or_else(|mistakes| panic!("{mistakes}\nin\n{text}"));
    plan.variants.into_iter().next().expect("one variant")
}

fn link(keys: &str) -> LinkPlan {
    variant(&format!("[[path]]\nname = \"eth\"\n{keys}")).topology.links.remove(0)
}

fn model(keys: &str) -> LinkModel {
    link(keys).forward
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn every_key_reaches_the_model() {
    let rate = "rate = \"10mbit\"\n";
    assert_eq!(model(rate).rate, RateModel::Constant(10_000_000));
    let RateModel::Steps(steps) = model("rate_steps = [[\"0s\", \"40mbit\"], [\"10s\", \"0bit\"]]").rate
    else {
        panic!("steps were asked for");
    };
    assert_eq!(steps.steps, [(Duration::ZERO, 40_000_000), (10_000 * MS, 0)]);
    let varying =
        model("delay = \"20ms\"\njitter = \"5ms\"\njitter_distribution = \"normal\"\nreorder = true");
    assert_eq!(varying.delay, BaseDelay::Constant(20 * MS));
    let jitter = (varying.jitter_distribution, varying.jitter, varying.reorder);
    assert_eq!(jitter, (JitterDistribution::Normal, 5 * MS, true));
    assert_eq!(model("delay = \"20ms\"").jitter, Duration::ZERO);
    assert_eq!(model("loss = \"2%\"").loss, LossModel::Independent(0.02));
    let chain = GilbertElliott { to_bad: 0.01, to_good: 0.25, loss_good: 0.0, loss_bad: 1.0 };
    assert_eq!(
        model("burst_loss = { to_bad = \"1%\", to_good = \"25%\" }").loss,
        LossModel::GilbertElliott(chain)
    );
    assert_eq!(
        model("loss_bursts = { period = \"10s\", length = \"300ms\" }").loss,
        LossModel::Bursts { period: 10_000 * MS, length: 300 * MS, loss: 1.0 }
    );
    let odd = model("duplicate = \"0.1%\"\ncorrupt = \"0.01%\"");
    assert!((odd.duplicate - 0.001).abs() < 1e-12 && (odd.corrupt - 0.0001).abs() < 1e-12);
    let arq = model(&format!("{rate}loss = \"10%\"\narq = {{ retries = 3, pause = \"2ms\" }}")).arq;
    assert_eq!(arq, Some(ArqModel { retries: 3, pause: 2 * MS }));
    let narrow = link("mtu = 1400");
    assert_eq!([narrow.forward.mtu_bytes, narrow.reverse.mtu_bytes], [1400; 2]);
}

#[test]
fn queues_have_their_disciplines_and_limits() {
    let model = |keys: &str| model(&format!("rate = \"10mbit\"\n{keys}"));
    assert_eq!(model("queue = \"20p\"").queue, QueueLimit::Packets(20));
    assert_eq!(model("queue = \"200ms\"").queue_bytes(), Some(250_000));
    assert_eq!(model("queue_discipline = \"drop-head\"").queue_discipline, Discipline::DropHead);
    let codel = model("queue_discipline = \"codel\"\necn = true\nqueue_target = \"8ms\"");
    let settings = (codel.queue_discipline, codel.queue_target, codel.queue_interval, codel.ecn);
    assert_eq!(settings, (Discipline::CoDel, Some(8 * MS), None, true));
    let pie = model("queue_discipline = \"pie\"");
    assert_eq!((pie.queue_discipline, pie.queue_target, pie.queue_interval), (Discipline::Pie, None, None));
    let steps = link("rate_steps = [[\"0s\", \"30mbit\"], [\"3s\", \"10mbit\"]]\nqueue = \"100ms\"");
    assert_eq!(steps.forward.queue_bytes(), Some(312_500), "of the mean rate, the last second included");
}

#[test]
fn a_direction_takes_the_place_of_the_paths_own() {
    let path = link(
        "loss = \"1%\"\nrate = \"5mbit\"\nupload = { burst_loss = { to_bad = \"1%\", to_good = \"9%\" } }",
    );
    assert!(matches!(path.forward.loss, LossModel::GilbertElliott(_)));
    assert_eq!(path.reverse.loss, LossModel::Independent(0.01));
    assert_eq!(path.forward.rate_bps(), Some(5_000_000));
    let arq = link("rate = \"5mbit\"\narq = { retries = 2 }\ndownload = { arq = { retries = 0 } }");
    assert_eq!((arq.forward.arq.map(|arq| arq.retries), arq.reverse.arq), (Some(2), None));
}

#[test]
fn a_preset_gives_what_is_not_given() {
    let plain = link("preset = \"lte\"");
    assert_eq!((plain.forward.rate_bps(), plain.reverse.rate_bps()), (Some(9_000_000), Some(20_000_000)));
    assert_eq!((plain.mtu_bytes(), plain.engine), (1420, LinkEngine::Emulated));
    let changed = link("preset = \"lte\"\nrate = \"5mbit\"\nmtu = 1500\ndownload = { delay = \"40ms\" }");
    assert_eq!((changed.forward.rate_bps(), changed.reverse.rate_bps()), (Some(5_000_000), Some(5_000_000)));
    assert_eq!((changed.forward.jitter, changed.mtu_bytes()), (plain.forward.jitter, 1500));
    assert_eq!(changed.reverse.constant_delay(), Some(40 * MS));
    let names = ["wifi-good", "wifi-cafe", "lte", "5g-walk", "leo-satellite", "adsl", "datacenter"];
    for name in names {
        assert!(link(&format!("preset = \"{name}\"")).forward.mean_rate_bps().is_some(), "{name}");
    }
}

#[test]
fn the_engine_follows_from_the_link_and_its_events() {
    let engine_with = |keys: &str, event: &str| {
        variant(&format!("[[path]]\nname = \"eth\"\nrate = \"10mbit\"\n{keys}\n{event}")).topology.links[0]
            .engine
    };
    for (keys, event, engine) in [
        ("", "", LinkEngine::Kernel),
        ("queue = \"50p\"\nmtu = 1400", "", LinkEngine::Kernel),
        ("", "[[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"blackhole\"", LinkEngine::Kernel),
        (
            "",
            "[[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"set\"\nrate = \"1mbit\"",
            LinkEngine::Kernel,
        ),
        ("delay = \"1ms\"", "", LinkEngine::Emulated),
        ("loss = \"1%\"", "", LinkEngine::Emulated),
        ("capture = true", "", LinkEngine::Emulated),
        ("queue_discipline = \"codel\"", "", LinkEngine::Emulated),
        ("engine = \"emulated\"", "", LinkEngine::Emulated),
        ("engine = \"kernel\"\ndelay = \"1ms\"", "", LinkEngine::Kernel),
        ("engine = \"kernel\"\ndelay = \"9ms\"\njitter = \"1ms\"\nreorder = true", "", LinkEngine::Kernel),
        ("", "[[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"outage\"", LinkEngine::Emulated),
        (
            "",
            "[[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"set\"\ndelay = \"1ms\"",
            LinkEngine::Emulated,
        ),
        (
            "",
            "[[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"set\"\ndirection = \"upload\"\nrate = \"1mbit\"",
            LinkEngine::Kernel,
        ),
        (
            "",
            "[[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"fade\"\nfrom_m = 3\nto_m = 60\nduration = \"3s\"",
            LinkEngine::Emulated,
        ),
    ] {
        assert_eq!(engine_with(keys, event), engine, "{keys} {event}");
    }
}

fn action(keys: &str) -> EventAction {
    let path = "[[path]]\nname = \"eth\"\nrate = \"10mbit\"\n[[event]]\nat = \"1s\"\npath = \"eth\"\n";
    variant(&format!("{path}{keys}")).events.remove(0).action
}

#[test]
fn a_fade_is_a_walk_or_leads_to_values() {
    let walk = Walk { speed_mps: 1.4, from_m: 3.0, to_m: 45.0, ..Walk::default() };
    assert_eq!(
        action("action = \"fade\"\nfrom_m = 3\nto_m = 45\nspeed_mps = 1.4"),
        EventAction::Fade(FadePlan::Walk(walk))
    );
    assert_eq!(
        action("action = \"fade\"\nfrom_m = 3.0\nto_m = 45\nduration = \"30s\""),
        EventAction::Fade(FadePlan::Walk(walk))
    );
    let ramp = Ramp { duration: 2_000 * MS, rate_bps: Some(1_000_000), loss: Some(0.1), delay: None };
    let keys = "action = \"fade\"\nduration = \"2s\"\ndirection = \"download\"\nto = { rate = \"1mbit\", loss = \"10%\" }";
    let EventAction::Fade(FadePlan::Ramp { ramp: read, direction, .. }) = action(keys) else {
        panic!("a ramp was asked for");
    };
    assert_eq!((read, direction), (ramp, Some(LinkDirection::Reverse)));
}

/// Text appended to a valid scenario of six lines, and the one mistake in it.
const ONE_BY_ONE: &[(&str, &str)] = &[
    (
        "rate_steps = [[\"0s\", \"1mbit\"]]",
        "7: path.eth.rate_steps: `rate` and `rate_steps` are both given; remove one of the two",
    ),
    (
        "upload = { loss = \"1%\", loss_bursts = { period = \"1s\", length = \"1ms\" } }",
        "7: path.eth.upload.loss_bursts: `loss` and `loss_bursts` are both given; remove one of the two",
    ),
    (
        "upload = { rate_steps = [[\"1s\", \"1mbit\"]] }",
        "7: path.eth.upload.rate_steps.0: the first step is at 1s; begin at \"0s\"",
    ),
    (
        "upload = { rate_steps = [[\"0s\", \"1mbit\"], [\"0s\", \"2mbit\"]] }",
        "7: path.eth.upload.rate_steps.1: 0s does not come after 0s; give the steps in the order of their times",
    ),
    (
        "upload = { rate_steps = [\"1mbit\"] }",
        "7: path.eth.upload.rate_steps.0: `1mbit` is not a time and a rate; write each step as a list of two texts, \
         as in [[\"0s\", \"40mbit\"], [\"10s\", \"30mbit\"]]",
    ),
    (
        "upload = { rate_steps = [[\"0s\", \"0bit\"]] }",
        "7: path.eth.upload.rate_steps: nothing is ever sent; give one step a rate above zero",
    ),
    (
        "upload = { rate_trace = \"no/such.trace\" }",
        "7: path.eth.upload.rate_trace: cannot read no/such.trace: No such file or directory (os error 2); give the \
         path of a file, relative to the scenario's own directory",
    ),
    (
        "rate_trace_format = \"mahimahi\"",
        "7: path.eth.rate_trace_format: there is no trace; add rate_trace = \"FILE\", or remove it",
    ),
    (
        "rate_trace_unit = \"mbit/s\"",
        "7: path.eth.rate_trace_unit: there is no trace; add rate_trace = \"FILE\", or remove it",
    ),
    (
        "delay_trace_format = \"ping\"",
        "7: path.eth.delay_trace_format: there is no trace; add delay_trace = \"FILE\", or remove it",
    ),
    ("burst_loss = { to_bad = \"1%\" }", "7: path.eth.burst_loss.to_good: is missing; add to_good = \"25%\""),
    (
        "burst_loss = { to_bad = \"1%\", to_good = \"0%\" }",
        "7: path.eth.burst_loss.to_good: a burst would never end; give more than \"0%\"",
    ),
    (
        "loss_bursts = { period = \"1s\", length = \"2s\" }",
        "7: path.eth.loss_bursts.length: a burst of 2s does not fit into a period of 1s; give less than the period",
    ),
    (
        "arq = { tries = 7 }",
        "7: path.eth.arq.tries: there is no key `tries` here; did you mean `retries`? known are retries, pause",
    ),
    (
        "ecn = true",
        "7: path.eth.ecn: only active queue management (codel, pie) has this setting; add \
         queue_discipline = \"codel\" or \"pie\"",
    ),
    (
        "queue_discipline = \"red\"",
        "7: path.eth.queue_discipline: `red` is not one of its values; known are drop-tail, drop-head, codel, pie",
    ),
    (
        "[[path]]\nname = \"b\"\nqueue_discipline = \"pie\"",
        "9: path.b.queue_discipline: a link of unlimited rate has no queue; give a rate as well",
    ),
    (
        "engine = \"kernel\"\nduplicate = \"1%\"",
        "7: path.eth.engine: the kernel's engine does rate, queue, delay, jitter and loss only, each in its simple \
         form; make the link's engine \"emulated\", or leave the engine out",
    ),
    // Regression: netem put packets out of order that were to stay in order.
    (
        "engine = \"kernel\"\ndelay = \"20ms\"\njitter = \"5ms\"",
        "7: path.eth.engine: the kernel's engine (netem) reorders packets that have jitter; allow it with reorder = \
         true, make the link's engine \"emulated\", or leave the engine out",
    ),
    (
        "engine = \"kernel\"\ndelay = \"20ms\"\n[[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"set\"\n\
         direction = \"download\"\njitter = \"5ms\"",
        "12: event.0.action: the kernel's engine (netem) reorders packets that have jitter; allow it with reorder",
    ),
    // Each event applies to the link as changed by earlier events.
    (
        "engine = \"kernel\"\ndelay = \"20ms\"\njitter = \"5ms\"\nreorder = true\n\
         [[event]]\nat = \"2s\"\npath = \"eth\"\naction = \"set\"\njitter = \"1ms\"\n\
         [[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"set\"\njitter = \"0ms\"\nreorder = false",
        "14: event.0.action: the kernel's engine (netem) reorders packets that have jitter; allow it with reorder",
    ),
    (
        "engine = \"kernel\"\ncapture = true",
        "7: path.eth.engine: the kernel's engine captures no packets; make it \"emulated\", or leave the engine out",
    ),
    (
        "engine = \"kernel\"\n[[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"outage\"",
        "11: event.0.action: the kernel's engine, which the link asks for, cannot do this `outage`; give the link \
         engine = \"emulated\", or leave its engine out",
    ),
    (
        "[[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"outage\"\ndirection = \"upload\"",
        "11: event.0.direction: the action `outage` concerns both directions; remove it",
    ),
    (
        "[[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"set\"\nmtu = 1400\ndirection = \"upload\"",
        "11: event.0.mtu: a link has one MTU for both directions; leave direction out",
    ),
    (
        "[[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"down\"\nto_m = 4",
        "11: event.0.to_m: the action `down` takes no to_m; remove it, or make the action \"fade\"",
    ),
    (
        "[[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"fade\"\nto_m = 40\nduration = \"3s\"",
        "7: event.0.from_m: is missing; add from_m = 3",
    ),
    (
        "[[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"fade\"\nfrom_m = 3\nto_m = 40",
        "7: event.0.duration: is missing; add duration = \"30s\" (or speed_mps = 1.4)",
    ),
    (
        "[[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"fade\"\nfrom_m = 0.5\nto_m = 40\nduration = \"3s\"",
        "11: event.0.from_m: `0.5` is out of range; give 1 to 10000",
    ),
    (
        "[[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"fade\"\nduration = \"3s\"\nto = {}",
        "12: event.0.to: the fade leads nowhere; give any of rate, loss, delay",
    ),
    (
        "[[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"fade\"\nduration = \"3s\"\nto = { loss = \"1%\" }\nto_m = 4",
        "13: event.0.to_m: `to` and `to_m` are both given; remove one: a fade is a walk, or leads to values",
    ),
    (
        "[[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"fade\"\nfrom_m = 4\nto_m = 4.0\nduration = \"3s\"",
        "12: event.0.to_m: the walk leads nowhere; give another distance",
    ),
    (
        "[[path]]\nname = \"b\"\nrate_steps = [[\"0s\", \"1mbit\"]]\n[[event]]\nat = \"1s\"\npath = \"b\"\n\
         action = \"fade\"\nfrom_m = 4\nto_m = 40\nduration = \"3s\"",
        "13: event.0.action: ",
    ),
    (
        "[run]\nlateness_tolerance = \"1m\"",
        "8: run.lateness_tolerance: `1m` is out of range; give \"0s\" to \"10s\"",
    ),
    (
        "preset = \"tle\"",
        "7: path.eth.preset: `tle` is not one of its values; did you mean `lte`? known are wifi-good, wifi-cafe, lte, \
         5g-walk, leo-satellite, adsl, datacenter",
    ),
];

#[test]
fn each_mistake_has_its_place_and_remedy() {
    const BASE: &str = "name = \"mine\"\n\n# A path.\n[[path]]\nname = \"eth\"\nrate = \"10mbit\"\n";
    for (text, expected) in ONE_BY_ONE {
        let source = ScenarioSource::from_text("mine.toml", format!("{BASE}{text}\n"));
        let found = match plan(&source, &Overrides::default()) {
            Ok(_) => panic!("no mistake was found in\n{text}"),
            Err(mistakes) => crate::in_lines(&mistakes).join("\n"),
        };
        let lines: Vec<_> = found.lines().collect();
        let begins = lines.first().is_some_and(|line| line.starts_with(&format!("mine.toml:{expected}")));
        assert!(lines.len() == 1 && begins, "{text}\nexpected mine.toml:{expected}\nfound    {found}");
    }
}

#[test]
fn traces_are_read_from_the_scenarios_own_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("mine.toml");
    std::fs::write(directory.path().join("down.trace"), "1\n2\n2\n5\n").expect("written");
    std::fs::write(directory.path().join("loss.csv"), "second,loss\n0,0\n1,0.5\n").expect("written");
    std::fs::write(directory.path().join("bad.trace"), "1\n2\nx\n").expect("written");
    let read = |keys: &str| {
        let text = format!("name = \"mine\"\n[[path]]\nname = \"eth\"\n{keys}\n");
        let source = ScenarioSource::from_text(file.display().to_string(), text);
        plan(&source, &Overrides::default()).map(|plan| plan.variants[0].topology.links[0].clone())
    };
    let link = read("download = { rate_trace = \"down.trace\", loss_trace = \"loss.csv\" }").expect("valid");
    let RateModel::Opportunities(schedule) = &link.reverse.rate else { panic!("a trace was asked for") };
    assert_eq!(schedule.at_ms, [1, 2, 2, 5]);
    assert!(matches!(link.reverse.loss, LossModel::Schedule(_)));
    assert_eq!(link.forward.rate, RateModel::Unlimited);
    assert_eq!(link.engine, LinkEngine::Emulated);
    std::fs::write(directory.path().join("pairs.csv"), "0,9.5\n1,8.5\n").expect("written");
    let refused = read("rate_trace = \"pairs.csv\"").expect_err("no unit").to_string();
    assert!(
        refused.contains("rate_trace_unit") && refused.contains("Mbit/s or bytes per second"),
        "{refused}"
    );
    let link = read("rate_trace = \"pairs.csv\"\nrate_trace_unit = \"mbit/s\"").expect("valid");
    assert_eq!(link.forward.mean_rate_bps(), Some(9_000_000));
    let wrong = read("rate_trace = \"bad.trace\"").expect_err("not a trace").to_string();
    assert!(
        wrong.contains("path.eth.rate_trace: ")
            && wrong.contains("mine.toml:4:14")
            && wrong.contains("line 3"),
        "{wrong}"
    );
}
