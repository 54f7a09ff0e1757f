//! Events before the connection, and the effect of each event on its link.

use crate::mistakes::{BASE, lines};
use pathbench_lab::scenario::{EventTime, Overrides, ScenarioSource, VariantPlan, plan};
use pathbench_record::event::PathEffect;

fn planned(rest: &str) -> VariantPlan {
    let source = ScenarioSource::from_text("mine.toml", format!("{BASE}{rest}"));
    plan(&source, &Overrides::default()).unwrap_or_else(|mistakes| panic!("{mistakes}")).variants.remove(0)
}

fn event(at: &str, path: &str, rest: &str) -> String {
    format!("[[event]]\nat = \"{at}\"\npath = \"{path}\"\naction = {rest}\n")
}

#[test]
fn events_before_the_connection_come_first_and_in_the_order_of_the_file() {
    let actions =
        ["\"blackhole\"", "\"outage\"", "\"remove-address\"", "\"set\"\nrate = \"1mbit\"", "\"down\""];
    let mut text = event("2s", "eth", "\"up\"");
    for action in actions {
        text += &event("before-connect", "eth", action);
    }
    text += &event("0s", "wlan", "\"down\"");
    let events = planned(&text).events;
    let names: Vec<_> = events.iter().map(|event| event.action.name()).collect();
    assert_eq!(names, ["blackhole", "outage", "remove-address", "set", "down", "down", "up"]);
    assert!(events[..5].iter().all(|event| event.at == EventTime::BeforeConnect));
    assert!(events[5..].iter().all(|event| event.at.since_first_byte().is_some()));
}

#[test]
fn an_event_that_was_made_before_the_connection_can_be_undone_before_it() {
    for (made, undone) in
        [("down", "up"), ("blackhole", "restore"), ("outage", "restore"), ("remove-address", "add-address")]
    {
        let before = |action: &str| event("before-connect", "eth", &format!("\"{action}\""));
        assert_eq!(planned(&(before(made) + &before(undone))).events.len(), 2);
        let found = lines(&(BASE.to_owned() + &before(undone)));
        let [line] = &found[..] else { panic!("{found:#?}") };
        let expected =
            format!("mine.toml:13: event.0.at: `{undone}` before the connection has nothing to undo: ");
        assert!(line.starts_with(&expected), "{line}");
        let elsewhere = event("before-connect", "wlan", &format!("\"{made}\""));
        assert_eq!(lines(&(BASE.to_owned() + &elsewhere + &before(undone))).len(), 1, "another link");
    }
}

#[test]
fn an_event_that_needs_the_first_byte_is_refused_before_the_connection() {
    let fade = "\"fade\"\nduration = \"1s\"\nfrom_m = 3\nto_m = 40";
    let steps = "\"set\"\nrate_steps = [[\"0s\", \"40mbit\"], [\"1s\", \"3mbit\"]]";
    let bursts = "\"set\"\nloss_bursts = { period = \"1s\", length = \"10ms\" }";
    for (action, key) in [(fade, "at"), (steps, "rate_steps"), (bursts, "loss_bursts")] {
        let found = lines(&(BASE.to_owned() + &event("before-connect", "eth", action)));
        let [line] = &found[..] else { panic!("{action}: {found:#?}") };
        assert!(line.contains(&format!("event.0.{key}: ")) && line.contains("first byte"), "{line}");
        assert_eq!(planned(&event("0s", "eth", action)).events.len(), 1);
    }
    let found = lines(&(BASE.to_owned() + &event("before-conect", "eth", "\"down\"")));
    assert_eq!(
        found,
        [
            "mine.toml:13: event.0.at: `before-conect` is no time; give a time after the first byte, as in \"3s\", or \
          \"before-connect\""
        ]
    );
}

#[test]
fn the_effect_of_an_event_follows_from_the_state_of_its_link() {
    use PathEffect::{Better, Neutral, Worse};
    let actions = [
        ("\"down\"", Worse),
        ("\"up\"", Better),
        ("\"set\"\nrate = \"2gbit\"", Better),
        ("\"set\"\nrate = \"1gbit\"", Worse),
        ("\"set\"\nrate = \"1gbit\"", Neutral),
        ("\"set\"\nrate = \"2gbit\"\ndelay = \"10ms\"", Worse),
        ("\"set\"\ndelay = \"5ms\"\nqueue = \"10ms\"", Better),
        ("\"set\"\nqueue = \"20ms\"", Neutral),
        ("\"set\"\nloss = \"1%\"\ndirection = \"upload\"", Worse),
        ("\"set\"\nloss = \"0%\"\ndirection = \"upload\"", Better),
        ("\"fade\"\nduration = \"200ms\"\nto = { rate = \"1mbit\" }", Worse),
        ("\"fade\"\nduration = \"200ms\"\nto = { rate = \"9mbit\" }", Better),
        ("\"fade\"\nduration = \"200ms\"\nfrom_m = 3\nto_m = 40", Worse),
        ("\"fade\"\nduration = \"200ms\"\nfrom_m = 40\nto_m = 3", Better),
        ("\"set\"\nmtu = 1400", Worse),
        ("\"remove-address\"", Worse),
        ("\"add-address\"", Better),
        ("\"outage\"", Worse),
        ("\"restore\"", Better),
    ];
    let text: String = actions
        .iter()
        .enumerate()
        .map(|(index, (action, _))| event(&format!("{}ms", index * 300), "eth", action))
        .collect();
    // A better path beside it changes nothing.
    let text = text + &event("100ms", "wlan", "\"set\"\nrate = \"2gbit\"");
    let events = planned(&text).events;
    let found: Vec<_> = events.iter().filter(|event| event.link == "eth").map(|event| event.effect).collect();
    assert_eq!(found, actions.map(|(_, effect)| effect));
}

#[test]
fn the_hop_and_the_middleboxes_of_a_path_count() {
    let text = "name = \"x\"\n[[path]]\nname = \"eth\"\nmtu = 9000\npath_mtu = 1500\nicmp = \"on\"\n"
        .to_owned()
        + &event("1s", "eth", "\"set\"\npath_mtu = 1400")
        + &event("2s", "eth", "\"set\"\npath_mtu = 9000")
        + &event("3s", "eth", "\"set\"\nmiddlebox = \"drop-udp\"")
        + &event("4s", "eth", "\"set\"\nmiddlebox = []")
        + &event("5s", "eth", "\"set\"\nicmp = \"off\"");
    let source = ScenarioSource::from_text("mine.toml", &text);
    let plan = plan(&source, &Overrides::default()).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let found: Vec<_> = plan.variants[0].events.iter().map(|event| event.effect).collect();
    let [worse, better, neutral] = [PathEffect::Worse, PathEffect::Better, PathEffect::Neutral];
    assert_eq!(found, [worse, better, worse, better, neutral]);
}
