//! The JSON in HELLO: what is asked of the server.

use crate::iperf::{IperfParameters, nanoseconds};
use pathbench_record::transport::Transport;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;
use thiserror::Error;

/// The only pattern of this version.
const IPERF: &str = "iperf";

/// What is asked of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) transport: Transport,
    pub(crate) patience: Duration,
    pub(crate) parameters: IperfParameters,
}

#[derive(Serialize, Deserialize)]
struct RequestOnWire {
    pattern: String,
    transport: Transport,
    #[serde(rename = "patience_ns", with = "nanoseconds")]
    patience: Duration,
    parameters: Value,
}

/// The request cannot be met as it stands.
#[derive(Debug, Error)]
pub(crate) enum RequestError {
    #[error("this server does not know the pattern `{pattern}`; it knows {IPERF}")]
    UnknownPattern { pattern: String },
    #[error("the request is malformed: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("the request makes no sense: {0}")]
    Parameters(String),
}

impl Request {
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let on_wire = RequestOnWire {
            pattern: IPERF.to_owned(),
            transport: self.transport,
            patience: self.patience,
            parameters: serde_json::to_value(&self.parameters).unwrap_or_default(),
        };
        // A struct of numbers and strings always serialises.
        serde_json::to_vec(&on_wire).unwrap_or_default()
    }

    pub(crate) fn from_json(json: &[u8]) -> Result<Self, RequestError> {
        let RequestOnWire { pattern, transport, patience, parameters } = serde_json::from_slice(json)?;
        if pattern != IPERF {
            let pattern = pattern.chars().take(40).collect();
            return Err(RequestError::UnknownPattern { pattern });
        }
        let parameters: IperfParameters = serde_json::from_value(parameters)?;
        parameters.validate().map_err(|wrong| {
            let words: Vec<String> = wrong.iter().map(ToString::to_string).collect();
            RequestError::Parameters(words.join("; "))
        })?;
        Ok(Self { transport, patience, parameters })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_round_trip_and_others_are_named() {
        let request = Request {
            transport: Transport::Mptcp,
            patience: Duration::from_secs(7),
            parameters: IperfParameters::default(),
        };
        assert_eq!(Request::from_json(&request.to_json()).unwrap(), request);
        let foreign = String::from_utf8(request.to_json()).unwrap().replace("iperf", "ping");
        let error = Request::from_json(foreign.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "this server does not know the pattern `ping`; it knows iperf");
        assert!(matches!(Request::from_json(b"{}"), Err(RequestError::Malformed(_))));
        let empty = String::from_utf8(request.to_json()).unwrap().replace("\"streams\":1", "\"streams\":0");
        assert!(matches!(Request::from_json(empty.as_bytes()), Err(RequestError::Parameters(_))));
    }
}
