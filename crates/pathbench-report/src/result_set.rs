//! A result as read from files, and the order of its paths.

use crate::list::distinct;
use crate::palette::{Colour, path_colour};
use pathbench_record::delivery::DeliveryLine;
use pathbench_record::directory::{ReadError, Records, ResultDirectory};
use pathbench_record::document::{LinkSample, ProbeLine, ResultDocument};
use pathbench_record::end::MessageLine;
use pathbench_record::event::Event;
use pathbench_record::sample::Sample;
use std::path::PathBuf;

#[derive(Debug, Clone)]
pub struct ResultSet {
    pub document: ResultDocument,
    pub samples: Vec<Sample>,
    pub events: Vec<Event>,
    pub deliveries: Vec<DeliveryLine>,
    pub messages: Vec<MessageLine>,
    pub links: Vec<LinkSample>,
    pub probes: Vec<ProbeLine>,
    pub directory: Option<PathBuf>,
}

impl ResultSet {
    /// Reads an opened result directory; also returns warnings (a missing file, an unfinished result).
    ///
    /// # Errors
    /// [`ReadError`] when a file cannot be read, or one of its lines is broken.
    pub fn read(directory: ResultDirectory) -> Result<(Self, Vec<String>), ReadError> {
        let mut warnings: Vec<String> = directory.warning.clone().into_iter().collect();
        let set = Self {
            samples: taken(directory.lines()?, &mut warnings),
            events: taken(directory.lines()?, &mut warnings),
            deliveries: taken(directory.lines()?, &mut warnings),
            messages: taken(directory.messages()?, &mut warnings),
            links: taken(directory.lines()?, &mut warnings),
            probes: taken(directory.lines()?, &mut warnings),
            directory: Some(directory.path),
            document: directory.document,
        };
        Ok((set, warnings))
    }
}

fn taken<T>(records: Records<T>, warnings: &mut Vec<String>) -> Vec<T> {
    warnings.extend(records.warning);
    records.items
}

/// The paths of one or several results in a fixed order; each path has the same colour in every figure.
#[derive(Debug, Clone, Default)]
pub(crate) struct Paths {
    pub(crate) names: Vec<String>,
}

impl Paths {
    /// Links in the order of the scenario, then paths that only runs or samples name.
    pub(crate) fn of(sets: &[&ResultSet]) -> Self {
        let links = sets.iter().flat_map(|set| {
            let links = &set.document.links;
            links.iter().filter(|link| !links.iter().any(|one| is_part(&link.name, &one.name)))
        });
        let others = sets.iter().flat_map(|set| {
            let runs = set.document.runs.iter().flat_map(|run| &run.paths);
            runs.map(|path| &path.name).chain(set.samples.iter().map(|sample| &sample.path))
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
