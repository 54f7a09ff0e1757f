//! `run.transports`: what is compared, each bound to a path or not.

use crate::scenario::mistake::MistakeKind;
use crate::scenario::plan::{Family, Topology};
use crate::scenario::section::{Section, did_you_mean};
use crate::scenario::suggestion::choices;
use crate::scenario::tree::{Origin, Value};
use pathbench_record::transport::{Transport, TransportLabel};

pub(crate) fn labels(
    run: &Section<'_>,
    client: &str,
    family: Family,
    topology: &Topology,
) -> Vec<TransportLabel> {
    let Some(texts) = run.texts("transports", "mptcp") else {
        return [Transport::Tcp, Transport::Mptcp]
            .map(|transport| TransportLabel { transport, path: None })
            .into();
    };
    let is_empty_list =
        matches!(run.get("transports").map(|item| &item.value), Some(Value::List(items)) if items.is_empty());
    if is_empty_list {
        run.wrong(
            MistakeKind::Value,
            "transports",
            "names no transport",
            "give some, as in [\"mptcp\", \"tcp\"]",
        );
    }
    let paths: Vec<_> = topology.links_of(client).map(|(link, _)| link.name.as_str()).collect();
    let lacking: Vec<_> = topology
        .links_of(client)
        .filter(|(link, end)| link.ends[*end].address(family).is_none())
        .map(|(link, _)| link.name.as_str())
        .collect();
    let mut labels: Vec<TransportLabel> = Vec::new();
    for (text, origin) in texts {
        for label in label(run, text, &origin, &paths) {
            let start = label.path.as_deref().or(paths.first().copied());
            if let Some(path) = start.filter(|path| lacking.contains(path)) {
                let problem = format!("`{label}`: `{path}` has no {} address", family.title());
                let remedy = "give the path one, or leave this transport out";
                run.ledger.add(MistakeKind::Conflict, &origin, run.key("transports"), problem, remedy);
            }
            if labels.contains(&label) {
                let problem = format!("`{label}` is there twice");
                let remedy = "remove one; run.repeat says how often each runs";
                run.ledger.add(MistakeKind::Duplicate, &origin, run.key("transports"), problem, remedy);
            } else {
                labels.push(label);
            }
        }
    }
    labels
}

fn label(run: &Section<'_>, text: &str, origin: &Origin, paths: &[&str]) -> Vec<TransportLabel> {
    let wrong = |kind, problem: String, remedy: String| {
        run.ledger.add(kind, origin, run.key("transports"), problem, remedy);
        Vec::new()
    };
    let (name, path) = text.split_once('@').map_or((text, None), |(name, path)| (name, Some(path)));
    let Ok(transport) = name.parse::<Transport>() else {
        let guess = did_you_mean(name, &["tcp", "mptcp", "quic", "mpquic"])
            .map_or_else(String::new, |guess| format!("{guess} "));
        return wrong(
            MistakeKind::Value,
            format!("`{name}` is not a transport"),
            format!("{guess}available are tcp, mptcp, quic and mpquic, each also with @PATH or @*"),
        );
    };
    match path {
        None => vec![TransportLabel { transport, path: None }],
        Some("*") => {
            paths.iter().map(|path| TransportLabel { transport, path: Some((*path).to_owned()) }).collect()
        }
        Some(path) if paths.contains(&path) => {
            vec![TransportLabel { transport, path: Some(path.to_owned()) }]
        }
        Some(path) => wrong(
            MistakeKind::Reference,
            format!("`{text}`: the client has no path `{path}`"),
            choices(path, paths),
        ),
    }
}
