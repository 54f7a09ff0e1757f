//! Access by the credential of a request.

use crate::keys::{KeyPurpose, Keys};
use crate::refusal::Refusal;
use axum::http::{HeaderMap, HeaderValue, header};
use data_encoding::BASE64;
use pathbench_api::digest::Digest;
use pathbench_api::name::Name;
use pathbench_api::token::TokenRefusal;

/// Longest credential that is looked at.
const LONGEST: usize = 1024;

/// The credential of `Authorization: Bearer …`, or the password of `Authorization: Basic …` (RFC 7617).
pub fn credential(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok().filter(|value| value.len() <= LONGEST)?;
    let (scheme, rest) = value.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.trim().to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(BASE64.decode(rest.trim().as_bytes()).ok()?).ok()?;
    decoded.split_once(':').map(|(_, password)| password.to_owned())
}

/// Whether the credential is a name and a password (RFC 7617).
pub fn is_basic(headers: &HeaderMap) -> bool {
    let scheme = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    scheme.is_some_and(|value| value.len() >= 6 && value[..6].eq_ignore_ascii_case(b"basic "))
}

/// The clients that may submit results and check in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubmitAccess {
    /// Everybody, within the limits.
    Open,
    /// Agents with a token.
    Token,
}

#[derive(Debug)]
pub struct Gate {
    pub keys: Keys,
    pub submit: SubmitAccess,
}

impl Gate {
    /// Checks the credential by the key of this purpose; `now` is Unix time in seconds.
    fn check(&self, purpose: KeyPurpose<'_>, headers: &HeaderMap, now: u64) -> Result<(), TokenRefusal> {
        let token = credential(headers).ok_or(TokenRefusal::Missing)?;
        self.keys.token_key(purpose).check(&token, now).map(|_| ())
    }

    pub fn operator(&self, headers: &HeaderMap, now: u64) -> Result<(), Refusal> {
        self.check(KeyPurpose::Admin, headers, now).map_err(|refusal| match refusal {
            TokenRefusal::Missing => Refusal::unauthorized(
                "this needs the operator's token: make one with `pathbench collect token --admin` on the \
                 collector's host",
            ),
            wrong => Refusal::unauthorized(format!("the operator's token: {wrong}")),
        })
    }

    pub fn submitter(&self, headers: &HeaderMap, now: u64) -> Result<(), Refusal> {
        if self.submit == SubmitAccess::Open {
            return Ok(());
        }
        self.check(KeyPurpose::Submit, headers, now).map_err(|refusal| match refusal {
            TokenRefusal::Missing => Refusal::unauthorized(
                "this collector takes results from agents with a token: ask its operator for one and pass it with \
                 --collector-token",
            ),
            wrong => Refusal::unauthorized(format!("the token: {wrong}")),
        })
    }

    pub fn server(&self, name: &Name, headers: &HeaderMap, now: u64) -> Result<(), Refusal> {
        self.check(KeyPurpose::Server(name), headers, now).map_err(|refusal| {
            let why = match refusal {
                TokenRefusal::Missing => "a token is missing".to_owned(),
                wrong => wrong.to_string(),
            };
            Refusal::unauthorized(format!(
                "server {name}: {why}; `pathbench collect server add {name}` makes its key for --token-key"
            ))
        })
    }

    /// The digest of the deletion token, which is the credential of deletions.
    pub fn deletion(headers: &HeaderMap) -> Result<Digest, Refusal> {
        let token = credential(headers).filter(|token| token.len() >= 32).ok_or_else(|| {
            Refusal::unauthorized("deletion needs the deletion token of the agent that submitted the results")
        })?;
        Ok(Digest::compute(token.as_bytes()))
    }
}
