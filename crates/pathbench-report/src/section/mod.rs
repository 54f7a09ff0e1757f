//! Findings and tables as data, built once from results. The terminal summary and the HTML report render the same
//! sections; the summary leaves out what only the report shows.

pub(crate) mod findings;
pub(crate) mod links;
pub(crate) mod matrix;
pub(crate) mod mtu;
pub(crate) mod paths;
pub(crate) mod results;
pub(crate) mod run;
pub(crate) mod unified_mss;

use crate::narrative::Tone;
use crate::quantity::{NONE, Unit};
use crate::view::{GroupView, View, variant_text};
use pathbench_record::document::{Distribution, Variant};

#[derive(Debug, Clone, Default)]
pub(crate) struct Section {
    pub(crate) title: String,
    /// Explains the title; beside it in the summary, below the tables in the report.
    pub(crate) remark: String,
    pub(crate) blocks: Vec<Block>,
}

#[derive(Debug, Clone)]
pub(crate) enum Block {
    Findings(Vec<Finding>),
    Table(Table),
    Text(String),
    /// Commands with a sign for those that were run, and how to undo them. They are never cut.
    Commands(Vec<(bool, String, String)>),
}

impl Section {
    pub(crate) fn new(title: impl Into<String>, remark: impl Into<String>, blocks: Vec<Block>) -> Self {
        Self { title: title.into(), remark: remark.into(), blocks }
    }

    /// A section of one table; `None` for a table without rows.
    pub(crate) fn of_table(
        title: impl Into<String>,
        remark: impl Into<String>,
        table: Table,
    ) -> Option<Self> {
        (!table.rows.is_empty()).then(|| Self::new(title, remark, vec![Block::Table(table)]))
    }

    pub(crate) fn of_findings(
        title: impl Into<String>,
        remark: impl Into<String>,
        findings: Vec<Finding>,
    ) -> Option<Self> {
        (!findings.is_empty()).then(|| Self::new(title, remark, vec![Block::Findings(findings)]))
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Finding {
    pub(crate) tone: Tone,
    pub(crate) subject: String,
    pub(crate) text: String,
    pub(crate) details: Vec<String>,
}

impl Finding {
    pub(crate) fn new(tone: Tone, subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self { tone, subject: subject.into(), text: text.into(), details: Vec::new() }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) title: String,
    pub(crate) is_number: bool,
    pub(crate) in_report_only: bool,
}

pub(crate) fn words(title: impl Into<String>) -> Column {
    Column { title: title.into(), is_number: false, in_report_only: false }
}

pub(crate) fn number(title: impl Into<String>) -> Column {
    Column { is_number: true, ..words(title) }
}

impl Column {
    pub(crate) fn in_report_only(self) -> Self {
        Self { in_report_only: true, ..self }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    /// Stands over the row where it differs from the row before: the variant.
    pub(crate) group: String,
    pub(crate) cells: Vec<Cell>,
    pub(crate) notes: Vec<(Tone, String)>,
}

impl Row {
    pub(crate) fn new(cells: Vec<Cell>) -> Self {
        Self { cells, ..Self::default() }
    }

    pub(crate) fn of_variant(variant: &Variant, cells: Vec<Cell>) -> Self {
        Self { group: variant_text(variant), cells, notes: Vec::new() }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Absent,
    Text(String),
    Count(u64),
    Quantity(f64, Unit),
    Median {
        found: Distribution,
        unit: Unit,
        /// It rests on messages that were never acknowledged.
        mark: &'static str,
    },
    Path {
        name: String,
        rank: usize,
    },
    Share {
        rank: usize,
        part: f64,
    },
    Sign(bool),
}

#[derive(Debug, Clone)]
pub(crate) struct Cell {
    pub(crate) value: Value,
    pub(crate) below: Vec<String>,
    /// `None` is plain.
    pub(crate) tone: Option<Tone>,
}

impl Cell {
    pub(crate) fn new(value: Value) -> Self {
        Self { value, below: Vec::new(), tone: None }
    }

    pub(crate) fn absent() -> Self {
        Self::new(Value::Absent)
    }

    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::new(Value::Text(text.into()))
    }

    pub(crate) fn count(count: impl Into<u64>) -> Self {
        Self::new(Value::Count(count.into()))
    }

    /// `None` and values that are no number are absent.
    pub(crate) fn quantity(value: impl Into<Option<f64>>, unit: Unit) -> Self {
        Self::new(match value.into() {
            Some(value) if value.is_finite() => Value::Quantity(value, unit),
            _ => Value::Absent,
        })
    }

    pub(crate) fn bytes(count: impl Into<Option<u64>>) -> Self {
        Self::quantity(count.into().map(|count| count as f64), Unit::Bytes)
    }

    /// A packet size; 0 is an unknown one.
    pub(crate) fn size(bytes: u32) -> Self {
        if bytes == 0 { Self::absent() } else { Self::count(bytes) }
    }

    pub(crate) fn median(found: Option<&Distribution>, unit: Unit, mark: &'static str) -> Self {
        found.map_or_else(Self::absent, |found| Self::new(Value::Median { found: found.clone(), unit, mark }))
    }

    pub(crate) fn path(view: &View, name: &str) -> Self {
        Self::new(Value::Path { name: name.to_owned(), rank: view.paths.rank(name) })
    }

    pub(crate) fn below(mut self, line: impl Into<String>) -> Self {
        let line = line.into();
        self.below.extend((!line.is_empty()).then_some(line));
        self
    }

    pub(crate) fn bad(self, is_bad: bool) -> Self {
        if is_bad { Self { tone: Some(Tone::Bad), ..self } } else { self }
    }
}

impl Value {
    /// The value in words, without markup.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Absent => NONE.to_owned(),
            Self::Text(text) => text.clone(),
            Self::Count(count) => count.to_string(),
            Self::Quantity(value, unit) => (unit.words())(*value),
            Self::Median { found, unit, mark } => format!("{mark}{}", (unit.words())(found.median)),
            Self::Path { name, .. } => name.clone(),
            Self::Share { part, .. } => (Unit::Percent.words())(*part),
            Self::Sign(true) => "✓".to_owned(),
            Self::Sign(false) => "✗".to_owned(),
        }
    }
}

pub(crate) fn label_cell(label: &str, variant: &Variant) -> Cell {
    Cell::text(label).below(variant_text(variant))
}

pub(crate) fn label_of(group: &GroupView) -> String {
    crate::view::name_of(group.label, group.said_pattern(), &Variant::new())
}
