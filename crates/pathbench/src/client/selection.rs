//! Which server: the nearest by the median of a few pings.

use super::address::{ServerName, family};
use super::ping::{self, Answer};
use super::{Client, Target};
use crate::exit::Exit;
use pathbench_record::document::{AddressFamily, ServerRecord};
use pathbench_record::transport::Transport;
use pathbench_traffic::client::ClientError;
use std::net::{IpAddr, SocketAddr};

/// Pings that count, and one before them that does not.
const ROUNDS: u32 = 5;
const WARM_UP: u32 = 1;

/// What came of asking one server.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) server: ServerName,
    /// Its addresses of the families allowed, in the resolver's order.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) outcome: Result<Near, Refusal>,
}

/// A server that answered.
#[derive(Debug)]
pub(crate) struct Near {
    pub(crate) transport: Transport,
    pub(crate) answer: Answer,
}

/// Why a server cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// In words.
    pub(crate) message: String,
    /// The exit code that says so: the server itself said no, this host cannot do it, or the server was not reached.
    pub(crate) exit: Exit,
}

impl From<&ClientError> for Refusal {
    fn from(error: &ClientError) -> Self {
        let when = match error {
            ClientError::Refused { retry_after_ms: Some(ms), .. } => {
                format!(" (try again in {} s)", ms.div_ceil(1000))
            }
            _ => String::new(),
        };
        let exit = match error {
            ClientError::Refused { .. } => Exit::Refused,
            ClientError::Incapable { .. } => Exit::HostCannot,
            _ => Exit::Unreachable,
        };
        Self { message: format!("{error}{when}"), exit }
    }
}

/// What may be tried.
#[derive(Debug, Clone)]
pub(crate) struct Search<'a> {
    /// The family asked for; both when absent.
    pub(crate) family: Option<AddressFamily>,
    /// UDP ports beside each server's own.
    pub(crate) quic_ports: &'a [u16],
    /// Transports asked for; all when empty.
    pub(crate) transports: &'a [Transport],
}

/// Pings one server: over tcp, and where that gets nowhere over quic.
pub(crate) fn ask(client: &Client, server: ServerName, search: &Search<'_>) -> Asked {
    let resolved = match server.resolve() {
        Ok(resolved) => resolved,
        Err(error) => {
            let message = format!("the name {} cannot be resolved: {error}", server.host);
            return refused(server, Vec::new(), message);
        }
    };
    let allowed = |at: &IpAddr| search.family.is_none_or(|wanted| family(*at) == wanted);
    let addresses: Vec<IpAddr> = resolved.into_iter().filter(allowed).collect();
    if addresses.is_empty() {
        let wanted = search.family.map_or("IP", AddressFamily::name);
        let message = format!("{server} has no {wanted} address");
        return refused(server, addresses, message);
    }
    let mut first_error: Option<ClientError> = None;
    for (transport, target) in cheap_tries(&server, &addresses, search) {
        match ping::ping(client, transport, &target, ROUNDS, WARM_UP) {
            Ok(answer) => return Asked { server, addresses, outcome: Ok(Near { transport, answer }) },
            Err(error) => {
                let by_server = matches!(error, ClientError::Refused { .. });
                // The server's own words tell more than a port that does not answer.
                if first_error.is_none() || by_server {
                    first_error = Some(error);
                }
                if by_server {
                    break;
                }
            }
        }
    }
    let outcome = Err(first_error.as_ref().map_or_else(
        || Refusal { message: "no transport to ask it by".to_owned(), exit: Exit::Unreachable },
        Refusal::from,
    ));
    Asked { server, addresses, outcome }
}

fn refused(server: ServerName, addresses: Vec<IpAddr>, message: String) -> Asked {
    Asked { server, addresses, outcome: Err(Refusal { message, exit: Exit::Unreachable }) }
}

/// tcp on every address, then quic on every address and port, as far as they were asked for.
fn cheap_tries(server: &ServerName, addresses: &[IpAddr], search: &Search<'_>) -> Vec<(Transport, Target)> {
    let asked = |transports: [Transport; 2]| {
        search.transports.is_empty() || search.transports.iter().any(|asked| transports.contains(asked))
    };
    let mut tries = Vec::new();
    if asked([Transport::Tcp, Transport::Mptcp]) {
        tries.extend(addresses.iter().map(|&at| (Transport::Tcp, at, server.port)));
    }
    if asked([Transport::Quic, Transport::Mpquic]) {
        for port in std::iter::once(server.port).chain(search.quic_ports.iter().copied()) {
            tries.extend(addresses.iter().map(|&at| (Transport::Quic, at, port)));
        }
    }
    let target = |address, port| Target {
        address: SocketAddr::new(address, port),
        host: server.host.clone(),
        ways: Vec::new(),
    };
    tries.into_iter().map(|(transport, address, port)| (transport, target(address, port))).collect()
}

/// The index of the nearest of those that answered.
pub(crate) fn nearest(asked: &[Asked]) -> Option<usize> {
    let distances = asked.iter().enumerate().filter_map(|(index, asked)| {
        let near = asked.outcome.as_ref().ok()?;
        Some((index, near.answer.median_ms()?))
    });
    distances.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(index, _)| index)
}

/// What the result says of each.
pub(crate) fn records(asked: &[Asked], chosen: Option<usize>) -> Vec<ServerRecord> {
    let record = |(index, asked): (usize, &Asked)| {
        let answer = asked.outcome.as_ref().ok().map(|near| &near.answer);
        ServerRecord {
            address: asked.server.to_string(),
            name: None,
            ping_ms: answer.and_then(Answer::median_ms),
            lost: answer.map_or(0, |answer| answer.lost),
            chosen: chosen == Some(index),
            error: asked.outcome.as_ref().err().map(|refusal| refusal.message.clone()),
        }
    };
    asked.iter().enumerate().map(record).collect()
}

/// One line a server, for the person who waits.
pub(crate) fn lines(asked: &[Asked], chosen: Option<usize>) -> Vec<String> {
    let several = asked.len() > 1;
    let line = |(index, asked): (usize, &Asked)| match &asked.outcome {
        Ok(near) => {
            let median = near.answer.median_ms().unwrap_or_default();
            let mark = if chosen == Some(index) && several { ", the nearest" } else { "" };
            format!("{}: {median:.1} ms by {}{mark}", asked.server, near.transport)
        }
        Err(refusal) => format!("{}: {}", asked.server, refusal.message),
    };
    asked.iter().enumerate().map(line).collect()
}
