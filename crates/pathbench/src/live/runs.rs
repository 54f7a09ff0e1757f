//! Live records of runs: their begin, intervals, events and end.

use super::LiveOutput;
use pathbench_analysis::assembly::ClientPath;
use pathbench_analysis::metrics::live::IntervalMeter;
use pathbench_record::document::RunRecord;
use pathbench_record::event::Event;
use pathbench_record::live::{LiveRecord, LiveRunEnd, LiveRunStage, LiveRunStart, Progress, RunStage};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The runs that have begun and not ended.
pub(crate) struct LiveRuns {
    pub(crate) live: LiveOutput,
    running: BTreeMap<String, Running>,
}

struct Running {
    meter: IntervalMeter,
    paths: Vec<ClientPath>,
}

impl LiveRuns {
    pub(crate) const fn new(live: LiveOutput) -> Self {
        Self { live, running: BTreeMap::new() }
    }

    pub(crate) fn begin(&mut self, start: LiveRunStart) {
        if self.live.is_on() {
            let meter = IntervalMeter::new(start.run.clone(), self.live.interval());
            self.running.insert(start.run.clone(), Running { meter, paths: Vec::new() });
            self.live.send(|| LiveRecord::RunStart(start));
        }
    }

    pub(crate) fn stage(&self, run: &str, stage: RunStage) {
        self.live.send(|| LiveRecord::RunStage(LiveRunStage { run: run.to_owned(), stage }));
    }

    /// The client's paths, which name the addresses in later progress.
    pub(crate) fn paths(&mut self, run: &str, paths: &[ClientPath]) {
        if let Some(running) = self.running.get_mut(run) {
            running.paths = paths.to_vec();
        }
    }

    pub(crate) fn progress(&mut self, run: &str, progress: Progress) {
        let Some(Running { meter, paths }) = self.running.get_mut(run) else { return };
        if let Some(interval) = meter.add(progress, &|local| path_name(paths, local)) {
            self.live.send(|| LiveRecord::Interval(interval));
        }
    }

    pub(crate) fn events(&self, events: Vec<Event>) {
        for event in events {
            self.live.send(|| LiveRecord::Event(event));
        }
    }

    pub(crate) fn end(&mut self, record: &RunRecord) {
        if let Some(Running { mut meter, paths }) = self.running.remove(&record.id)
            && let Some(interval) = meter.finish(&|local| path_name(&paths, local))
        {
            self.live.send(|| LiveRecord::Interval(interval));
        }
        self.live.send(|| LiveRecord::RunEnd(Box::new(LiveRunEnd::from(record))));
    }
}

/// The path of a local address; the address itself if no path has it.
pub(crate) fn path_name(paths: &[ClientPath], local: IpAddr) -> String {
    let path = paths.iter().find(|path| path.addresses.contains(&local));
    path.map_or_else(|| local.to_string(), |path| path.name.clone())
}
