//! The bytes that measurements have used, by interface and month, and the executions of the day. The file is written
//! before an execution with the most that it can use, and corrected after it: a power cut in between counts too much, not
//! too little.

use crate::durable;
use crate::limits::OwnerLimits;
use pathbench_program::exit::Failure;
use pathbench_record::file;
use pathbench_record::time::rfc3339_from_unix;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

const FILE: &str = "budget.json";
const SCHEMA: &str = "pathbench.budget/1";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    schema: String,
    /// `2026-11`, UTC.
    month: String,
    /// Interface → bytes in both directions.
    interfaces: BTreeMap<String, u64>,
    /// `2026-11-25`, UTC.
    day: String,
    executions: u32,
    day_bytes: u64,
}

#[derive(Debug)]
pub(crate) struct DataBudget {
    file: PathBuf,
    record: Record,
}

/// The bytes that an execution may use, until its use is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reservation {
    /// Interface → bytes that were left of the month's budget.
    pub(crate) left: BTreeMap<String, u64>,
    pub(crate) bytes: u64,
}

impl DataBudget {
    pub(crate) fn open(directory: &Path) -> Result<Self, Failure> {
        let file = directory.join(FILE);
        let empty = Record { schema: SCHEMA.to_owned(), ..Record::default() };
        let record = match file::read(&file, file::SMALL_FILE_BYTES) {
            // Without its record the agent would use the month's budget twice.
            Ok(text) => serde_json::from_slice(&text).map_err(|error| {
                Failure::failed(format!(
                    "{}: {error}; remove the file to begin with an unused budget",
                    file.display()
                ))
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => empty,
            Err(error) => return Err(Failure::failed(format!("cannot read {}: {error}", file.display()))),
        };
        Ok(Self { file, record })
    }

    /// Begins a new month or day. A clock that goes back begins none: a host without a battery-backed clock starts in
    /// 1970.
    fn turn(&mut self, now_s: u64) {
        let date = rfc3339_from_unix(i64::try_from(now_s).unwrap_or_default());
        let (month, day) = (date.get(..7).unwrap_or_default(), date.get(..10).unwrap_or_default());
        if month > self.record.month.as_str() {
            month.clone_into(&mut self.record.month);
            self.record.interfaces.clear();
        }
        if day > self.record.day.as_str() {
            day.clone_into(&mut self.record.day);
            self.record.executions = 0;
            self.record.day_bytes = 0;
        }
    }

    fn used_bytes(&self, interface: &str) -> u64 {
        self.record.interfaces.get(interface).copied().unwrap_or(0)
    }

    /// Interface → bytes used in this month.
    pub(crate) fn interfaces(&mut self, now_s: u64) -> impl Iterator<Item = (&str, u64)> {
        self.turn(now_s);
        self.record.interfaces.iter().map(|(name, bytes)| (name.as_str(), *bytes))
    }

    /// Bytes that are left in this month.
    fn left(&self, interface: &str, limits: &OwnerLimits) -> u64 {
        limits.month_of(interface).saturating_sub(self.used_bytes(interface))
    }

    /// Reserves `bytes` on each interface, durably; the reason if a limit forbids the execution.
    pub(crate) fn reserve(
        &mut self,
        now_s: u64,
        interfaces: &[String],
        bytes: u64,
        limits: &OwnerLimits,
    ) -> Result<Reservation, String> {
        self.turn(now_s);
        if self.record.executions >= limits.executions_per_day {
            return Err(format!("`limits.executions_per_day` is reached ({})", limits.executions_per_day));
        }
        if self.record.day_bytes.saturating_add(bytes) > limits.day.0 {
            return Err(format!(
                "`limits.day` is {}: {} bytes are used, and the experiment needs {bytes}",
                limits.day, self.record.day_bytes
            ));
        }
        let left: BTreeMap<String, u64> =
            interfaces.iter().map(|name| (name.clone(), self.left(name, limits))).collect();
        if let Some((interface, left)) = left.iter().find(|(_, left)| **left < bytes) {
            return Err(format!(
                "{left} bytes are left of the month's budget of {interface}, and the experiment needs {bytes}"
            ));
        }
        let before = self.record.clone();
        self.record.executions += 1;
        self.record.day_bytes = self.record.day_bytes.saturating_add(bytes);
        for interface in interfaces {
            let used = self.record.interfaces.entry(interface.clone()).or_default();
            *used = used.saturating_add(bytes);
        }
        if let Err(error) = self.write() {
            self.record = before;
            return Err(format!("cannot write {}: {error}", self.file.display()));
        }
        Ok(Reservation { left, bytes })
    }

    /// Replaces a reservation by the use. An interface whose use is unknown keeps the reservation.
    pub(crate) fn settle(
        &mut self,
        now_s: u64,
        reservation: &Reservation,
        used: &BTreeMap<String, u64>,
    ) -> io::Result<()> {
        self.turn(now_s);
        let mut total = 0_u64;
        for interface in reservation.left.keys() {
            let bytes = used.get(interface).copied().unwrap_or(reservation.bytes);
            total = total.saturating_add(bytes);
            // After the turn of the month there is no reservation left.
            if let Some(counted) = self.record.interfaces.get_mut(interface) {
                *counted = counted.saturating_sub(reservation.bytes).saturating_add(bytes);
            } else {
                self.record.interfaces.insert(interface.clone(), bytes);
            }
        }
        self.record.day_bytes = self.record.day_bytes.saturating_sub(reservation.bytes).saturating_add(total);
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        durable::write(&self.file, &[&serde_json::to_vec_pretty(&self.record)?, b"\n"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_record::units::Size;
    use std::fs;

    const NOVEMBER: u64 = 1_795_597_200;
    const DAY: u64 = 86_400;

    fn limits() -> OwnerLimits {
        OwnerLimits { month: Size(1000), day: Size(600), executions_per_day: 4, ..OwnerLimits::default() }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn the_use_is_counted_by_interface_and_survives_a_restart() {
        let home = tempfile::tempdir().unwrap();
        let mut budget = DataBudget::open(home.path()).unwrap();
        let both = names(&["eth0", "wwan0"]);
        let reserved = budget.reserve(NOVEMBER, &both, 300, &limits()).unwrap();
        assert_eq!(
            DataBudget::open(home.path()).unwrap().used_bytes("wwan0"),
            300,
            "it is written before the execution"
        );
        budget.settle(NOVEMBER, &reserved, &BTreeMap::from([("eth0".to_owned(), 100)])).unwrap();
        let mut again = DataBudget::open(home.path()).unwrap();
        assert_eq!((again.used_bytes("eth0"), again.used_bytes("wwan0")), (100, 300));
        assert!(again.reserve(NOVEMBER, &both, 201, &limits()).unwrap_err().contains("limits.day"));
        assert!(again.reserve(NOVEMBER + DAY, &both, 600, &limits()).is_ok());
        assert!(again.reserve(NOVEMBER + 2 * DAY, &both, 200, &limits()).unwrap_err().contains("wwan0"));
        assert!(again.reserve(NOVEMBER + 2 * DAY, &names(&["eth0"]), 200, &limits()).is_ok());
    }

    #[test]
    fn a_new_month_begins_anew_and_a_clock_that_goes_back_does_not() {
        let home = tempfile::tempdir().unwrap();
        let mut budget = DataBudget::open(home.path()).unwrap();
        let one = names(&["eth0"]);
        let limits = OwnerLimits { day: Size(10_000), executions_per_day: 100, ..limits() };
        budget.reserve(NOVEMBER, &one, 900, &limits).unwrap();
        assert!(budget.reserve(NOVEMBER, &one, 200, &limits).is_err());
        assert!(budget.reserve(0, &one, 200, &limits).is_err(), "1970");
        let december = NOVEMBER + 7 * DAY;
        let reserved = budget.reserve(december, &one, 200, &limits).unwrap();
        assert_eq!(reserved.left["eth0"], 1000, "the use of November is gone");
        assert_eq!(budget.used_bytes("eth0"), 200);
    }

    #[test]
    fn measurements_of_the_owner_begin_a_new_month() {
        let home = tempfile::tempdir().unwrap();
        let mut budget = DataBudget::open(home.path()).unwrap();
        let used = |bytes| BTreeMap::from([("eth0".to_owned(), bytes)]);
        let order = Reservation { left: used(u64::MAX), bytes: 0 };
        budget.settle(NOVEMBER, &order, &used(700)).unwrap();
        budget.settle(NOVEMBER + DAY, &order, &used(200)).unwrap();
        assert_eq!(budget.used_bytes("eth0"), 900);
        let december = NOVEMBER + 7 * DAY;
        assert_eq!(budget.interfaces(december).count(), 0, "nothing is used in December");
        budget.settle(december, &order, &used(30)).unwrap();
        assert_eq!(DataBudget::open(home.path()).unwrap().used_bytes("eth0"), 30);
    }

    #[test]
    fn the_executions_of_a_day_are_bounded() {
        let home = tempfile::tempdir().unwrap();
        let mut budget = DataBudget::open(home.path()).unwrap();
        let one = names(&["eth0"]);
        let mut reserve = |at| budget.reserve(at, &one, 1, &limits()).is_ok();
        assert!((0..4).all(|_| reserve(NOVEMBER)));
        assert!(!reserve(NOVEMBER));
        assert!(reserve(NOVEMBER + DAY));
    }

    #[test]
    fn a_damaged_record_is_no_unused_budget() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(FILE), "{").unwrap();
        assert!(DataBudget::open(home.path()).is_err());
    }
}
