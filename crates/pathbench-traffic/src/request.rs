//! The JSON in HELLO: what is asked of the server.

use pathbench_record::pattern::PatternParameters;
use pathbench_record::transport::Transport;
use pathbench_record::units::milliseconds;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use thiserror::Error;

const PATTERNS: [&str; 4] = ["ping", "bulk", "throughput", "interactive"];

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub transport: Transport,
    #[serde(rename = "patience_ms", with = "milliseconds")]
    pub patience: Duration,
    #[serde(flatten)]
    pub parameters: PatternParameters,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    #[serde(rename = "sample_interval_ms", with = "milliseconds", default)]
    pub sample_interval: Duration,
}

#[derive(Debug, Error)]
pub enum RequestError {
    #[error("this server does not know the pattern `{pattern}`; it knows {}", PATTERNS.join(", "))]
    UnknownPattern { pattern: String },
    #[error("the request is malformed: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("the request makes no sense: {0}")]
    Parameters(String),
}

impl Request {
    pub fn to_json(&self) -> Vec<u8> {
        // A struct of numbers and strings always serialises.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub fn from_json(json: &[u8]) -> Result<Self, RequestError> {
        #[derive(Deserialize)]
        struct Named {
            pattern: String,
        }
        let Named { pattern } = serde_json::from_slice(json)?;
        if !PATTERNS.contains(&pattern.as_str()) {
            let pattern = pattern.chars().take(40).collect();
            return Err(RequestError::UnknownPattern { pattern });
        }
        let request: Self = serde_json::from_slice(json)?;
        request.parameters.validate().map_err(|wrong| {
            let words: Vec<String> = wrong.iter().map(ToString::to_string).collect();
            RequestError::Parameters(words.join("; "))
        })?;
        Ok(request)
    }
}
