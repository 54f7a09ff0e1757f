//! The datagrams of a connection (RFC 9221): unreliable, in no order, and subject to congestion control.
//!
//! Queues are bounded. A datagram that finds the queue of the library full is not sent. With the scheduler `redundant`
//! a copy leaves at once on each path whose congestion window has space, and there is no queue for the others.

use super::datagram_queues::{DatagramArrival, DatagramDeparture};
use super::state::Core;
use crate::driver::{Driver, Wakeup};
use crate::library::DatagramPrefix;
use crate::path_event::path_number;
use bytes::Bytes;
use noq_proto::{ConnectionEvent, SendDatagramError};
use pathbench_record::time::Timestamp;
use std::time::Instant;
use thiserror::Error;

/// Arrivals and departures that wait for the application; further ones are counted only.
const MOST_WAITING: usize = 16_384;
/// Datagrams that wait for the next turn, with the scheduler `redundant`.
const MOST_COPIED: usize = 64;
/// Calls of the library for one copy: frames of other paths may precede it.
const COPY_POLLS: usize = 4;

/// Why a datagram was not sent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DatagramUnsent {
    #[error("the queue of datagrams is full")]
    Full,
    #[error("a datagram of {bytes} bytes: at most {most_bytes} bytes fit into a packet of the path")]
    TooLarge { bytes: usize, most_bytes: usize },
    #[error("the peer does not accept datagrams (RFC 9221)")]
    Unsupported,
    #[error("the connection has ended")]
    Ended,
}

impl Core {
    /// From now on, the connection's datagrams are kept for the application.
    pub fn use_datagrams(&mut self) {
        self.datagrams.is_used = true;
        self.meter.note_datagrams();
    }

    /// Passes a packet to the library; `at` is when the kernel received it, if that is known.
    pub fn handle_packet(&mut self, event: ConnectionEvent, at: Option<Timestamp>) {
        if self.datagrams.is_used {
            self.meter.note_packet(at);
        }
        self.inner.handle_event(event);
    }

    /// Queues a datagram, which leaves in the next turn or when the congestion window has space.
    ///
    /// # Errors
    /// The datagram is not sent.
    pub fn send_datagram(&mut self, datagram: Bytes) -> Result<(), DatagramUnsent> {
        if self.broken || self.ended.is_some() {
            return Err(DatagramUnsent::Ended);
        }
        let bytes = datagram.len();
        let most_bytes = self.inner.datagrams().max_size().ok_or(DatagramUnsent::Unsupported)?;
        if bytes > most_bytes {
            return Err(DatagramUnsent::TooLarge { bytes, most_bytes });
        }
        if self.board.sends_copies() {
            if self.datagrams.outgoing.len() >= MOST_COPIED {
                return Err(DatagramUnsent::Full);
            }
            self.datagrams.outgoing.push_back(datagram);
            return Ok(());
        }
        self.inner.datagrams().send(datagram, false).map_err(|error| match error {
            SendDatagramError::TooLarge => DatagramUnsent::TooLarge { bytes, most_bytes },
            SendDatagramError::Blocked(_) => DatagramUnsent::Full,
            SendDatagramError::UnsupportedByPeer | SendDatagramError::Disabled => DatagramUnsent::Unsupported,
        })
    }

    /// The datagrams that arrived since the last call, in order.
    pub fn take_arrivals(&mut self) -> Vec<DatagramArrival> {
        std::mem::take(&mut self.datagrams.arrivals)
    }

    /// The datagrams that were sent since the last call, in order.
    pub fn take_departures(&mut self) -> Vec<DatagramDeparture> {
        std::mem::take(&mut self.datagrams.departures)
    }

    /// Arrivals and departures that found their lists full.
    pub fn omitted_datagrams(&self) -> u64 {
        self.datagrams.omitted
    }

    /// Sends a copy of each waiting datagram on each path; whether a packet was sent.
    pub(super) fn send_copies(&mut self, driver: &mut dyn Driver, now: Instant) -> bool {
        let mut sent = false;
        while let Some(datagram) = self.datagrams.outgoing.pop_front() {
            for path in self.board.copy_paths(datagram.len()) {
                let space = self.inner.datagrams().send_buffer_space();
                if self.inner.datagrams().send(datagram.clone(), false).is_err() {
                    break;
                }
                for _ in 0..COPY_POLLS {
                    if self.inner.datagrams().send_buffer_space() >= space {
                        break;
                    }
                    self.buffer.clear();
                    let transmit = self.board.poll_copy(&mut self.inner, path, now, &mut self.buffer);
                    let Some(transmit) = transmit else { break };
                    self.hand_over(driver, transmit);
                    sent = true;
                }
            }
        }
        sent
    }

    pub(super) fn note_departures(&mut self, now: Instant) {
        if !self.datagrams.is_used {
            return;
        }
        let at = self.epoch.timestamp(now);
        for (path, datagram) in self.meter.take_departures() {
            let queues = &mut self.datagrams;
            if queues.departures.len() < MOST_WAITING {
                queues.departures.push(DatagramDeparture { path: path_number(path), at, datagram });
            } else {
                queues.omitted += 1;
            }
        }
    }

    /// Takes received datagrams from the library. Without a user they are dropped.
    pub(super) fn receive_datagrams(&mut self, now: Instant) {
        let at = self.epoch.timestamp(now);
        while let Some(datagram) = self.inner.datagrams().recv() {
            if !self.datagrams.is_used {
                continue;
            }
            let Some((path, stamp)) = self.meter.take_arrival(&datagram) else { continue };
            let queues = &mut self.datagrams;
            if queues.arrivals.is_empty() {
                self.wakeups.push(Wakeup::Connection);
            }
            if queues.arrivals.len() < MOST_WAITING {
                let datagram = DatagramPrefix::new(&datagram);
                let at = stamp.unwrap_or(at);
                queues.arrivals.push(DatagramArrival { path: path_number(path), at, datagram });
            } else {
                queues.omitted += 1;
            }
        }
    }
}
