//! Capture and analysis of packets as they arrive.

use crate::arguments::find_repeated;
use crate::live;
use clap::Args;
use pathbench_host::netlink::NetlinkError;
use pathbench_host::packet_capture::{PacketCapture, PacketCaptureError};
use pathbench_program::exit::Failure;
use pathbench_program::{output, signals};
use pathbench_record::time::SharedClock;
use pathbench_record::trace::TraceDocument;
use pathbench_record::units::Span;
use pathbench_trace::analysis::{AnalysisParameters, LiveAnalysis};
use pathbench_trace::capture::InterfaceDescription;
use pathbench_trace::quic::Quic;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::num::NonZeroU32;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[derive(Debug, Args)]
pub(super) struct LiveArguments {
    /// Capture on this interface instead of reading files, until Ctrl-C; may be repeated. Needs `CAP_NET_RAW`
    #[arg(long, value_name = "IFACE", conflicts_with_all = ["files", "keylog"])]
    pub(super) live: Vec<String>,
    /// End the capture after this time, e.g. 10s
    #[arg(long, value_name = "TIME", requires = "live", conflicts_with = "files")]
    duration: Option<Span>,
    /// Bytes captured of each packet, from the link-layer header on
    #[arg(long, value_name = "BYTES", default_value = "262144", requires = "live", conflicts_with = "files")]
    snap_length: NonZeroU32,
}

/// Longest time until a stop signal is seen. Packets end the wait.
const POLL: Duration = Duration::from_millis(200);

pub(super) struct Captures {
    captures: Vec<(String, PacketCapture)>,
    duration: Option<Duration>,
}

impl Captures {
    pub(super) fn open(arguments: &LiveArguments) -> Result<Self, Failure> {
        let again = find_repeated("--live", &arguments.live);
        if !again.is_empty() {
            return Err(Failure::bad_input(again.join("\n")));
        }
        let open = |name: &String| {
            let capture = PacketCapture::open(name, arguments.snap_length.get()).map_err(failure)?;
            Ok((name.clone(), capture))
        };
        let captures = arguments.live.iter().map(open).collect::<Result<_, Failure>>()?;
        Ok(Self { captures, duration: arguments.duration.map(|span| span.0) })
    }

    /// Captures until the duration is over or a stop signal comes.
    pub(super) fn analyse(
        mut self,
        parameters: &AnalysisParameters,
        quic: Quic,
        clock: &SharedClock,
    ) -> TraceDocument {
        let interface = |(name, capture): &(String, PacketCapture)| {
            let description = InterfaceDescription {
                link_type: capture.link_type(),
                name: Some(name.clone()),
                ..InterfaceDescription::default()
            };
            (name.clone(), description)
        };
        let mut live = LiveAnalysis::new(self.captures.iter().map(interface).collect(), parameters, quic);
        let stop = signals::stop_flag(live::restore_terminal);
        let end = self.duration.map(|duration| clock.now() + duration);
        let names: Vec<&str> = self.captures.iter().map(|(name, _)| name.as_str()).collect();
        output::note(format_args!("pathbench: capturing on {}; Ctrl-C ends the capture", names.join(", ")));
        let mut running: Vec<usize> = (0..self.captures.len()).collect();
        while !running.is_empty() && !stop.load(Ordering::Relaxed) {
            let remaining = end.map_or(POLL, |end| end.duration_since(clock.now()));
            if remaining.is_zero() {
                break;
            }
            self.wait(&running, remaining.min(POLL));
            running.retain(|&index| {
                let capture = &mut self.captures[index].1;
                let received = capture.receive(Duration::ZERO, |time_ns, bytes, original_length| {
                    live.push(index, time_ns, bytes, original_length);
                });
                live.add_dropped(index, capture.take_dropped().into());
                received.map_err(|error| live.set_damage(index, error.to_string())).is_ok()
            });
        }
        for (index, (_, capture)) in self.captures.iter_mut().enumerate() {
            capture.finish(|time_ns, bytes, original_length| {
                live.push(index, time_ns, bytes, original_length);
            });
            live.add_dropped(index, capture.take_dropped().into());
        }
        live.finish()
    }

    /// Waits until one of these captures has packets or an error.
    fn wait(&self, running: &[usize], timeout: Duration) {
        let captures = running.iter().filter_map(|&index| self.captures.get(index));
        let mut polled: Vec<PollFd<'_>> =
            captures.map(|(_, capture)| PollFd::new(capture, PollFlags::IN)).collect();
        let timeout = Timespec::try_from(timeout).unwrap_or_default();
        // Of the errors, only a signal is expected. Then the captures are read early.
        let _early = poll(&mut polled, Some(&timeout));
    }
}

fn failure(error: PacketCaptureError) -> Failure {
    match &error {
        error if error.is_host_unable() => Failure::host_cannot(error),
        PacketCaptureError::Netlink(cause) if cause.is_absent() => {
            Failure::bad_input(format!("{error}; `ip link` shows the interfaces"))
        }
        PacketCaptureError::Netlink(NetlinkError::InvalidName { .. })
        | PacketCaptureError::LinkType { .. } => Failure::bad_input(error),
        _ => Failure::failed(error),
    }
}
