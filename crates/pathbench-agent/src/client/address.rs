//! The address of a collector: `https://HOST[:PORT][/PATH]`, or `http://` on a trusted network.

use pathbench_record::text::printable;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use ureq::http::Uri;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectorAddress {
    /// Without a slash at its end.
    base: String,
    is_encrypted: bool,
    host: String,
}

impl CollectorAddress {
    /// The URL of a path that begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// A name or an address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub(crate) const fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// Whether others on the path can read the results and the token.
    pub fn is_exposed(&self) -> bool {
        let is_loopback = self.host == "localhost"
            || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        !self.is_encrypted && !is_loopback
    }
}

impl FromStr for CollectorAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("`{}` is not the URL of a collector: {why}", printable(text, 200));
        let uri: Uri = text.trim().parse().map_err(|_| wrong("write it as https://collector.example"))?;
        let is_encrypted = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong("it begins with https:// or http://")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("a token is given with --collector-token, not in the URL"));
        }
        if uri.query().is_some() || text.contains('#') {
            return Err(wrong("leave out everything from ? or #"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        if host.is_empty() {
            return Err(wrong("it names no host"));
        }
        let scheme = if is_encrypted { "https" } else { "http" };
        let path = uri.path().trim_end_matches('/');
        let base = format!("{scheme}://{}{path}", authority.as_str().to_ascii_lowercase());
        Ok(Self { base, is_encrypted, host })
    }
}

impl fmt::Display for CollectorAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)
    }
}
