//! Load of this machine: pressure stall information (Documentation/accounting/psi.rst) and stolen time (proc(5)).

use pathbench_record::document::MachineLoad;
use pathbench_record::file;
use std::time::Duration;

/// Counters of waiting and stolen time since boot; `None` where the kernel does not report a counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadCounters {
    /// Time in which at least one task waited for a CPU, for input or output, for memory.
    waited: [Option<Duration>; 3],
    cpu: Option<CpuTime>,
}

/// Clock ticks of all CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CpuTime {
    all: u64,
    stolen: u64,
}

impl LoadCounters {
    pub fn read() -> Self {
        let read = |path: &str| file::read_text(path, file::SMALL_FILE_BYTES).ok();
        let pressure = ["cpu", "io", "memory"].map(|resource| read(&format!("/proc/pressure/{resource}")));
        Self::parse(pressure.each_ref().map(Option::as_deref), read("/proc/stat").as_deref())
    }

    /// Parses `/proc/pressure/{cpu,io,memory}` and `/proc/stat`.
    pub fn parse(pressure: [Option<&str>; 3], stat: Option<&str>) -> Self {
        Self { waited: pressure.map(|text| waited(text?)), cpu: stat.and_then(cpu_time) }
    }

    /// The load in the time `measured` since these counters; `None` if the kernel reports no load.
    pub fn load_since(&self, earlier: &Self, measured: Duration) -> Option<MachineLoad> {
        let share = |part: f64, whole: f64| (whole > 0.0).then(|| (part / whole * 100.0).clamp(0.0, 100.0));
        let [cpu, io, memory] = [0, 1, 2].map(|index| {
            let waited = self.waited[index]?.checked_sub(earlier.waited[index]?)?;
            share(waited.as_secs_f64(), measured.as_secs_f64())
        });
        let steal = self.cpu.zip(earlier.cpu).and_then(|(now, then)| {
            // Some hypervisors let the counter of stolen time run backwards.
            let stolen = now.stolen.saturating_sub(then.stolen);
            share(stolen as f64, now.all.checked_sub(then.all)? as f64)
        });
        [cpu, io, memory, steal].iter().any(Option::is_some).then_some(MachineLoad {
            measured_ms: measured.as_secs_f64() * 1e3,
            cpu_pressure_percent: cpu,
            io_pressure_percent: io,
            memory_pressure_percent: memory,
            steal_percent: steal,
        })
    }
}

/// `total` of the line `some avg10=0.00 avg60=0.00 avg300=0.00 total=1234`, in microseconds.
fn waited(text: &str) -> Option<Duration> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?;
    total.parse().ok().map(Duration::from_micros)
}

/// The line `cpu user nice system idle iowait irq softirq steal guest guest_nice`; user and nice contain the guests' time.
fn cpu_time(text: &str) -> Option<CpuTime> {
    const FIELDS: usize = 8;
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> =
        line.split_ascii_whitespace().take(FIELDS).map_while(|field| field.parse().ok()).collect();
    let stolen = *fields.get(FIELDS - 1)?;
    Some(CpuTime { all: fields.iter().fold(0, |sum, field| sum.saturating_add(*field)), stolen })
}
