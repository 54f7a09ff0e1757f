//! An agent with a local page.

use super::{Workplace, captured, within};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Child;
use std::time::Duration;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// An agent with a page.
pub(crate) struct Agent {
    process: Child,
    pub(crate) url: String,
}

impl Agent {
    pub(crate) fn start(work: &Workplace, address: &str) -> Self {
        Self::run(work, &["--ui", address])
    }

    pub(crate) fn run(work: &Workplace, arguments: &[&str]) -> Self {
        let mut command = work.pathbench(&[&["agent"], arguments].concat());
        command
            .env("XDG_CONFIG_HOME", work.path().join("config"))
            .env("XDG_STATE_HOME", work.path().join("state"));
        let mut process = captured(&mut command);
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { process, url: url.trim().to_owned() }
    }

    /// The header field that a browser sends after it has opened the printed URL, with `Host: 127.0.0.1`.
    pub(crate) fn cookie(&self) -> String {
        let query = self.url.split_once('?').unwrap().1;
        let (first, rest) = self.request(&format!("GET /?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"));
        assert!(first.contains("303") && rest.contains("HttpOnly; SameSite=Strict"), "{first} {rest}");
        let cookie = rest.split("Set-Cookie: ").nth(1).unwrap().split(';').next().unwrap();
        format!("Cookie: {cookie}\r\n")
    }

    /// `POST /api/consent` with these header fields.
    pub(crate) fn consent(&self, fields: &str) -> String {
        let head = "POST /api/consent HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20";
        self.request(&format!("{head}\r\n{fields}\r\n{{\"consent\":\"public\"}}")).0
    }

    /// The header field with the page's token.
    pub(crate) fn token(&self) -> String {
        let cookie = self.cookie();
        let (first, page) = self.request(&format!("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n{cookie}\r\n"));
        assert!(first.contains("200"), "{first}");
        assert!(page.contains("Content-Security-Policy: default-src 'none'; script-src 'self'"), "{page}");
        let token = page.split("name=\"pathbench-token\" content=\"").nth(1).unwrap();
        format!("X-Pathbench-Token: {}\r\n", token.split('"').next().unwrap())
    }

    /// The first line and the rest of an answer.
    pub(crate) fn request(&self, request: &str) -> (String, String) {
        let place = self.url.trim_start_matches("http://").split('/').next().unwrap();
        let port = place.rsplit(':').next().unwrap().parse::<u16>().unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (first, rest) = answer.split_once("\r\n").unwrap_or_default();
        (first.to_owned(), rest.to_owned())
    }

    pub(crate) fn state(&self) -> Value {
        let cookie = self.cookie();
        let (_, rest) = self.request(&format!("GET /api/state HTTP/1.1\r\nHost: localhost\r\n{cookie}\r\n"));
        serde_json::from_str(rest.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// Starts a measurement and returns its outcome.
    pub(crate) fn measure(&self, start: &Value) -> String {
        let (cookie, token, body) = (self.cookie(), self.token(), start.to_string());
        let head = format!("POST /api/start HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}", body.len());
        let (first, rest) = self.request(&format!("{head}\r\n{cookie}{token}\r\n{body}"));
        assert!(first.contains("200"), "{first} {rest}");
        assert!(within(PATIENCE, || self.state()["last"].is_string()), "{}", self.state());
        self.state()["last"].as_str().unwrap().to_owned()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _dead = self.process.kill();
        let _reaped = self.process.wait();
    }
}
