//! Whether the verdicts of a study hold for real runs: an A/A study, whose two variants are the same network, and an A/B
//! study, whose second variant has 10 % more rate, once for each seed. The runs of both studies alternate.
//!
//! `cargo bench -p pathbench --bench verdicts [-- SEEDS REPETITIONS JOBS]`: 20, 30 and 8 without arguments, 20 minutes. Fails if
//! fewer than 90 % of the seeds have the right verdict, or an interval that holds the true ratio.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the benchmark prints its results")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

use pathbench_record::document::{Comparison, ResultDocument, Verdict};
use pathbench_record::statistics::median;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// Random loss decides when the congestion windows shrink, so that the runs of a study differ. The queues are deep enough
/// that no link idles: goodput is proportional to the sum of the rates.
const NETWORK: &str = r#"
[[path]]
name = "eth"
rate = "10mbit"
delay = "2ms"
loss = "0.2%"

[[path]]
name = "wlan"
rate = "10mbit"
delay = "2ms"
loss = "0.2%"

[run]
transports = ["mptcp"]
pattern = "throughput"
duration = "3s"
congestion = "cubic"

[run.throughput]
omit = "1s"
"#;

/// A study: the two rates of the first path, and the true ratio of goodput.
struct Study {
    name: &'static str,
    rates: &'static str,
    ratio: f64,
    expected: Verdict,
}

const STUDIES: [Study; 2] = [
    Study { name: "a-a", rates: r#"["10mbit", "10000kbit"]"#, ratio: 1.0, expected: Verdict::Same },
    Study { name: "a-b", rates: r#"["10mbit", "12mbit"]"#, ratio: 1.1, expected: Verdict::Different },
];

/// What the comparisons of a study's goodput add up to.
#[derive(Default)]
struct Totals {
    verdicts: [u32; 3],
    /// Seeds with the true ratio in the interval.
    holding: u32,
    ratios: Vec<f64>,
    pairs: u32,
    invalid: usize,
    incomplete: usize,
}

fn main() -> ExitCode {
    let numbers: Vec<u32> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let number = |index: usize, default| numbers.get(index).copied().unwrap_or(default);
    match compare(number(0, 20), number(1, 30), number(2, 8)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(seeds: u32, repetitions: u32, jobs: u32) -> Result<bool, String> {
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    for study in &STUDIES {
        let text =
            format!("name = \"{}\"\n{NETWORK}\n[matrix]\n\"path.eth.rate\" = {}\n", study.name, study.rates);
        std::fs::write(place.path().join(format!("{}.toml", study.name)), text)
            .map_err(|error| error.to_string())?;
    }
    let mut totals = STUDIES.each_ref().map(|_| Totals::default());
    println!("study  seed  pairs  CV, %   ratio  95 % CI           holds the true ratio  verdict");
    for seed in 1..=seeds {
        run(place.path(), seed, repetitions, jobs)?;
        for (study, totals) in STUDIES.iter().zip(&mut totals) {
            let file = place.path().join(format!("{seed}/{}/run.json", study.name));
            let text =
                std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let document: ResultDocument = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            totals.add(study, seed, &document)?;
        }
    }
    let needed = (seeds * 9).div_ceil(10);
    let mut passes = true;
    for (study, totals) in STUDIES.iter().zip(&totals) {
        let [different, same, open] = totals.verdicts;
        println!(
            "{}: different in {different} of {seeds}, same in {same}, cannot tell in {open}; interval holds {} in {} of {seeds}; \
             median ratio {:.4}; {} pairs, {} runs not valid, {} not completed",
            study.name,
            study.ratio,
            totals.holding,
            median(&totals.ratios).unwrap_or_default(),
            totals.pairs,
            totals.invalid,
            totals.incomplete
        );
        // Of the A/A study the issue is a false difference.
        let right = if study.expected == Verdict::Different { different } else { seeds - different };
        passes &= right >= needed && totals.holding >= needed;
    }
    Ok(passes)
}

/// Both studies of a seed. Their links are not measured before each run: that would measure them beside the other runs,
/// and emulated links record how late their packets are.
fn run(place: &Path, seed: u32, repetitions: u32, jobs: u32) -> Result<(), String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pathbench"));
    command.current_dir(place).args(["lab", "run", "--quiet", "--no-calibration"]);
    command.args(STUDIES.iter().map(|study| format!("{}.toml", study.name)));
    let options = [("--repeat", repetitions), ("--seed", seed), ("--jobs", jobs), ("--out", seed)];
    command.args(options.iter().flat_map(|(name, value)| [(*name).to_owned(), value.to_string()]));
    let status = command.stdout(Stdio::null()).status().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("seed {seed}: {command:?}: {status}")) }
}

impl Totals {
    fn add(&mut self, study: &Study, seed: u32, document: &ResultDocument) -> Result<(), String> {
        for run in document.runs.iter().filter(|run| !run.completed) {
            println!("{:5} {seed:5}  {}: {}", study.name, run.id, run.error.as_deref().unwrap_or_default());
        }
        self.invalid += document.runs.iter().filter(|run| !run.valid).count();
        self.incomplete += document.runs.iter().filter(|run| !run.completed).count();
        let mut all = document.summary.comparisons.iter();
        let found = all.find(|one| one.figure == "goodput_mbps");
        let found = found.ok_or_else(|| format!("{} seed {seed}: no comparison", study.name))?;
        // A run without goodput makes the effect a difference.
        let (Some(ratio), Some([low, high])) = (found.ratio, found.ci95) else {
            println!("{:5} {seed:5}: no ratio: {found:?}", study.name);
            self.verdicts[index(found.verdict)] += 1;
            return Ok(());
        };
        let holds = low <= study.ratio && study.ratio <= high;
        println!(
            "{:5} {seed:5} {:6} {:6.2}  {ratio:6.4}  {low:.4} to {high:.4}  {:20}  {}",
            study.name,
            found.pairs.unwrap_or_default(),
            coefficient_of_variation(document, found) * 100.0,
            if holds { "yes" } else { "no" },
            found.verdict.name()
        );
        self.verdicts[index(found.verdict)] += 1;
        self.holding += u32::from(holds);
        self.pairs += found.pairs.unwrap_or_default();
        self.ratios.push(ratio);
        Ok(())
    }
}

const fn index(verdict: Verdict) -> usize {
    match verdict {
        Verdict::Different => 0,
        Verdict::Same => 1,
        Verdict::CannotTell => 2,
    }
}

/// Of the baseline's goodput.
fn coefficient_of_variation(document: &ResultDocument, found: &Comparison) -> f64 {
    let runs = document.runs.iter().filter(|run| run.valid && run.variant == found.baseline.variant);
    let values: Vec<f64> = runs.filter_map(|run| run.goodput_mbps).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (squares / (values.len() as f64 - 1.0)).sqrt() / mean
}
