//! The JSON in HELLO: what is asked of the server.

use pathbench_record::pattern::PatternParameters;
use pathbench_record::transport::Transport;
use pathbench_record::units::nanoseconds;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;
use thiserror::Error;

/// The patterns of this version.
const PATTERNS: [&str; 4] = ["ping", "bulk", "iperf", "interactive"];

/// What is asked of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Over which transport.
    pub transport: Transport,
    /// How long the client waits without progress.
    pub patience: Duration,
    /// The pattern.
    pub parameters: PatternParameters,
    /// What allows the client to ask.
    pub token: Option<String>,
    /// The server need not look at its paths more often than this.
    pub sample_interval: Option<Duration>,
}

#[derive(Serialize, Deserialize)]
struct RequestOnWire {
    pattern: String,
    transport: Transport,
    #[serde(rename = "patience_ns", with = "nanoseconds")]
    patience: Duration,
    /// Those of the pattern.
    parameters: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sample_interval_ns: Option<u64>,
}

/// The request cannot be met as it stands.
#[derive(Debug, Error)]
pub enum RequestError {
    /// The server has no such pattern.
    #[error("this server does not know the pattern `{pattern}`; it knows {}", PATTERNS.join(", "))]
    UnknownPattern {
        /// What was asked for.
        pattern: String,
    },
    /// Not the JSON of a request.
    #[error("the request is malformed: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Parameters out of their ranges.
    #[error("the request makes no sense: {0}")]
    Parameters(String),
}

impl Request {
    /// The JSON.
    pub fn to_json(&self) -> Vec<u8> {
        let parameters = match &self.parameters {
            PatternParameters::Ping(ping) => serde_json::to_value(ping),
            PatternParameters::Bulk(bulk) => serde_json::to_value(bulk),
            PatternParameters::Iperf(iperf) => serde_json::to_value(iperf),
            PatternParameters::Interactive(interactive) => serde_json::to_value(interactive),
        };
        let on_wire = RequestOnWire {
            pattern: self.parameters.name().to_owned(),
            transport: self.transport,
            patience: self.patience,
            parameters: parameters.unwrap_or_default(),
            token: self.token.clone(),
            sample_interval_ns: self
                .sample_interval
                .map(|interval| u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX)),
        };
        // A struct of numbers and strings always serialises.
        serde_json::to_vec(&on_wire).unwrap_or_default()
    }

    /// Reads the JSON; the parameters are within their ranges.
    pub fn from_json(json: &[u8]) -> Result<Self, RequestError> {
        let RequestOnWire { pattern, transport, patience, parameters, token, sample_interval_ns } =
            serde_json::from_slice(json)?;
        if !PATTERNS.contains(&pattern.as_str()) {
            let pattern = pattern.chars().take(40).collect();
            return Err(RequestError::UnknownPattern { pattern });
        }
        let parameters = match pattern.as_str() {
            "ping" => PatternParameters::Ping(serde_json::from_value(parameters)?),
            "bulk" => PatternParameters::Bulk(serde_json::from_value(parameters)?),
            "interactive" => PatternParameters::Interactive(serde_json::from_value(parameters)?),
            _ => PatternParameters::Iperf(serde_json::from_value(parameters)?),
        };
        parameters.validate().map_err(|wrong| {
            let words: Vec<String> = wrong.iter().map(ToString::to_string).collect();
            RequestError::Parameters(words.join("; "))
        })?;
        let sample_interval = sample_interval_ns.map(Duration::from_nanos);
        Ok(Self { transport, patience, parameters, token, sample_interval })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_record::pattern::IperfParameters;

    #[test]
    fn requests_round_trip_and_others_are_named() {
        let request = Request {
            transport: Transport::Mptcp,
            patience: Duration::from_secs(7),
            parameters: IperfParameters::default().into(),
            token: Some("t".to_owned()),
            sample_interval: Some(Duration::from_secs(1)),
        };
        assert_eq!(Request::from_json(&request.to_json()).unwrap(), request);
        let foreign = String::from_utf8(request.to_json()).unwrap().replace("iperf", "chat");
        let error = Request::from_json(foreign.as_bytes()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "this server does not know the pattern `chat`; it knows ping, bulk, iperf, interactive"
        );
        assert!(matches!(Request::from_json(b"{}"), Err(RequestError::Malformed(_))));
        let empty = String::from_utf8(request.to_json()).unwrap().replace("\"streams\":1", "\"streams\":0");
        assert!(matches!(Request::from_json(empty.as_bytes()), Err(RequestError::Parameters(_))));
    }
}
