//! The state of a connection and of each of its paths, as reported by the kernel or by QUIC.

use crate::kernel::{self, MPTCP_INFO, MPTCP_SUBFLOW_ADDRS, MPTCP_TCPINFO, SOL_MPTCP};
use crate::kernel_answers::{
    FULL_MPTCP_INFO, MPTCP_INFO_CAPACITY, SUBFLOW_ADDRS_SIZE, SUBFLOW_DATA_SIZE, SUBFLOW_INFO_SIZE,
    TCP_INFO_CAPACITY, full_info, mptcp_figures, path_figures, subflow_addresses, subflow_info,
};
use crate::ledger::{ObservedSubflow, SubflowLedger};
use crate::options::SocketOptions;
use crate::socket::{ConnectedSocket, is_mptcp_socket, open_socket};
use pathbench_host::egress::EgressLookup;
use pathbench_host::netlink::message::u32_at;
use pathbench_record::connection::{FallbackReason, MptcpFigures, Negotiation};
use pathbench_record::sample::PathFigures;
use pathbench_record::transport::Transport;
use serde::Serialize;
use socket2::Domain;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use thiserror::Error;

/// Attempts to read the addresses before and after the figures with the same result.
const ATTEMPTS: usize = 8;

/// A connection and its subflows at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConnectionSnapshot {
    /// Every subflow in order of appearance, closed ones with their last figures. The last 32 closed subflows are kept
    /// individually, earlier ones as sums.
    pub subflows: Vec<PathFigures>,
    /// Figures of the connection as a whole; absent for tcp and after a fallback.
    pub mptcp: Option<MptcpFigures>,
    /// Whether multipath is in force.
    pub multipath: Negotiation,
}

/// The kernel interface that supplies the figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TelemetrySource {
    /// `MPTCP_FULL_INFO` (6.5): one consistent call, with the kernel's subflow ids.
    FullInfo,
    /// `MPTCP_INFO`, `MPTCP_TCPINFO` and `MPTCP_SUBFLOW_ADDRS` (5.16).
    SeparateOptions,
    /// `TCP_INFO`: one path. On an mptcp connection, the initial subflow only.
    TcpInfo,
}

/// The figures could not be read.
#[derive(Debug, Error)]
pub enum TelemetryError {
    /// The kernel's answer is too short for the figures.
    #[error("this kernel reports too little of {what} ({length} bytes): it requires Linux {needed} or newer")]
    KernelTooOld {
        what: &'static str,
        length: usize,
        /// The oldest sufficient kernel.
        needed: &'static str,
    },
    #[error("subflows of the connection changed during each of {ATTEMPTS} attempts to read them")]
    Unsteady,
    #[error("reading {what} of the connection: {source}")]
    Failed { what: &'static str, source: io::Error },
}

/// Initial capacity in subflows; the buffers grow with the connection.
const INITIAL_CAPACITY: usize = 8;

/// Reads a connection's figures. Holds a duplicate descriptor, which keeps the socket open until it is dropped.
#[derive(Debug)]
pub(crate) struct SocketTelemetry {
    socket: OwnedFd,
    transport: Transport,
    local: SocketAddr,
    peer: SocketAddr,
    ledger: SubflowLedger,
    /// The only source to use, if prescribed.
    only: Option<TelemetrySource>,
    lacks_full_info: bool,
    /// `None`: interfaces are not looked up.
    egress: Option<EgressLookup>,
    was_negotiated: bool,
    capacity: usize,
    subflow_buffer: Vec<u8>,
    tcp_buffer: Vec<u8>,
}

struct Reading {
    listed: Vec<ObservedSubflow>,
    mptcp: Option<MptcpFigures>,
    multipath: Negotiation,
}

impl SocketTelemetry {
    pub(crate) fn new(connected: &ConnectedSocket) -> io::Result<Self> {
        let mut telemetry = Self {
            socket: connected.duplicate()?,
            transport: connected.transport,
            local: connected.local,
            peer: connected.peer,
            ledger: SubflowLedger::default(),
            only: None,
            lacks_full_info: false,
            egress: None,
            was_negotiated: false,
            capacity: INITIAL_CAPACITY,
            subflow_buffer: Vec::new(),
            tcp_buffer: Vec::new(),
        };
        // The first snapshot distinguishes a fallback in the handshake from a later one; `snapshot` reports a failure
        // again.
        let _ = telemetry.snapshot();
        Ok(telemetry)
    }

    pub(crate) fn restrict_to(&mut self, source: Option<TelemetrySource>) {
        self.ledger = SubflowLedger::default();
        self.only = source;
    }

    /// From now on, snapshots name the interface of each subflow, where this host shows it. The calling thread must be in
    /// the network namespace of the connection.
    pub(crate) fn look_up_interfaces(&mut self) {
        self.egress = EgressLookup::open().ok();
    }

    pub(crate) fn snapshot(&mut self) -> Result<ConnectionSnapshot, TelemetryError> {
        let mut reading = self.read()?;
        if let Some(mptcp) = &reading.mptcp {
            let unacked = mptcp.write_seq.zip(mptcp.snd_una);
            for ObservedSubflow { figures, .. } in &mut reading.listed {
                // Data sequence numbers wrap at 2^64 (RFC 8684, section 3.3.1).
                figures.connection_unacked_bytes = unacked.map(|(next, first)| next.wrapping_sub(first));
                figures.connection_received_bytes = mptcp.bytes_received;
            }
        }
        self.was_negotiated |= reading.multipath == Negotiation::Negotiated;
        let mut subflows = self.ledger.observe(reading.listed);
        if let Some(egress) = &mut self.egress {
            self.ledger.name_interfaces(|figures| egress.interface(figures.local, figures.remote));
            subflows = self.ledger.subflows();
        }
        Ok(ConnectionSnapshot { subflows, mptcp: reading.mptcp, multipath: reading.multipath })
    }

    fn read(&mut self) -> Result<Reading, TelemetryError> {
        if self.transport != Transport::Mptcp {
            return self.read_tcp_info(Negotiation::NotAsked);
        }
        let is_mptcp = is_mptcp_socket(self.socket.as_fd()).map_err(telemetry_error("SO_PROTOCOL"))?;
        if !is_mptcp {
            return self
                .read_tcp_info(Negotiation::FellBack { reason: FallbackReason::PeerAskedForPlainTcp });
        }
        let full = matches!(self.only, None | Some(TelemetrySource::FullInfo)) && !self.lacks_full_info;
        if full && let Some(reading) = self.read_full_info()? {
            return Ok(reading);
        }
        let Some(info) = self.mptcp_info()? else { return self.read_tcp_info(self.fallback()) };
        if full {
            self.lacks_full_info = true;
        }
        if self.only == Some(TelemetrySource::TcpInfo) {
            return self.read_tcp_info(Negotiation::Negotiated);
        }
        self.read_separate_options(info)
    }

    fn read_tcp_info(&self, multipath: Negotiation) -> Result<Reading, TelemetryError> {
        let mut bytes = [0_u8; TCP_INFO_CAPACITY];
        let length = kernel::option_bytes(self.socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)
            .map_err(telemetry_error("TCP_INFO"))?;
        let figures =
            path_figures(&bytes[..length], 0, self.local, self.peer).ok_or_else(|| tcp_too_short(length))?;
        let listed = vec![ObservedSubflow { kernel_id: None, figures }];
        Ok(Reading { listed, mptcp: None, multipath })
    }

    /// `MPTCP_FULL_INFO`; `None` if the kernel lacks it or the connection fell back.
    fn read_full_info(&mut self) -> Result<Option<Reading>, TelemetryError> {
        let mut header = [0_u8; FULL_MPTCP_INFO + MPTCP_INFO_CAPACITY];
        loop {
            self.subflow_buffer.resize(self.capacity * SUBFLOW_INFO_SIZE, 0);
            self.tcp_buffer.resize(self.capacity * TCP_INFO_CAPACITY, 0);
            let buffers = (&mut self.subflow_buffer[..], &mut self.tcp_buffer[..]);
            let length = match kernel::full_info(self.socket.as_fd(), &mut header, buffers, self.capacity) {
                Ok(length) => length,
                Err(error) if is_refusal(&error) => return Ok(None),
                Err(error) => return Err(telemetry_error("MPTCP_FULL_INFO")(error)),
            };
            let too_short =
                || TelemetryError::KernelTooOld { what: "MPTCP_FULL_INFO", length, needed: "6.5" };
            let (tcp_size, subflow_size, count) = full_info(&header[..length]).ok_or_else(too_short)?;
            if count > self.capacity {
                self.capacity = count.next_power_of_two();
                continue;
            }
            let info = header.get(FULL_MPTCP_INFO..length).and_then(mptcp_figures).ok_or_else(too_short)?;
            let subflows = elements(&self.subflow_buffer, subflow_size, count);
            let tcp_infos = elements(&self.tcp_buffer, tcp_size, count);
            let listed = subflows
                .zip(tcp_infos)
                .map(|(subflow, tcp)| {
                    let (id, local, remote) = subflow_info(subflow).ok_or_else(too_short)?;
                    let figures =
                        path_figures(tcp, id, local, remote).ok_or_else(|| tcp_too_short(tcp.len()))?;
                    Ok(ObservedSubflow { kernel_id: Some(id), figures })
                })
                .collect::<Result<_, TelemetryError>>()?;
            return Ok(Some(Reading { listed, multipath: self.negotiation(&info), mptcp: Some(info) }));
        }
    }

    /// `MPTCP_TCPINFO` between two reads of `MPTCP_SUBFLOW_ADDRS`: `tcp_info` itself has no address.
    fn read_separate_options(&mut self, info: MptcpFigures) -> Result<Reading, TelemetryError> {
        for _ in 0..ATTEMPTS {
            let before = self.subflow_addresses()?;
            let tcp_infos = self.subflow_option(MPTCP_TCPINFO, "MPTCP_TCPINFO", TCP_INFO_CAPACITY)?;
            let after = self.subflow_addresses()?;
            if before != after || before.len() != tcp_infos.len() {
                continue;
            }
            let listed = before
                .iter()
                .zip(&tcp_infos)
                .map(|(addresses, tcp)| {
                    let (local, remote) = subflow_addresses(addresses)
                        .ok_or(too_short("MPTCP_SUBFLOW_ADDRS", addresses.len()))?;
                    let figures =
                        path_figures(tcp, 0, local, remote).ok_or_else(|| tcp_too_short(tcp.len()))?;
                    Ok(ObservedSubflow { kernel_id: None, figures })
                })
                .collect::<Result<_, TelemetryError>>()?;
            return Ok(Reading { listed, multipath: self.negotiation(&info), mptcp: Some(info) });
        }
        Err(TelemetryError::Unsteady)
    }

    fn subflow_addresses(&mut self) -> Result<Vec<Vec<u8>>, TelemetryError> {
        self.subflow_option(MPTCP_SUBFLOW_ADDRS, "MPTCP_SUBFLOW_ADDRS", SUBFLOW_ADDRS_SIZE)
    }

    fn subflow_option(
        &mut self,
        option: i32,
        what: &'static str,
        element: usize,
    ) -> Result<Vec<Vec<u8>>, TelemetryError> {
        loop {
            let mut buffer = vec![0_u8; SUBFLOW_DATA_SIZE + self.capacity * element];
            buffer[0..4].copy_from_slice(&(SUBFLOW_DATA_SIZE as u32).to_ne_bytes()); // size_subflow_data
            buffer[12..16].copy_from_slice(&(element as u32).to_ne_bytes()); // size_user
            let length = kernel::option_bytes(self.socket.as_fd(), SOL_MPTCP, option, &mut buffer)
                .map_err(telemetry_error(what))?;
            let header = &buffer[..length];
            let (Some(count), Some(size)) = (u32_at(header, 4), u32_at(header, 12)) else {
                return Err(too_short(what, length));
            };
            if count as usize > self.capacity {
                self.capacity = (count as usize).next_power_of_two();
                continue;
            }
            let data = &buffer[SUBFLOW_DATA_SIZE..];
            return Ok(elements(data, size as usize, count as usize).map(<[u8]>::to_vec).collect());
        }
    }

    /// `MPTCP_INFO`; `None` when the connection has fallen back.
    fn mptcp_info(&self) -> Result<Option<MptcpFigures>, TelemetryError> {
        let mut bytes = [0_u8; MPTCP_INFO_CAPACITY];
        match read_mptcp_info(self.socket.as_fd(), &mut bytes) {
            Ok(length) => mptcp_figures(&bytes[..length]).map(Some).ok_or(too_short("MPTCP_INFO", length)),
            Err(error) if !is_refusal(&error) => Err(telemetry_error("MPTCP_INFO")(error)),
            // Before 5.16 the option did not exist; a new socket distinguishes this from a fallback.
            Err(_) if knows_mptcp_info() => Ok(None),
            Err(_) => Err(too_short("MPTCP_INFO", 0)),
        }
    }

    fn negotiation(&self, info: &MptcpFigures) -> Negotiation {
        if info.fallback { self.fallback() } else { Negotiation::Negotiated }
    }

    fn fallback(&self) -> Negotiation {
        let reason =
            if self.was_negotiated { FallbackReason::InMidLife } else { FallbackReason::InHandshake };
        Negotiation::FellBack { reason }
    }
}

fn elements(bytes: &[u8], size: usize, count: usize) -> impl Iterator<Item = &[u8]> {
    bytes.chunks_exact(size.max(1)).take(if size == 0 { 0 } else { count })
}

fn read_mptcp_info(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<usize> {
    kernel::option_bytes(socket, SOL_MPTCP, MPTCP_INFO, bytes)
}

fn knows_mptcp_info() -> bool {
    let mut bytes = [0_u8; MPTCP_INFO_CAPACITY];
    open_socket(Transport::Mptcp, Domain::IPV4, &SocketOptions::default())
        .is_ok_and(|socket| read_mptcp_info(socket.as_fd(), &mut bytes).is_ok())
}

/// The error of a kernel without the option, and of a connection that fell back to TCP (`EOPNOTSUPP` over IPv4,
/// `ENOPROTOOPT` over IPv6).
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOPROTOOPT))
}

fn telemetry_error(what: &'static str) -> impl Fn(io::Error) -> TelemetryError {
    move |source| TelemetryError::Failed { what, source }
}

/// An answer to an option of Linux 5.16 or newer.
fn too_short(what: &'static str, length: usize) -> TelemetryError {
    TelemetryError::KernelTooOld { what, length, needed: "5.16" }
}

fn tcp_too_short(length: usize) -> TelemetryError {
    TelemetryError::KernelTooOld { what: "TCP_INFO", length, needed: "4.19" }
}
