//! What the kernel says of a connected socket and of each of its paths.

use crate::connect::open_socket;
use crate::kernel::{self, MPTCP_INFO, MPTCP_SUBFLOW_ADDRS, MPTCP_TCPINFO, SOL_MPTCP};
use crate::ledger::{ObservedSubflow, SubflowLedger};
use crate::mptcp_info::{
    MPTCP_INFO_ROOM, SUBFLOW_ADDRS_SIZE, SUBFLOW_DATA_SIZE, SUBFLOW_INFO_SIZE, full, mptcp_figures,
    subflow_addresses, subflow_info,
};
use crate::options::is_mptcp_socket;
use crate::tcp_info::{Fields, TCP_INFO_ROOM, path_figures};
use crate::telemetry::{ATTEMPTS, ConnectionSnapshot, TelemetryError, TelemetrySource};
use pathbench_record::connection::{FallbackReason, MptcpFigures, Negotiation};
use pathbench_record::transport::Transport;
use socket2::Domain;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Subflows there is room for at first; the buffers grow when a connection has more.
const ROOM_AT_FIRST: usize = 8;

/// Reads a connection's figures. Holds a handle of its own to the socket, which stays open until it is dropped.
#[derive(Debug)]
pub(crate) struct SocketTelemetry {
    socket: OwnedFd,
    transport: Transport,
    local: SocketAddr,
    peer: SocketAddr,
    ledger: SubflowLedger,
    /// The only source to use, when one is prescribed.
    only: Option<TelemetrySource>,
    lacks_full_info: bool,
    was_negotiated: bool,
    room: usize,
    subflow_buffer: Vec<u8>,
    tcp_buffer: Vec<u8>,
}

struct Look {
    listed: Vec<ObservedSubflow>,
    mptcp: Option<MptcpFigures>,
    multipath: Negotiation,
}

impl SocketTelemetry {
    pub(crate) fn new(socket: OwnedFd, transport: Transport, local: SocketAddr, peer: SocketAddr) -> Self {
        let mut telemetry = Self {
            socket,
            transport,
            local,
            peer,
            ledger: SubflowLedger::default(),
            only: None,
            lacks_full_info: false,
            was_negotiated: false,
            room: ROOM_AT_FIRST,
            subflow_buffer: Vec::new(),
            tcp_buffer: Vec::new(),
        };
        // The first look tells a fallback in the handshake from a later one; a failure shows again in `snapshot`.
        let _ = telemetry.snapshot();
        telemetry
    }

    /// Takes figures from `source` alone, or from the best one there is (`None`), and forgets the subflows seen so
    /// far. For tests and comparisons.
    pub(crate) fn restrict_to(&mut self, source: Option<TelemetrySource>) {
        self.ledger = SubflowLedger::default();
        self.only = source;
    }

    /// The connection now, closed subflows included.
    ///
    /// # Errors
    /// See [`TelemetryError`]; what was seen before stays and the next call may succeed.
    pub(crate) fn snapshot(&mut self) -> Result<ConnectionSnapshot, TelemetryError> {
        let look = self.look()?;
        self.was_negotiated |= look.multipath == Negotiation::Negotiated;
        let subflows = self.ledger.observe(look.listed);
        Ok(ConnectionSnapshot { subflows, mptcp: look.mptcp, multipath: look.multipath })
    }

    fn look(&mut self) -> Result<Look, TelemetryError> {
        if self.transport != Transport::Mptcp {
            return self.tcp_look(Negotiation::NotAsked);
        }
        let is_mptcp = is_mptcp_socket(self.socket.as_fd()).map_err(failed("SO_PROTOCOL"))?;
        if !is_mptcp {
            return self.tcp_look(Negotiation::FellBack { reason: FallbackReason::PeerAskedForPlainTcp });
        }
        let full = matches!(self.only, None | Some(TelemetrySource::FullInfo)) && !self.lacks_full_info;
        if full && let Some(look) = self.full_look()? {
            return Ok(look);
        }
        let Some(info) = self.mptcp_info()? else {
            let reason =
                if self.was_negotiated { FallbackReason::InMidLife } else { FallbackReason::InHandshake };
            return self.tcp_look(Negotiation::FellBack { reason });
        };
        if full {
            self.lacks_full_info = true;
        }
        if self.only == Some(TelemetrySource::TcpInfo) {
            return self.tcp_look(Negotiation::Negotiated);
        }
        self.separate_look(info)
    }

    fn tcp_look(&self, multipath: Negotiation) -> Result<Look, TelemetryError> {
        let mut bytes = [0_u8; TCP_INFO_ROOM];
        let length = kernel::option_bytes(self.socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)
            .map_err(failed("TCP_INFO"))?;
        let figures =
            path_figures(&bytes[..length], 0, self.local, self.peer).ok_or_else(|| tcp_too_short(length))?;
        let listed = vec![ObservedSubflow { kernel_id: None, figures }];
        Ok(Look { listed, mptcp: None, multipath })
    }

    /// `MPTCP_FULL_INFO`; `None` when the kernel lacks it or the connection has fallen back.
    fn full_look(&mut self) -> Result<Option<Look>, TelemetryError> {
        let mut header = [0_u8; full::MPTCP_INFO + MPTCP_INFO_ROOM];
        loop {
            self.subflow_buffer.resize(self.room * SUBFLOW_INFO_SIZE, 0);
            self.tcp_buffer.resize(self.room * TCP_INFO_ROOM, 0);
            full::ask(&mut header, TCP_INFO_ROOM as u32, SUBFLOW_INFO_SIZE as u32, self.room as u32);
            let result = kernel::full_info(
                self.socket.as_fd(),
                &mut header,
                (full::SUBFLOW_POINTER, &mut self.subflow_buffer),
                (full::TCP_POINTER, &mut self.tcp_buffer),
                (self.room, SUBFLOW_INFO_SIZE, TCP_INFO_ROOM),
            );
            let length = match result {
                Ok(length) => length,
                Err(error) if is_refusal(&error) => return Ok(None),
                Err(error) => return Err(failed("MPTCP_FULL_INFO")(error)),
            };
            let too_short =
                || TelemetryError::KernelTooOld { what: "MPTCP_FULL_INFO", length, needed: "6.5" };
            let (tcp_size, subflow_size, count) = full::answer(&header[..length]).ok_or_else(too_short)?;
            if count > self.room {
                self.room = count.next_power_of_two();
                continue;
            }
            let info = header.get(full::MPTCP_INFO..length).and_then(mptcp_figures).ok_or_else(too_short)?;
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
            return Ok(Some(Look { listed, multipath: self.in_force(&info), mptcp: Some(info) }));
        }
    }

    /// `MPTCP_TCPINFO` between two looks at `MPTCP_SUBFLOW_ADDRS`: `tcp_info` itself carries no address.
    fn separate_look(&mut self, info: MptcpFigures) -> Result<Look, TelemetryError> {
        for _ in 0..ATTEMPTS {
            let before =
                self.subflow_option(MPTCP_SUBFLOW_ADDRS, "MPTCP_SUBFLOW_ADDRS", SUBFLOW_ADDRS_SIZE)?;
            let tcp_infos = self.subflow_option(MPTCP_TCPINFO, "MPTCP_TCPINFO", TCP_INFO_ROOM)?;
            let after =
                self.subflow_option(MPTCP_SUBFLOW_ADDRS, "MPTCP_SUBFLOW_ADDRS", SUBFLOW_ADDRS_SIZE)?;
            if before != after || before.len() != tcp_infos.len() {
                continue;
            }
            let listed = before
                .iter()
                .zip(&tcp_infos)
                .map(|(addresses, tcp)| {
                    let (local, remote) =
                        subflow_addresses(addresses).ok_or(TelemetryError::KernelTooOld {
                            what: "MPTCP_SUBFLOW_ADDRS",
                            length: addresses.len(),
                            needed: "5.16",
                        })?;
                    let figures =
                        path_figures(tcp, 0, local, remote).ok_or_else(|| tcp_too_short(tcp.len()))?;
                    Ok(ObservedSubflow { kernel_id: None, figures })
                })
                .collect::<Result<_, TelemetryError>>()?;
            return Ok(Look { listed, multipath: self.in_force(&info), mptcp: Some(info) });
        }
        Err(TelemetryError::Unsteady)
    }

    fn subflow_option(
        &mut self,
        option: i32,
        what: &'static str,
        element: usize,
    ) -> Result<Vec<Vec<u8>>, TelemetryError> {
        loop {
            let mut buffer = vec![0_u8; SUBFLOW_DATA_SIZE + self.room * element];
            buffer[0..4].copy_from_slice(&(SUBFLOW_DATA_SIZE as u32).to_ne_bytes()); // size_subflow_data
            buffer[12..16].copy_from_slice(&(element as u32).to_ne_bytes()); // size_user
            let length = kernel::option_bytes(self.socket.as_fd(), SOL_MPTCP, option, &mut buffer)
                .map_err(failed(what))?;
            let header = Fields(&buffer[..length]);
            let (Some(count), Some(size)) = (header.u32(4), header.u32(12)) else {
                return Err(TelemetryError::KernelTooOld { what, length, needed: "5.16" });
            };
            if count as usize > self.room {
                self.room = (count as usize).next_power_of_two();
                continue;
            }
            let data = &buffer[SUBFLOW_DATA_SIZE..];
            return Ok(elements(data, size as usize, count as usize).map(<[u8]>::to_vec).collect());
        }
    }

    /// `MPTCP_INFO`; `None` when the connection has fallen back.
    fn mptcp_info(&self) -> Result<Option<MptcpFigures>, TelemetryError> {
        let mut bytes = [0_u8; MPTCP_INFO_ROOM];
        match read_mptcp_info(self.socket.as_fd(), &mut bytes) {
            Ok(length) => mptcp_figures(&bytes[..length]).map(Some).ok_or(TelemetryError::KernelTooOld {
                what: "MPTCP_INFO",
                length,
                needed: "5.16",
            }),
            Err(error) if !is_refusal(&error) => Err(failed("MPTCP_INFO")(error)),
            // Before 5.16 the option did not exist at all; a fresh socket tells which of the two it is.
            Err(_) if knows_mptcp_info() => Ok(None),
            Err(_) => Err(TelemetryError::KernelTooOld { what: "MPTCP_INFO", length: 0, needed: "5.16" }),
        }
    }

    fn in_force(&self, info: &MptcpFigures) -> Negotiation {
        match (info.fallback, self.was_negotiated) {
            (false, _) => Negotiation::Negotiated,
            (true, true) => Negotiation::FellBack { reason: FallbackReason::InMidLife },
            (true, false) => Negotiation::FellBack { reason: FallbackReason::InHandshake },
        }
    }
}

fn elements(bytes: &[u8], size: usize, count: usize) -> impl Iterator<Item = &[u8]> {
    bytes.chunks_exact(size.max(1)).take(if size == 0 { 0 } else { count })
}

fn read_mptcp_info(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<usize> {
    kernel::option_bytes(socket, SOL_MPTCP, MPTCP_INFO, bytes)
}

fn knows_mptcp_info() -> bool {
    let mut bytes = [0_u8; MPTCP_INFO_ROOM];
    open_socket(Transport::Mptcp, Domain::IPV4)
        .is_ok_and(|socket| read_mptcp_info(socket.as_fd(), &mut bytes).is_ok())
}

/// How a kernel says that it has no such option, and a fallen-back connection that it has no MPTCP any more
/// (`EOPNOTSUPP` over IPv4, `ENOPROTOOPT` over IPv6).
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOPROTOOPT))
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> TelemetryError {
    move |source| TelemetryError::Failed { what, source }
}

fn tcp_too_short(length: usize) -> TelemetryError {
    TelemetryError::KernelTooOld { what: "TCP_INFO", length, needed: "4.19" }
}
