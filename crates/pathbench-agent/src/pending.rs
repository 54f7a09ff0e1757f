//! Measurements whose result is not in the outbox yet: noted on the disk before they begin, so that the next start of the
//! agent submits what a SIGKILL or a power cut left behind.

use crate::client::{CollectorAddress, Settings};
use crate::durable;
use pathbench_api::consent::Consent;
use pathbench_api::name::Name;
use pathbench_record::file;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const ENDING: &str = "pending";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pending {
    pub(crate) directory: PathBuf,
    pub(crate) experiment: Option<Name>,
    /// The server that the collector offered.
    pub(crate) server: Option<Name>,
    /// URL of the collector when the measurement began; no other one gets the result.
    pub(crate) collector: Option<String>,
    /// The consent when the measurement began: a later decision makes it stricter only.
    pub(crate) consent: Consent,
}

/// The next step for a noted result.
#[derive(Debug, PartialEq)]
pub(crate) enum ResultFate {
    /// With the stricter one of both levels of consent.
    Submitted(Box<Settings>),
    /// For its collector or for the owner's decision.
    Waits,
    /// On this host.
    Kept,
}

/// The note is beside the result directory.
fn note_file(directory: &Path) -> PathBuf {
    directory.with_extension(ENDING)
}

impl Pending {
    pub(crate) fn note(&self) -> io::Result<()> {
        durable::write(&note_file(&self.directory), &[&serde_json::to_vec(self)?])
    }

    /// `settings` are the present ones, `None` if there are none that can be read.
    pub(crate) fn fate(
        &self,
        collector: Option<&CollectorAddress>,
        settings: Option<Settings>,
    ) -> ResultFate {
        match settings {
            _ if self.collector.is_none() || self.consent == Consent::None => ResultFate::Kept,
            Some(settings) if settings.consent == Consent::None => ResultFate::Kept,
            Some(settings) if self.collector == collector.map(ToString::to_string) => {
                ResultFate::Submitted(Box::new(Settings {
                    consent: settings.consent.min(self.consent),
                    ..settings
                }))
            }
            _ => ResultFate::Waits,
        }
    }

    /// The note of the result in `directory`.
    pub(crate) fn read(directory: &Path) -> Option<Self> {
        read_note(&note_file(directory))
    }

    pub(crate) fn all(results: &Path) -> Vec<Self> {
        let files = fs::read_dir(results).into_iter().flatten().flatten().map(|entry| entry.path());
        let notes = files.filter(|path| path.extension().is_some_and(|ending| ending == ENDING));
        notes.filter_map(|path| read_note(&path)).collect()
    }
}

fn read_note(note: &Path) -> Option<Pending> {
    serde_json::from_slice(&file::read(note, file::SMALL_FILE_BYTES).ok()?).ok()
}

pub(crate) fn is_noted(directory: &Path) -> bool {
    note_file(directory).exists()
}

/// The result is in the outbox, or will never be.
pub(crate) fn forget(directory: &Path) {
    let _was_not_noted = fs::remove_file(note_file(directory));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::SettingsFile;

    #[test]
    fn a_later_decision_makes_the_consent_of_a_measurement_stricter_only() {
        use Consent::{None, Private, Public};
        let home = tempfile::tempdir().unwrap();
        let mut file = SettingsFile::open(Some(&home.path().join("collector.toml"))).unwrap();
        let here: CollectorAddress = "https://c.example".parse().unwrap();
        let other = "https://d.example".parse().unwrap();
        let mut fate = |collector: Option<&CollectorAddress>, then: Consent, now: Consent| {
            let settings = file.decide(now, Option::None).unwrap().clone();
            let collector = collector.map(ToString::to_string);
            let directory = home.path().join("x");
            let note = Pending {
                directory,
                experiment: Option::None,
                server: Option::None,
                collector,
                consent: then,
            };
            match note.fate(Some(&here), Some(settings)) {
                ResultFate::Submitted(settings) => settings.consent.name(),
                ResultFate::Waits => "waits",
                ResultFate::Kept => "kept",
            }
        };
        for (then, now, expected) in [
            (Public, Public, "public"),
            (Private, Public, "private"),
            (Public, Private, "private"),
            (None, Public, "kept"),
            (Public, None, "kept"),
        ] {
            assert_eq!(fate(Some(&here), then, now), expected, "{then} {now}");
        }
        assert_eq!(fate(Some(&other), Public, Public), "waits");
        assert_eq!(fate(Some(&other), Public, None), "kept");
        assert_eq!(fate(Option::None, Public, Public), "kept");
    }

    #[test]
    fn notes_are_found_until_they_are_forgotten() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("ping-20261125-090000");
        let experiment = Some(Name::new("ping").unwrap());
        let collector = Some("https://c.example".to_owned());
        let pending = Pending { directory, experiment, server: None, collector, consent: Consent::Public };
        pending.note().unwrap();
        fs::write(home.path().join("damaged.pending"), "{").unwrap();
        assert_eq!(Pending::all(home.path()), std::slice::from_ref(&pending));
        forget(&pending.directory);
        forget(&pending.directory);
        assert!(Pending::all(home.path()).is_empty());
    }
}
