//! A submission from a result directory: summary, networks, raw part, and the anonymous form where everybody may read it.

use super::address::CollectorAddress;
use super::archive::{ArchiveError, archive, documents, files};
use super::networks::network_kinds;
use super::settings::Settings;
use data_encoding::BASE64;
use pathbench_api::Uuid;
use pathbench_api::anonymise::{Anonymiser, host_part, is_address, is_generic};
use pathbench_api::bounds::{EARLIEST_MS, ITEMS, SUMMARY_BYTES};
use pathbench_api::consent::Consent;
use pathbench_api::digest::Digest;
use pathbench_api::name::Name;
use pathbench_api::submission::{SCHEMA, Submission, SubmissionError, new_id};
use pathbench_api::summary::{
    FamilyPair, Network, NetworkKind, ReachabilitySummary, Summary, SummaryContext,
};
use pathbench_program::exit::Failure;
use pathbench_record::directory::{ReadError, ResultDirectory};
use pathbench_record::document::ResultDocument;
use pathbench_record::time::{rfc3339_from_unix, unix_from_rfc3339};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A server that no collector offered, in public results.
const OTHER_SERVER: &str = "other";

/// The parts of a submission beside the result.
#[derive(Debug, Default)]
pub(crate) struct Material {
    pub(crate) experiment: Option<Name>,
    pub(crate) family_pairs: Vec<FamilyPair>,
    /// The attempts of the same test over the other IP version.
    pub(crate) other_reachability: Vec<ReachabilitySummary>,
    /// The server that the collector offered for this result.
    pub(crate) server: Option<Name>,
}

/// A submission, ready to be kept and sent.
#[derive(Debug)]
pub(crate) struct PreparedSubmission {
    pub(crate) id: Uuid,
    /// One line without its line feed; never made again.
    pub(crate) line: Vec<u8>,
    /// Why the raw part is absent.
    pub(crate) without_raw: Option<String>,
    pub(crate) directory: PathBuf,
}

/// Makes the submission of the result in `directory`; `now_s` is Unix time. The id follows from the result and the
/// agent alone, so that a result that is submitted twice is stored once. [`Exit::BadInput`](pathbench_program::exit::Exit) is for
/// good: every later attempt fails, too.
pub(crate) fn submission(
    directory: &Path,
    settings: &Settings,
    collector: &CollectorAddress,
    material: Material,
    now_s: u64,
) -> Result<PreparedSubmission, Failure> {
    let result = ResultDirectory::open(directory).map_err(|error| match error {
        ReadError::Io { .. } => Failure::failed(error),
        _ => Failure::bad_input(error),
    })?;
    let (directory, document) = (result.path, result.document);
    if document.runs.is_empty() && document.reachability.is_empty() && document.mtu.is_none() {
        return Err(Failure::bad_input(format!(
            "{} holds no finished run: there is nothing to submit",
            directory.display()
        )));
    }
    let found = files(&directory, settings.consent);
    let anonymiser = match settings.consent {
        Consent::Public => Some(anonymiser(found.as_ref().ok(), &document, &material)?),
        Consent::Private | Consent::None => None,
    };
    let summary = summary(&document, settings, material, anonymiser.as_ref());
    let is_full = anonymiser.as_ref().is_some_and(Anonymiser::is_full);
    let raw =
        found.and_then(
            |found| {
                if is_full { Err(ArchiveError::Names) } else { archive(&found, anonymiser.as_ref()) }
            },
        );
    let (raw, without_raw) = match raw {
        Ok(raw) => (Some(BASE64.encode(&raw)), None),
        Err(error @ (ArchiveError::Read { .. } | ArchiveError::Write(_))) => {
            return Err(Failure::failed(error));
        }
        Err(error) => (None, Some(error.to_string())),
    };
    let id = id(&document, settings, summary.started_ms)?;
    let deletion_sha256 = Digest::compute(settings.deletion_token_at(collector).as_bytes());
    let (schema, agent, consent) = (SCHEMA.to_owned(), settings.agent, settings.consent);
    let submission = Submission { schema, id, agent, consent, deletion_sha256, summary, raw };
    let line = serde_json::to_vec(&submission).map_err(Failure::failed)?;
    // The collector would reject it, and it must not wait for that.
    Submission::check(&line, now_s.saturating_mul(1000)).map_err(|error| match error {
        SubmissionError::Id => Failure::failed(format!(
            "{}: it began at {}, and the clock of this host shows {}: set the clock",
            directory.display(),
            document.host.started,
            rfc3339_from_unix(i64::try_from(now_s).unwrap_or(i64::MAX))
        )),
        error => Failure::bad_input(format!("{}: it cannot be submitted: {error}", directory.display())),
    })?;
    Ok(PreparedSubmission { id, line, without_raw, directory })
}

fn id(document: &ResultDocument, settings: &Settings, started_ms: u64) -> Result<Uuid, Failure> {
    let mut text = serde_json::to_vec(document).map_err(Failure::failed)?;
    text.extend_from_slice(settings.agent.as_bytes());
    let mut random = [0; 10];
    random.copy_from_slice(&Digest::compute(&text).0[..10]);
    Ok(new_id(started_ms, &random))
}

fn summary(
    document: &ResultDocument,
    settings: &Settings,
    material: Material,
    anonymiser: Option<&Anonymiser>,
) -> Summary {
    // A host without a battery-backed clock begins in 1970. The present is no substitute: the id would differ each time.
    let started_ms = (unix_from_rfc3339(&document.host.started).unwrap_or_default() * 1000).max(EARLIEST_MS);
    let Material { experiment, family_pairs, other_reachability, server } = material;
    let networks = networks(document, settings);
    let context = SummaryContext { started_ms, experiment, networks, family_pairs, other_reachability };
    let mut summary = Summary::from_document(document, context);
    if let Some(offered) = server {
        summary.server = Some(offered);
    } else if anonymiser.is_some() && summary.server.is_some() {
        summary.server = Some(Name::nearest(OTHER_SERVER));
    }
    if let Some(anonymiser) = anonymiser {
        anonymiser.summary(&mut summary);
    }
    shorten(&mut summary);
    summary
}

/// A matrix of many variants has more groups than a summary holds.
fn shorten(summary: &mut Summary) {
    while summary.groups.len() > 1
        && serde_json::to_vec(summary).is_ok_and(|text| text.len() > SUMMARY_BYTES - 1024)
    {
        summary.groups.truncate(summary.groups.len() * 3 / 4);
    }
}

/// The networks of the paths, by the kinds of this host's interfaces.
fn networks(document: &ResultDocument, settings: &Settings) -> Vec<Network> {
    let kinds = network_kinds();
    let mut paths: BTreeMap<&str, &str> = BTreeMap::new();
    for path in document.runs.iter().flat_map(|run| &run.paths) {
        paths.entry(&path.name).or_insert(&path.local);
    }
    let network = |(name, local): (&str, &str)| Network {
        path: Name::nearest(name),
        kind: settings.kinds.get(name).or(kinds.get(name)).copied().unwrap_or(NetworkKind::Other),
        operator: settings.operators.get(name).cloned(),
        prefix: (!local.is_empty()).then(|| Name::nearest(local)),
    };
    paths.into_iter().map(network).take(ITEMS).collect()
}

/// Knows the personal names of all documents of the result, of this host, and of servers that no collector offered.
fn anonymiser(
    files: Option<&Vec<PathBuf>>,
    document: &ResultDocument,
    material: &Material,
) -> Result<Anonymiser, Failure> {
    let mut anonymiser = Anonymiser::default();
    anonymiser.learn(&serde_json::to_value(document).map_err(Failure::failed)?);
    if let Some(files) = files {
        let read = documents(files, |_, value| {
            anonymiser.learn(&value);
            None
        });
        match read {
            // The files are left out.
            Ok(_) | Err(ArchiveError::Json { .. }) => {}
            Err(error) => return Err(Failure::failed(error)),
        }
    }
    for name in own_names() {
        anonymiser.learn_name(&name);
    }
    let offered = material.server.as_ref().map(Name::as_str);
    let servers = document.servers.iter().flat_map(|server| {
        [Some(server.address.as_str()), server.name.as_deref(), host_part(&server.address)]
    });
    let tested =
        document.reachability.iter().flat_map(|one| [Some(one.server.as_str()), host_part(&one.server)]);
    let names: BTreeSet<&str> = servers.chain(tested).flatten().collect();
    for name in names.into_iter().filter(|name| Some(*name) != offered) {
        // Addresses are cut anyway; as names they would take prefixes of other addresses with them.
        if !is_generic(name) && !is_address(name) {
            anonymiser.learn_name(name);
        }
    }
    Ok(anonymiser)
}

/// The host's name, and the user's home directory in paths of files.
fn own_names() -> Vec<String> {
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let home = std::env::var("HOME").ok().filter(|home| home.len() > 1);
    [Some(node).filter(|node| !is_generic(node)), home.filter(|home| home != "/root")]
        .into_iter()
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::SettingsFile;
    use pathbench_program::exit::Exit;
    use pathbench_record::document::Reachability;
    use pathbench_record::network::AddressFamily;
    use pathbench_record::transport::Transport;
    use std::fs;

    /// The id of a result that began at `started`, submitted at `now_s`.
    fn id_of(home: &Path, settings: &Settings, started: &str, now_s: u64) -> Result<Uuid, Failure> {
        let mut document = ResultDocument::default();
        document.host.started = started.to_owned();
        document.reachability.push(Reachability {
            server: "a".to_owned(),
            transport: Transport::Tcp,
            family: AddressFamily::Ipv4,
            port: 1,
            reachable: true,
            rtt_ms: None,
            error: None,
            error_kind: None,
        });
        fs::write(home.join("run.json"), serde_json::to_vec(&document).unwrap()).unwrap();
        let collector = "https://c.example".parse().unwrap();
        submission(home, settings, &collector, Material::default(), now_s).map(|made| made.id)
    }

    #[test]
    fn a_corrected_clock_changes_no_id() {
        const DAY: u64 = 86_400;
        const NOW: u64 = 1_795_597_200;
        let home = tempfile::tempdir().unwrap();
        let mut file = SettingsFile::open(Some(&home.path().join("collector.toml.d"))).unwrap();
        let settings = file.decide(Consent::Private, None).unwrap().clone();
        let started = |at: u64| rfc3339_from_unix(at.cast_signed());
        for at in [7, NOW - DAY, NOW, NOW + 7200] {
            let ids = [NOW, NOW + DAY, NOW + 400 * DAY];
            let ids = ids.map(|now_s| id_of(home.path(), &settings, &started(at), now_s).unwrap());
            assert!(ids.iter().all(|id| *id == ids[0]), "{at}: {ids:?}");
            // The clock begins in 1970, or at the time of the build.
            for wrong in [7, 1_577_836_800 + 365 * DAY] {
                let made = id_of(home.path(), &settings, &started(at), wrong);
                match made {
                    Ok(id) => assert_eq!(id, ids[0], "{at} {wrong}"),
                    Err(failure) => {
                        assert!(
                            failure.exit == Exit::Failed && failure.message.contains("set the clock"),
                            "{failure:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn names_of_servers_are_told_from_addresses() {
        for address in
            ["192.0.2.7", "192.0.2.7:4433", "2001:db8::1", "fe80::1%eth0", "[2001:db8::1]:4433", "::1"]
        {
            assert!(is_address(address), "{address}");
            assert!(host_part(address).is_none_or(is_address), "{address}");
        }
        for name in ["4home.example.net", "4home.example.net:4433", "192.0.2.example:1", "dead", "a:1"] {
            assert!(!is_address(name), "{name}");
        }
        assert_eq!(host_part("4home.example.net:4433"), Some("4home.example.net"));
    }
}
