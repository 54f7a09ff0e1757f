//! Reading any text ends in a plan or in mistakes with a location, never in a panic.

use pathbench_lab::scenario::{Overrides, ScenarioSource, builtin, plan};
use proptest::prelude::*;

fn hold(text: &str, overrides: &Overrides) {
    match plan(&ScenarioSource::from_text("x.toml", text), overrides) {
        Ok(plan) => {
            assert!(!plan.variants.is_empty() && plan.repeat >= 1 && !plan.name.is_empty());
            for variant in &plan.variants {
                assert!(!variant.topology.links.is_empty() && !variant.run.labels.is_empty());
                let run = &variant.run;
                let (client, server) =
                    (variant.topology.node(&run.client), variant.topology.node(&run.server));
                assert!(client.is_some() && server.is_some());
                for link in &variant.topology.links {
                    for end in &link.ends {
                        assert!(!end.interface.is_empty() && end.interface.len() <= 15, "{end:?}");
                        assert!(!end.addresses.is_empty(), "{end:?}");
                        assert!(variant.topology.node(&end.node).is_some(), "{end:?}");
                    }
                }
                for host in [&run.client, &run.server] {
                    let mut ends = variant.topology.links_of(host).map(|(link, end)| &link.ends[end]);
                    assert!(ends.any(|end| end.address(run.family).is_some()), "{host}");
                }
                for event in &variant.events {
                    let link = variant.topology.link(&event.link).expect("the event's link exists");
                    assert!(link.end_of(&event.node).is_some());
                    let at = event.at.since_first_byte();
                    assert!(run.duration().zip(at).is_none_or(|(duration, at)| at < duration));
                }
            }
        }
        Err(mistakes) => {
            assert!(!mistakes.0.is_empty());
            assert!(!mistakes.to_string().replace('\n', "").contains(char::is_control), "{mistakes}");
            let lines = text.bytes().filter(|byte| *byte == b'\n').count() as u32 + 1;
            for mistake in &mistakes.0 {
                assert!(
                    mistake.line.is_some_and(|line| (1..=lines).contains(&line)) || mistake.file != "x.toml"
                );
                assert!(!mistake.problem.is_empty() && !mistake.remedy.is_empty(), "{mistake:?}");
            }
        }
    }
}

/// Typing errors in a scenario.
const FRAGMENTS: [&str; 40] = [
    "\"",
    "'",
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "=",
    ",",
    ".",
    "#",
    "\n",
    "-1",
    "0",
    "1e999",
    "99999999999999999999",
    "nan",
    "true",
    "1ms",
    "\"1s\"",
    "[path]",
    "[[path]]\n",
    "[host]\n",
    "[[host]]\nname = \"a\"\n",
    "[matrix]\n",
    "[run.throughput]\n",
    "[[event]]\n",
    "[expect]\n",
    "\"\"\"",
    "name = \"a\"\n",
    "ends = [\"client:a\", \"server:b\"]\n",
    "client_address = \"fe80::1/64\"\n",
    "server_address = \"0.0.0.0/8\"\n",
    "\"a.b\" = [1, 2]\n",
    "é",
    "\u{0}",
    "0x",
    "tcp@*",
    "1979-05-27",
];

const KEYS: [&str; 18] = [
    "path",
    "path.eth",
    "path.eth.rate",
    "path.eth.client_address",
    "host.client",
    "host.client.mptcp.endpoints",
    "host.client.sysctl.net.ipv4.x",
    "event",
    "event.0",
    "event.0.at",
    "run",
    "run.transports",
    "run.throughput",
    "run.client",
    "matrix",
    "expect",
    "name",
    "link.x.ends.0.node",
];

const VALUES: [&str; 12] = [
    "1",
    "-1",
    "true",
    "1ms",
    "\"\"",
    "[]",
    "{}",
    "[1, [2]]",
    "{ name = \"eth\" }",
    "tcp",
    "client",
    "10.0.0.1/24",
];

fn mutated() -> impl Strategy<Value = String> {
    let edit = (any::<prop::sample::Index>(), 0_usize..12, prop::sample::select(&FRAGMENTS[..]));
    let edits = prop::collection::vec(edit, 1..6);
    (0..builtin().len(), edits).prop_map(|(which, edits)| {
        let mut text: Vec<char> = builtin()[which].text.chars().collect();
        for (at, removed, fragment) in edits {
            let start = at.index(text.len() + 1);
            let end = (start + removed).min(text.len());
            text.splice(start..end, fragment.chars());
        }
        text.into_iter().collect()
    })
}

/// Whole lines taken out, doubled and put elsewhere: mostly still TOML, so that validation is reached.
fn shuffled() -> impl Strategy<Value = String> {
    let edits =
        prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..3), 1..8);
    (0..builtin().len(), edits).prop_map(|(which, edits)| {
        let mut lines: Vec<&str> = builtin()[which].text.lines().collect();
        for (from, to, action) in edits {
            let line = lines[from.index(lines.len())];
            match action {
                0 if lines.len() > 1 => drop(lines.remove(from.index(lines.len()))),
                1 => lines.insert(to.index(lines.len() + 1), line),
                _ => {
                    let (from, to) = (from.index(lines.len()), to.index(lines.len()));
                    lines.swap(from, to);
                }
            }
        }
        lines.join("\n")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn arbitrary_text_does_not_panic(text in "\\PC{0,80}", lines in prop::collection::vec("[a-z@.\\[\\]\"= 0-9{},#\n]{0,30}", 0..8)) {
        hold(&text, &Overrides::default());
        hold(&lines.join("\n"), &Overrides::default());
    }

    #[test]
    fn mutated_scenarios_do_not_panic(text in mutated()) {
        hold(&text, &Overrides::default());
    }

    #[test]
    fn shuffled_scenarios_do_not_panic(text in shuffled()) {
        hold(&text, &Overrides::default());
    }

    #[test]
    fn arbitrary_overrides_do_not_panic(
        which in 0..builtin().len(),
        set in prop::collection::vec((prop::sample::select(&KEYS[..]), prop::sample::select(&VALUES[..])), 1..4),
        key in "[a-z.0-9]{0,20}",
        value in "\\PC{0,12}",
    ) {
        let mut set: Vec<_> = set.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        set.push((key, value.clone()));
        let overrides = Overrides { set, duration: Some(value.clone()), transports: Some(vec![value]), ..Overrides::default() };
        hold(builtin()[which].text, &overrides);
        hold(builtin()[which].text, &Overrides { set: overrides.set, ..Overrides::default() });
    }
}
