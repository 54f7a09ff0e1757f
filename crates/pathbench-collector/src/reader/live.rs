//! What agents measure at this moment.

use super::Reader;
use crate::store::record::{KnownAgent, record};
use crate::store::{Kind, StoreError};
use crate::viewer::Viewer;
use pathbench_api::anonymise::Anonymiser;
use pathbench_api::consent::Consent;
use pathbench_api::live::{EXPIRY_MS, LiveReport, MOST_PATHS};
use pathbench_api::name::Name;
use schemars::JsonSchema;
use serde::Serialize;

/// Reports in an answer.
const MOST_REPORTS: usize = 200;

/// Agents with a live report; each costs a query for its consent.
pub const MOST_AGENTS: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Live {
    /// Unix time of the collector, in milliseconds.
    pub now_ms: u64,
    /// Running measurements that the viewer may see.
    pub running: Vec<LiveReport>,
}

impl Reader {
    /// Everybody sees measurements of agents whose results are public, in the anonymous form.
    pub fn live(&self, viewer: Viewer) -> Result<Live, StoreError> {
        let now_ms = self.clock.unix_ms();
        let mut running = Vec::new();
        let since_ms = now_ms.saturating_sub(EXPIRY_MS);
        for document in self.database.documents_since(Kind::Live, since_ms, MOST_AGENTS)? {
            let Ok(report) = serde_json::from_str::<LiveReport>(&document.body) else { continue };
            if report.problem().is_some() {
                continue;
            }
            let is_visible = viewer == Viewer::Operator || self.is_public(&document.key)?;
            if is_visible {
                running.push(if viewer == Viewer::Operator { report } else { anonymous(report) });
            }
            if running.len() == MOST_REPORTS {
                break;
            }
        }
        Ok(Live { now_ms, running })
    }

    fn is_public(&self, agent: &str) -> Result<bool, StoreError> {
        let known: Option<KnownAgent> = record(self.database.as_ref(), Kind::Agent, agent)?;
        Ok(known.is_some_and(|known| known.check_in.consent == Consent::Public))
    }
}

fn anonymous(report: LiveReport) -> LiveReport {
    let anonymiser = Anonymiser::default();
    let name = |name: Name| {
        let text = anonymiser.text(name.as_str());
        if text == name.as_str() { name } else { Name::nearest(&text) }
    };
    let mut paths = report.paths;
    paths.truncate(MOST_PATHS);
    for path in &mut paths {
        path.name = name(path.name.clone());
    }
    LiveReport {
        agent: name(report.agent),
        experiment: report.experiment.map(name),
        server: report.server.map(name),
        pattern: report.pattern.map(name),
        paths,
        ..report
    }
}
