//! Access by the credential of a request.

use crate::keys::Keys;
use crate::refusal::Refusal;
use crate::store::record::RegisteredServer;
use axum::http::{HeaderMap, HeaderValue, header};
use data_encoding::BASE64;
use pathbench_api::digest::Digest;
use pathbench_api::name::Name;
use pathbench_api::token::{Audience, Token, TokenRefusal, is_deletion_token};
use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

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

/// The collector's keys, and the tokens that were revoked: the base of every check.
#[derive(Debug, Clone)]
pub struct Authority {
    pub keys: Keys,
    pub revoked: BTreeSet<String>,
}

/// The one place that compares a credential with what a route needs. Routes without a credential are in
/// `openapi.rs`, which a test compares with this.
#[derive(Debug)]
pub struct Gate {
    pub authority: RwLock<Arc<Authority>>,
    pub submit: SubmitAccess,
}

impl Gate {
    pub fn new(keys: Keys, submit: SubmitAccess) -> Self {
        Self { authority: RwLock::new(Arc::new(Authority { keys, revoked: BTreeSet::new() })), submit }
    }

    pub fn authority(&self) -> Arc<Authority> {
        Arc::clone(&self.authority.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn replace(&self, authority: Authority) {
        *self.authority.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(authority);
    }

    /// Checks the credential against each of `audiences`; `now` is Unix time in seconds.
    fn check(&self, audiences: &[Audience], headers: &HeaderMap, now: u64) -> Result<Token, TokenRefusal> {
        let text = credential(headers).ok_or(TokenRefusal::Missing)?;
        let authority = self.authority();
        let found = Token::read(&text)?.audience;
        let audience = audiences.iter().copied().find(|one| *one == found).unwrap_or(audiences[0]);
        let token = authority.keys.check(audience, &text, now)?;
        if authority.revoked.contains(&token.serial.to_string()) {
            return Err(TokenRefusal::Revoked);
        }
        Ok(token)
    }

    pub fn operator(&self, headers: &HeaderMap, now: u64) -> Result<(), Refusal> {
        self.check(&[Audience::Administration], headers, now).map(drop).map_err(|refusal| match refusal {
            TokenRefusal::Missing => Refusal::unauthorized(
                "this needs the operator's token: make one with `pathbench collect token --admin` on the \
                 collector's host",
            ),
            wrong => Refusal::unauthorized(format!("the operator's token: {wrong}")),
        })
    }

    /// Checks the credential of submissions.
    /// Returns the token if there is a valid one.
    pub fn submitter(&self, headers: &HeaderMap, now: u64) -> Result<Option<Token>, Refusal> {
        let checked = self.check(&[Audience::Submission, Audience::Agent], headers, now);
        if self.submit == SubmitAccess::Open {
            return Ok(checked.ok());
        }
        checked.map(Some).map_err(|refusal| match refusal {
            TokenRefusal::Missing => Refusal::unauthorized(
                "this collector takes results from agents with a token: ask its operator for one and pass it with \
                 --collector-token",
            ),
            wrong => Refusal::unauthorized(format!("the token: {wrong}")),
        })
    }

    /// The token of an agent that names itself `name`; `None` at an open collector, if it presents none.
    pub fn agent(&self, name: &Name, headers: &HeaderMap, now: u64) -> Result<Option<Token>, Refusal> {
        match self.check(&[Audience::Agent], headers, now) {
            Err(TokenRefusal::Missing) if self.submit == SubmitAccess::Open => Ok(None),
            Err(TokenRefusal::Missing) => Err(Refusal::unauthorized(format!(
                "this collector takes agents with a token: ask its operator for one for `{name}` and pass it with \
                 --collector-token"
            ))),
            Err(wrong) => Err(Refusal::unauthorized(format!("the token: {wrong}"))),
            Ok(token) if token.subject == *name => Ok(Some(token)),
            Ok(Token { subject, .. }) => Err(Refusal::unauthorized(format!(
                "the token is for the agent `{subject}`, and this one is named `{name}`: give it that name in \
                 collector.toml, or ask the operator for a token for `{name}`"
            ))),
        }
    }

    /// Checks the report of a registered server.
    pub fn server(
        &self,
        name: &Name,
        registered: Option<&RegisteredServer>,
        headers: &HeaderMap,
        now: u64,
    ) -> Result<(), Refusal> {
        let refused = |why: &dyn std::fmt::Display| {
            Refusal::unauthorized(format!(
                "server {name}: {why}; `pathbench collect server add {name}` makes its key for --token-key"
            ))
        };
        let Some(text) = credential(headers) else { return Err(refused(&"a token is missing")) };
        let registered = registered.ok_or_else(|| refused(&"it is not registered (any more)"))?;
        let (_, key) = self.authority().keys.server(name, registered, now).ok_or_else(|| {
            refused(&"the secret that its key came from has ended; remove the server first")
        })?;
        let token = key.check(Audience::Server, &text, now).map_err(|wrong| refused(&wrong))?;
        if token.subject == *name {
            return Ok(());
        }
        Err(refused(&TokenRefusal::Subject { found: token.subject, needed: name.clone() }))
    }

    /// The digest of the deletion token, which is the credential of deletions.
    pub fn deletion(headers: &HeaderMap) -> Result<Digest, Refusal> {
        let token = credential(headers).filter(|token| is_deletion_token(token)).ok_or_else(|| {
            Refusal::unauthorized("deletion needs the deletion token of the agent that submitted the results")
        })?;
        Ok(Digest::compute(token.as_bytes()))
    }
}
