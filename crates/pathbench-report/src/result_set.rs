//! A result as read from files, and the order of its paths.

use crate::list::distinct;
use crate::palette::{Colour, path_colour};
use crate::restoration::Restoration;
use pathbench_analysis::comparison;
use pathbench_record::directory::{LineIndex, ReadError, ResultDirectory, RunLines};
use pathbench_record::document::{Group, ResultDocument, RunRecord};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A result: its document, and where its lines come from.
#[derive(Debug, Clone)]
pub struct ResultSet {
    pub document: ResultDocument,
    pub lines: LineSource,
    pub directory: Option<PathBuf>,
}

impl ResultSet {
    /// Indexes the lines of an opened result directory; also returns warnings (a missing file, an unfinished result).
    ///
    /// # Errors
    /// [`ReadError`] when a file cannot be read, or one of its lines is no object with a run. Other broken lines are
    /// found when their run is read.
    pub fn read(directory: ResultDirectory) -> Result<(Self, Vec<String>), ReadError> {
        let index = directory.index()?;
        let warnings = index.warnings.clone();
        let lines = LineSource { index: Some(Arc::new(index)), ..LineSource::default() };
        let mut set = Self { lines, directory: Some(directory.path), document: directory.document };
        // Results of other versions, and those joined from several, lack them.
        if set.document.summary.comparisons.is_empty() || set.document.summary.headline.is_none() {
            comparison::complete(&mut set.document);
        }
        Ok((set, warnings))
    }

    /// The directory, or the scenario's name of a result in memory.
    pub(crate) fn location(&self) -> String {
        let directory = self.directory.as_ref().map(|path| path.display().to_string());
        directory.unwrap_or_else(|| self.document.scenario.name.clone())
    }

    /// The groups with a valid run.
    pub(crate) fn valid_groups(&self) -> impl Iterator<Item = &Group> {
        self.document.summary.groups.iter().filter(|group| group.valid > 0)
    }
}

/// The lines of a result: those of a directory, read run by run, or lines in memory.
#[derive(Debug, Clone, Default)]
pub struct LineSource {
    index: Option<Arc<LineIndex>>,
    /// Lines of all runs; none if the result is in a directory.
    pub held: RunLines,
    failure: OnceLock<Arc<ReadError>>,
    /// By the run's id, of a directory: summary, figures and page need them, and to read every run again takes most of
    /// their time.
    restorations: Arc<Mutex<HashMap<String, Vec<Restoration>>>>,
}

impl LineSource {
    /// The lines of one run.
    ///
    /// # Errors
    /// [`ReadError`] when a file cannot be read, or a line of the run is broken.
    pub fn of_run(&self, run: &str) -> Result<RunLines, ReadError> {
        match &self.index {
            Some(index) => index.read(run),
            None => Ok(RunLines {
                samples: lines_of(&self.held.samples, |line| line.run == run),
                events: lines_of(&self.held.events, |line| line.run == run),
                deliveries: lines_of(&self.held.deliveries, |line| line.run == run),
                messages: lines_of(&self.held.messages, |line| line.run == run),
                datagrams: lines_of(&self.held.datagrams, |line| line.run == run),
                links: lines_of(&self.held.links, |line| line.run == run),
            }),
        }
    }

    /// As [`Self::of_run`], for drawing: a run whose lines cannot be read has none, and [`Self::failure`] has the
    /// reason.
    pub(crate) fn of_run_or_none(&self, run: &str) -> RunLines {
        self.of_run(run).unwrap_or_else(|error| {
            self.failure.get_or_init(|| Arc::new(error));
            RunLines::default()
        })
    }

    /// The restorations of a run, found once.
    pub(crate) fn restorations(
        &self,
        run: &RunRecord,
        find: impl FnOnce() -> Vec<Restoration>,
    ) -> Vec<Restoration> {
        if self.index.is_none() {
            return find();
        }
        let known = || self.restorations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known().get(&run.id) {
            return found.clone();
        }
        let found = find();
        known().insert(run.id.clone(), found.clone());
        found
    }

    /// The bytes of the run's lines in their files.
    pub(crate) fn bytes(&self, run: &str) -> u64 {
        self.index.as_ref().map_or(0, |index| index.bytes(run))
    }

    /// The first error met while summary, figures or page were made. What was made is incomplete then.
    pub fn failure(&self) -> Option<Arc<ReadError>> {
        self.failure.get().cloned()
    }
}

fn lines_of<T: Clone>(lines: &[T], is_of_run: impl Fn(&T) -> bool) -> Vec<T> {
    lines.iter().filter(|line| is_of_run(line)).cloned().collect()
}

/// The paths of one or several results in a fixed order; each path has the same colour in every figure.
#[derive(Debug, Clone, Default)]
pub(crate) struct Paths {
    pub(crate) names: Vec<String>,
}

impl Paths {
    /// Links in the order of the scenario, then paths that only runs name.
    pub(crate) fn from_sets(sets: &[&ResultSet]) -> Self {
        let links = sets.iter().flat_map(|set| {
            let links = &set.document.links;
            links.iter().filter(|link| !links.iter().any(|one| is_part(&link.name, &one.name)))
        });
        let others = sets.iter().flat_map(|set| {
            let runs = set.document.runs.iter().flat_map(|run| &run.paths);
            runs.map(|path| &path.name)
        });
        let names = distinct(links.map(|link| &link.name).chain(others));
        Self { names: names.into_iter().cloned().collect() }
    }

    /// The position of `name` in the order. An inner link has the position of its path; unknown names are at the end.
    pub(crate) fn rank(&self, name: &str) -> usize {
        let exact = self.names.iter().position(|known| known == name);
        let whole = || self.names.iter().position(|known| is_part(name, known));
        exact.or_else(whole).unwrap_or(self.names.len())
    }

    pub(crate) fn colour(&self, name: &str) -> Colour {
        path_colour(self.rank(name))
    }
}

/// Whether `link` is an inner link of `path`: `wlan.hop` is one of `wlan`.
pub(crate) fn is_part(link: &str, path: &str) -> bool {
    !path.is_empty() && link.strip_prefix(path).is_some_and(|rest| rest.len() > 1 && rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_links_have_the_colour_of_their_path() {
        let paths = Paths { names: ["eth", "wlan"].map(str::to_owned).into() };
        assert_eq!(paths.colour("wlan.hop"), paths.colour("wlan"));
        assert_ne!(paths.colour("wlan2.hop"), paths.colour("wlan"));
        assert!(!is_part("wlan", "wlan") && !is_part("wlan.", "wlan") && !is_part(".hop", ""));
    }
}
