//! Blocks of a section: findings, tables and their cells.

use crate::narrative::Tone;
use crate::quantity::{NONE, Unit, bounds};
use crate::view::{GroupView, View, variant_text};
use pathbench_record::document::{Distribution, Variant};

#[derive(Debug, Clone, Default)]
pub(crate) struct Section {
    pub(crate) title: String,
    /// Explains the title: next to the title in the summary, below the tables in the report.
    pub(crate) remark: String,
    pub(crate) blocks: Vec<Block>,
}

#[derive(Debug, Clone)]
pub(crate) enum Block {
    Findings(Vec<Finding>),
    Table(Table),
    Text(String),
    /// Commands with their state (run or not), and the commands that undo them. Commands are never truncated.
    Commands(Vec<(bool, String, String)>),
    /// Findings, each with the Wireshark display filter of the packets that show it. Filters are never truncated.
    Evidence(Vec<(Finding, String)>),
}

impl Section {
    pub(crate) fn new(title: impl Into<String>, remark: impl Into<String>, blocks: Vec<Block>) -> Self {
        Self { title: title.into(), remark: remark.into(), blocks }
    }

    pub(crate) fn of_findings(
        title: impl Into<String>,
        remark: impl Into<String>,
        findings: Vec<Finding>,
    ) -> Option<Self> {
        (!findings.is_empty()).then(|| Self::new(title, remark, vec![Block::Findings(findings)]))
    }

    /// The section with its bad findings only.
    pub(crate) fn of_problems(mut self) -> Option<Self> {
        for block in &mut self.blocks {
            if let Block::Findings(findings) = block {
                findings.retain(|one| one.tone == Tone::Bad);
            }
        }
        self.blocks.retain(|block| matches!(block, Block::Findings(findings) if !findings.is_empty()));
        (!self.blocks.is_empty()).then_some(self)
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
    /// Whether the title is for screen readers only, because the cells need none.
    pub(crate) is_title_hidden: bool,
}

/// A table that is built column by column from items, one row per item.
pub(crate) struct Items<T> {
    items: Vec<T>,
    pub(crate) table: Table,
}

impl<T> Items<T> {
    pub(crate) fn new(items: impl IntoIterator<Item = T>) -> Self {
        let items: Vec<T> = items.into_iter().collect();
        let rows = items.iter().map(|_| Row::default()).collect();
        Self { items, table: Table { columns: Vec::new(), rows } }
    }

    pub(crate) fn words(self, title: impl Into<String>, cell: impl Fn(&T) -> Cell) -> Self {
        self.column(title.into(), false, cell)
    }

    pub(crate) fn number(self, title: impl Into<String>, cell: impl Fn(&T) -> Cell) -> Self {
        self.column(title.into(), true, cell)
    }

    fn column(mut self, title: String, is_number: bool, cell: impl Fn(&T) -> Cell) -> Self {
        self.table.columns.push(Column { title, is_number, in_report_only: false, is_title_hidden: false });
        self.each(|row, item| row.cells.push(cell(item)))
    }

    pub(crate) fn with_hidden_title(mut self) -> Self {
        self.table.columns.iter_mut().rev().take(1).for_each(|column| column.is_title_hidden = true);
        self
    }

    pub(crate) fn in_report_only(mut self) -> Self {
        self.table.columns.iter_mut().rev().take(1).for_each(|column| column.in_report_only = true);
        self
    }

    pub(crate) fn grouped(self, variant: impl Fn(&T) -> &Variant) -> Self {
        self.each(|row, item| row.group = variant_text(variant(item)))
    }

    pub(crate) fn each(mut self, change: impl Fn(&mut Row, &T)) -> Self {
        self.table.rows.iter_mut().zip(&self.items).for_each(|(row, item)| change(row, item));
        self
    }

    /// Removes the columns without a value, which the terminal omits anyway, from the report as well.
    pub(crate) fn without_empty_columns(mut self) -> Self {
        let Table { columns, rows } = &mut self.table;
        for index in (0..columns.len()).rev() {
            let mut cells = rows.iter().filter_map(|row| row.cells.get(index));
            if cells.all(|cell| matches!(cell.value, Value::Absent)) {
                columns.remove(index);
                rows.iter_mut()
                    .filter(|row| index < row.cells.len())
                    .for_each(|row| drop(row.cells.remove(index)));
            }
        }
        self
    }

    pub(crate) fn section(self, title: impl Into<String>, remark: impl Into<String>) -> Option<Section> {
        let section = Section::new(title, remark, vec![Block::Table(self.table)]);
        (!self.items.is_empty()).then_some(section)
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    /// The variant: a heading above the row if it differs from the previous row's.
    pub(crate) group: String,
    pub(crate) cells: Vec<Cell>,
    pub(crate) notes: Vec<(Tone, String)>,
}

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Absent,
    Text(String),
    Count(u64),
    Quantity(f64, Unit),
    Median { found: Distribution, unit: Unit, mark: &'static str },
    Path { name: String, rank: usize },
    Share { rank: usize, part: f64 },
    Sign(bool),
}

#[derive(Debug, Clone)]
pub(crate) struct Cell {
    pub(crate) value: Value,
    pub(crate) below: Vec<String>,
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

    /// `None` and NaN are absent.
    pub(crate) fn quantity(value: impl Into<Option<f64>>, unit: Unit) -> Self {
        Self::new(match value.into() {
            Some(value) if value.is_finite() => Value::Quantity(value, unit),
            _ => Value::Absent,
        })
    }

    pub(crate) fn bytes(count: impl Into<Option<u64>>) -> Self {
        Self::quantity(count.into().map(|count| count as f64), Unit::Bytes)
    }

    /// A packet size; 0 is unknown.
    pub(crate) fn size(bytes: u32) -> Self {
        if bytes == 0 { Self::absent() } else { Self::count(bytes) }
    }

    pub(crate) fn median(found: Option<&Distribution>, unit: Unit, mark: &'static str) -> Self {
        found.map_or_else(Self::absent, |found| Self::new(Value::Median { found: found.clone(), unit, mark }))
    }

    pub(crate) fn path(view: &View, name: &str) -> Self {
        Self::new(Value::Path { name: name.to_owned(), rank: view.paths.rank(name) })
    }

    pub(crate) fn share(view: &View, path: &str, part: f64) -> Self {
        Self::new(Value::Share { rank: view.paths.rank(path), part })
    }

    pub(crate) fn with_line(mut self, line: impl Into<String>) -> Self {
        let line = line.into();
        self.below.extend((!line.is_empty()).then_some(line));
        self
    }

    /// The bounds of a median, and the lines below the value.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        let bounds = match &self.value {
            Value::Median { found, unit, .. } => bounds(found, unit.words()),
            _ => String::new(),
        };
        Some(bounds).filter(|bounds| !bounds.is_empty()).into_iter().chain(self.below.iter().cloned())
    }

    pub(crate) fn bad(self, is_bad: bool) -> Self {
        if is_bad { self.toned(Tone::Bad) } else { self }
    }

    pub(crate) fn toned(self, tone: Tone) -> Self {
        Self { tone: Some(tone), ..self }
    }
}

impl Value {
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

pub(crate) fn label_of(group: &GroupView) -> String {
    crate::view::name_of(group.label, group.said_pattern(), &Variant::new())
}
