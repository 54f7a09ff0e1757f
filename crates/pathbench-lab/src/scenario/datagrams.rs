//! `[run.datagrams]`: packets at a constant rate.

use super::plan::PatternPlan;
use super::section::ScenarioSection;
use pathbench_record::datagram::{
    DATAGRAM_HEADER_BYTES, DatagramsParameters, MAX_FRAME_BYTES, MAX_FRAMES_PER_SECOND, MAX_PACKET_BYTES,
};
use pathbench_record::direction::DataDirection;
use pathbench_record::pattern::PatternParameters;
use pathbench_record::transport::TransportLabel;
use std::time::Duration;

/// Reads the table. Only if the pattern `runs`, the number of datagrams must be within the limit.
pub(super) fn read(datagrams: &ScenarioSection<'_>, duration: Duration, runs: bool) -> DatagramsParameters {
    let directions = [
        ("upload", DataDirection::Upload),
        ("download", DataDirection::Download),
        ("both", DataDirection::Both),
    ];
    let presets = [("voice", false), ("video", true)];
    let is_video = datagrams.choice("preset", &presets).unwrap_or(false);
    let preset = if is_video { DatagramsParameters::video() } else { DatagramsParameters::voice() };
    let deadlines = Duration::from_millis(1)..=Duration::from_secs(60);
    let packets = u64::from(DATAGRAM_HEADER_BYTES)..=u64::from(MAX_PACKET_BYTES);
    let frames = u64::from(DATAGRAM_HEADER_BYTES)..=u64::from(MAX_FRAME_BYTES);
    let plan = DatagramsParameters {
        direction: datagrams.choice("direction", &directions).unwrap_or(preset.direction),
        frames_per_second: datagrams
            .count("per_second", 1..=u64::from(MAX_FRAMES_PER_SECOND))
            .unwrap_or(preset.frames_per_second),
        frame_bytes: datagrams.bytes("size", frames).map_or(preset.frame_bytes, |bytes| bytes as u32),
        packet_bytes: datagrams.bytes("packet", packets).map_or(preset.packet_bytes, |bytes| bytes as u32),
        duration,
        deadline: datagrams.duration("deadline", deadlines).unwrap_or(preset.deadline),
        linger: datagrams
            .duration("linger", Duration::ZERO..=Duration::from_secs(60))
            .unwrap_or(preset.linger),
        paths: 1,
    };
    if runs && let Err(wrong) = PatternParameters::Datagrams(plan.clone()).validate() {
        for error in wrong {
            let remedy = "change run.duration, or per_second, size and packet of run.datagrams";
            datagrams.wrong("per_second", error.to_string(), remedy);
        }
    }
    plan
}

/// Each transport must be able to carry each pattern.
pub(super) fn check_fit(run: &ScenarioSection<'_>, labels: &[TransportLabel], patterns: &[PatternPlan]) {
    for pattern in patterns {
        let parameters = pattern.parameters();
        let misfit = labels.iter().find_map(|label| parameters.misfit(label.transport));
        if let Some(problem) = misfit {
            let remedy = match pattern {
                PatternPlan::Datagrams(_) => {
                    "make run.transports of udp, quic and mpquic, or run this pattern in a scenario of its own"
                }
                _ => "remove udp from run.transports, or make the pattern \"datagrams\"",
            };
            run.wrong("transports", problem, remedy);
            return;
        }
    }
}
