//! The keys of a collector: its secrets, from which the keys of tokens are derived.

use crate::store::record::{RegisteredServer, put_record, record};
use crate::store::{Database, DocumentKind, StoreError};
use data_encoding::HEXLOWER;
use pathbench_api::name::Name;
use pathbench_api::token::{Audience, NotAValidity, Token, TokenKey, TokenRefusal};
use pathbench_program::random;
use ring::hmac;
use std::fmt;
use std::time::Duration;

/// A secret is accepted, or the tokens that it made are worth nothing.
#[derive(Clone)]
struct Secret {
    bytes: [u8; 32],
    /// Unix time in seconds until which it is accepted; `None` for the current one, which makes new tokens.
    until: Option<u64>,
}

/// The secrets of a collector, the current one first; all collectors of one database share them.
#[derive(Clone)]
pub struct Keys(Vec<Secret>);

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(secret)")
    }
}

impl Secret {
    fn derive(&self, label: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.bytes);
        HEXLOWER.encode(hmac::sign(&key, label.as_bytes()).as_ref())
    }

    /// Tells the secrets of a collector apart and says nothing about them.
    fn id(&self) -> String {
        self.derive("id")[..16].to_owned()
    }

    fn is_accepted(&self, now: u64) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// 64 characters are never too short.
fn token_key(text: &str) -> TokenKey {
    TokenKey::from_text(text).unwrap_or_else(|error| unreachable!("{error}"))
}

impl Keys {
    pub fn new(secret: [u8; 32]) -> Self {
        Self(vec![Secret { bytes: secret, until: None }])
    }

    /// From the text of their file: 64 hexadecimal digits a line, with the time of their end except in the first one.
    pub fn parse(text: &str) -> Option<Self> {
        let secret = |line: &str| {
            let (digits, until) = match line.split_once(" until ") {
                Some((digits, until)) => (digits, Some(until.trim().parse().ok()?)),
                None => (line, None),
            };
            Some(Secret { bytes: HEXLOWER.decode(digits.trim().as_bytes()).ok()?.try_into().ok()?, until })
        };
        let secrets: Vec<Secret> = text.trim().lines().map(secret).collect::<Option<_>>()?;
        let is_current = |(index, secret): (usize, &Secret)| (index == 0) == secret.until.is_none();
        (!secrets.is_empty() && secrets.iter().enumerate().all(is_current)).then_some(Self(secrets))
    }

    /// The text of their file.
    pub fn file_text(&self) -> String {
        let line = |secret: &Secret| {
            let until = secret.until.map(|until| format!(" until {until}")).unwrap_or_default();
            format!("{}{until}\n", HEXLOWER.encode(&secret.bytes))
        };
        self.0.iter().map(line).collect()
    }

    /// These keys behind a new secret, for at most `keep` from `now`; those that have ended are gone.
    pub fn rotate(&self, secret: [u8; 32], now: u64, keep: Duration) -> Self {
        let end = now.saturating_add(keep.as_secs());
        let earlier = self.0.iter().filter(|earlier| earlier.is_accepted(now));
        let earlier =
            earlier.map(|one| Secret { until: Some(one.until.map_or(end, |until| until.min(end))), ..*one });
        Self(std::iter::once(Secret { bytes: secret, until: None }).chain(earlier).collect())
    }

    /// Whether the current secret of `other` is one of these.
    pub fn include(&self, other: &Self) -> bool {
        self.0.iter().any(|secret| secret.bytes == other.current().bytes)
    }

    fn current(&self) -> &Secret {
        &self.0[0]
    }

    /// A token of this collector.
    pub fn mint(
        &self,
        audience: Audience,
        subject: &Name,
        now: u64,
        validity: Duration,
    ) -> Result<String, NotAValidity> {
        token_key(&self.current().derive("collector")).mint(audience, subject, random::bytes(), now, validity)
    }

    /// The same token for its whole validity from now.
    pub fn renew(&self, token: &Token, now: u64) -> String {
        token_key(&self.current().derive("collector")).renew(token, now)
    }

    /// Checks a token of this collector; `now` is Unix time in seconds.
    pub fn check(&self, audience: Audience, text: &str, now: u64) -> Result<Token, TokenRefusal> {
        let mut result = Err(TokenRefusal::Wrong);
        for secret in self.0.iter().filter(|secret| secret.is_accepted(now)) {
            result = token_key(&secret.derive("collector")).check(audience, text, now);
            if result != Err(TokenRefusal::Wrong) {
                break;
            }
        }
        result
    }

    /// Registers a server, or changes its address, and returns the text of its key file. A server that was removed never
    /// has the same key again.
    pub fn register(
        &self,
        database: &dyn Database,
        name: &Name,
        address: Option<String>,
        now_ms: u64,
    ) -> Result<String, StoreError> {
        let earlier: Option<RegisteredServer> = record(database, DocumentKind::Server, name.as_str())?;
        let earlier = earlier.filter(|server| self.server(name, server, now_ms / 1000).is_some());
        let server = match earlier {
            Some(server) => RegisteredServer { address, ..server },
            None => RegisteredServer {
                address,
                salt: Some(HEXLOWER.encode(&random::bytes::<8>())),
                secret: Some(self.current().id()),
            },
        };
        put_record(database, DocumentKind::Server, name.as_str(), &server, now_ms)?;
        Ok(self.server(name, &server, now_ms / 1000).map(|(text, _)| text).unwrap_or_default())
    }

    /// The text of a registered server's key file for `pathbench serve --token-key`, and the key; `None` if its secret
    /// has ended.
    pub fn server(&self, name: &Name, server: &RegisteredServer, now: u64) -> Option<(String, TokenKey)> {
        let secret = match &server.secret {
            Some(id) => self.0.iter().find(|secret| secret.id() == *id)?,
            // Registered before secrets could be rotated.
            None => self.0.last()?,
        };
        let salt = server.salt.as_deref().map(|salt| format!("/{salt}")).unwrap_or_default();
        let text = secret.is_accepted(now).then(|| secret.derive(&format!("server/{name}{salt}")))?;
        let key = token_key(&text);
        Some((text, key))
    }
}
