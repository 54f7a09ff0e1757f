//! A result in JSON.

use super::results::ResultReader;
use crate::store::StoredResult;
use crate::viewer::{View, Viewer};
use pathbench_api::Uuid;
use pathbench_api::consent::Consent;
use pathbench_api::summary::Summary;
use schemars::JsonSchema;
use serde::Serialize;

/// A result as the viewer may see it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ResultEntry {
    id: Uuid,
    /// Unix time in milliseconds.
    received_ms: u64,
    consent: Consent,
    /// Whether it was submitted with its raw part.
    raw: bool,
    /// Path of its page.
    page: String,
    /// Absent if it is damaged. Without the names of operators and servers that fewer than three people share.
    summary: Option<Summary>,
    /// Only for the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<Uuid>,
    /// Only for the operator: the number of the change that added it.
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<u64>,
}

pub(super) fn entry(reader: &ResultReader, result: &StoredResult, view: View) -> ResultEntry {
    let is_operator = view.viewer == Viewer::Operator;
    ResultEntry {
        id: result.id,
        received_ms: result.received_ms,
        consent: result.consent,
        raw: result.raw.is_some(),
        page: format!("{}/results/{}", view.prefix, result.id),
        summary: reader.summary(result, view.viewer),
        agent: is_operator.then_some(result.agent),
        sequence: is_operator.then_some(result.sequence),
    }
}
