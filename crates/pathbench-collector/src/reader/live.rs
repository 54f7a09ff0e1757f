//! The running measurements of agents.

use super::results::ResultReader;
use crate::store::record::RunningAgent;
use crate::store::{DocumentKind, StoreError};
use crate::viewer::Viewer;
use pathbench_api::anonymise::Anonymiser;
use pathbench_api::live::{EXPIRY_MS, LiveReport, MOST_PATHS};
use schemars::JsonSchema;
use serde::Serialize;

/// Reports in an answer.
const MOST_REPORTS: usize = 200;

/// Agents with a live report.
pub const MOST_AGENTS: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Live")]
pub struct LiveAnswer {
    /// Unix time of the collector, in milliseconds.
    pub now_ms: u64,
    /// Running measurements that the viewer may see.
    pub running: Vec<LiveReport>,
}

impl ResultReader {
    /// Everybody sees measurements of agents whose results are public, in the anonymous form, without the name of a server
    /// that few people use.
    pub fn live(&self, viewer: Viewer) -> Result<LiveAnswer, StoreError> {
        let now_ms = self.clock.unix_ms();
        let mut running = Vec::new();
        let since_ms = now_ms.saturating_sub(EXPIRY_MS);
        for document in self.database.documents_since(DocumentKind::Live, since_ms, ("", MOST_AGENTS))? {
            let Ok(agent) = serde_json::from_str::<RunningAgent>(&document.body) else { continue };
            if agent.report.problem().is_some() || !viewer.may_see(agent.consent) {
                continue;
            }
            running.push(if viewer == Viewer::Operator {
                agent.report
            } else {
                self.anonymous_report(agent.report)
            });
            if running.len() == MOST_REPORTS {
                break;
            }
        }
        Ok(LiveAnswer { now_ms, running })
    }

    fn anonymous_report(&self, mut report: LiveReport) -> LiveReport {
        report.paths.truncate(MOST_PATHS);
        let LiveReport { agent, experiment, server, pattern, paths, .. } = &mut report;
        let anonymiser = Anonymiser::default();
        *server = server.take().filter(|server| self.shows_server(server));
        if let Some(server) = server {
            anonymiser.server_name(server);
        }
        let optional = [experiment, pattern].into_iter().flatten();
        let paths = paths.iter_mut().map(|path| &mut path.name);
        optional.chain(paths).chain([agent]).for_each(|name| anonymiser.name(name));
        report
    }
}
