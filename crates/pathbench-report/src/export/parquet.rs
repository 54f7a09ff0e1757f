//! Tables as Parquet: flat, a null for each absent value, row groups of bounded size.

use super::table::{Column, ColumnType};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter::{
    BoolColumnWriter, ByteArrayColumnWriter, DoubleColumnWriter, Int64ColumnWriter,
};
use parquet::data_type::ByteArray;
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde_json::Value;
use std::io::Write;
use std::sync::Arc;

/// Rows of a row group: a few megabytes of the widest table.
const GROUP_ROWS: usize = 20_000;

pub(super) struct ParquetWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<Buffer>,
    rows: usize,
}

/// The values of a column in the current row group, without its nulls.
struct Buffer {
    values: Values,
    /// For a nullable column, 1 for each value and 0 for each null.
    levels: Option<Vec<i16>>,
}

enum Values {
    Booleans(Vec<bool>),
    Integers(Vec<i64>),
    Numbers(Vec<f64>),
    Texts(Vec<ByteArray>),
}

impl<W: Write + Send> ParquetWriter<W> {
    pub(super) fn new(out: W, columns: &[Column]) -> Result<Self> {
        let fields = columns.iter().map(|column| Ok(Arc::new(field(column)?))).collect::<Result<Vec<_>>>()?;
        let schema = Type::group_type_builder("schema").with_fields(fields).build()?;
        let file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(WriterProperties::new()))?;
        Ok(Self { file, columns: columns.iter().map(Buffer::new).collect(), rows: 0 })
    }

    pub(super) fn row(&mut self, cells: &[Value]) -> Result<()> {
        self.columns.iter_mut().zip(cells).for_each(|(column, cell)| column.push(cell));
        self.rows += 1;
        if self.rows < GROUP_ROWS { Ok(()) } else { self.write_group() }
    }

    fn write_group(&mut self) -> Result<()> {
        let mut group = self.file.next_row_group()?;
        for buffer in &mut self.columns {
            let Some(mut column) = group.next_column()? else { break };
            let levels = buffer.levels.as_deref();
            match (column.untyped(), &buffer.values) {
                (BoolColumnWriter(writer), Values::Booleans(all)) => writer.write_batch(all, levels, None)?,
                (Int64ColumnWriter(writer), Values::Integers(all)) => {
                    writer.write_batch(all, levels, None)?
                }
                (DoubleColumnWriter(writer), Values::Numbers(all)) => {
                    writer.write_batch(all, levels, None)?
                }
                (ByteArrayColumnWriter(writer), Values::Texts(all)) => {
                    writer.write_batch(all, levels, None)?
                }
                // `field` and `Buffer::new` choose the same types.
                _ => 0,
            };
            column.close()?;
            buffer.clear();
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<()> {
        if self.rows > 0 {
            self.write_group()?;
        }
        self.file.close().map(drop)
    }
}

fn field(column: &Column) -> Result<Type> {
    let (physical, logical) = match column.kind {
        ColumnType::Boolean => (Physical::BOOLEAN, None),
        ColumnType::Integer => (Physical::INT64, None),
        ColumnType::Unsigned => (Physical::INT64, Some(LogicalType::integer(64, false))),
        ColumnType::Number => (Physical::DOUBLE, None),
        ColumnType::Text | ColumnType::Json => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let repetition = if column.is_nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let builder = Type::primitive_type_builder(&column.name, physical);
    builder.with_repetition(repetition).with_logical_type(logical).build()
}

impl Buffer {
    fn new(column: &Column) -> Self {
        let values = match column.kind {
            ColumnType::Boolean => Values::Booleans(Vec::new()),
            ColumnType::Integer | ColumnType::Unsigned => Values::Integers(Vec::new()),
            ColumnType::Number => Values::Numbers(Vec::new()),
            ColumnType::Text | ColumnType::Json => Values::Texts(Vec::new()),
        };
        Self { values, levels: column.is_nullable.then(Vec::new) }
    }

    fn push(&mut self, cell: &Value) {
        if let Some(levels) = &mut self.levels {
            levels.push(i16::from(!cell.is_null()));
            if cell.is_null() {
                return;
            }
        }
        match &mut self.values {
            Values::Booleans(values) => values.push(cell.as_bool().unwrap_or_default()),
            // Parquet stores the bits of an unsigned integer.
            Values::Integers(values) => {
                values.push(cell.as_i64().or(cell.as_u64().map(|bits| bits as i64)).unwrap_or_default());
            }
            Values::Numbers(values) => values.push(cell.as_f64().unwrap_or_default()),
            Values::Texts(values) => values.push(ByteArray::from(cell.as_str().unwrap_or_default())),
        }
    }

    fn clear(&mut self) {
        match &mut self.values {
            Values::Booleans(values) => values.clear(),
            Values::Integers(values) => values.clear(),
            Values::Numbers(values) => values.clear(),
            Values::Texts(values) => values.clear(),
        }
        self.levels.iter_mut().for_each(Vec::clear);
    }
}
