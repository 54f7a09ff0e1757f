"""Compares every cell of the exported tables with the result's own JSON: agree.py EXPORT RESULT…

Reads the Parquet files with PyArrow, pandas, Polars and DuckDB, the CSV files with DuckDB and Python's csv.
Prints the number of compared cells; fails at the first difference."""

import csv
import json
import math
import pathlib
import sys

import duckdb
import pandas
import polars
import pyarrow.parquet

export, results = pathlib.Path(sys.argv[1]), [pathlib.Path(one) for one in sys.argv[2:]]
NESTED = ["paths", "directions", "impacts", "phases", "diagnoses"]


def lines(path):
    if not path.exists():
        return
    for line in path.read_bytes().split(b"\n"):
        if line.strip():
            yield json.loads(line)


def rows(table):
    for result in results:
        document = json.loads((result / "run.json").read_text())
        name = {"result": result.resolve().name}
        if table == "runs":
            yield from (name | run for run in document["runs"])
        elif table in NESTED:
            for run in document["runs"]:
                yield from (name | {"run": run["id"]} | one for one in run.get(table, []))
        elif table == "comparisons":
            yield from (name | one for one in document["summary"].get(table, []))
        elif table == "figures":
            for group in document["summary"]["groups"]:
                keys = {key: group[key] for key in ("variant", "label", "pattern")}
                for figure, distribution in group["figures"].items():
                    yield name | keys | {"figure": figure} | distribution
        else:
            yield from (name | line for line in lines(result / f"{table}.jsonl"))


def cell(row, column):
    if column in row:
        return row[column]
    for key, value in row.items():
        if column.startswith(key + "_"):
            rest = column[len(key) + 1 :]
            if isinstance(value, dict):
                found = cell(value, rest)
                if found is not None:
                    return found
            if isinstance(value, list) and rest in ("low", "high"):
                return value[rest == "high"]
    return None


def check(place, expected, found, kind):
    if found is not None and not isinstance(found, str) and found != found:
        found = None
    if expected is None or found is None:
        same = expected is None and found is None
    elif kind == "JSON text":
        same = json.loads(found) == expected
    elif kind == "number":
        same = math.isclose(float(found), expected, rel_tol=0, abs_tol=0) or float(found) == expected
    elif kind == "boolean":
        same = str(found).lower() == str(expected).lower()
    elif "integer" in kind:
        same = int(found) == expected
    else:
        same = str(found) == expected
    assert same, f"{place}: {found!r}, but the result has {expected!r}"


described = {}
for one in csv.DictReader((export / "columns.csv").open(newline="", encoding="utf-8")):
    described.setdefault(one["table"], []).append((one["column"], one["type"], one["nullable"] == "true"))
cells = 0
for table, columns in described.items():
    expected = [[cell(row, name) for name, _, _ in columns] for row in rows(table)]
    parquet, text = str(export / f"{table}.parquet"), str(export / f"{table}.csv")
    arrow = pyarrow.parquet.read_table(parquet)
    typed = {"boolean": "bool", "integer": "int64", "unsigned integer": "uint64", "number": "double"}
    for name, kind, nullable in columns:
        field = arrow.schema.field(name)
        assert str(field.type) == typed.get(kind, "string"), (table, name, kind, field.type)
        assert field.nullable == nullable, (table, name)
    varchar = f"read_csv('{text}', header=true, all_varchar=true, allow_quoted_nulls=false, quote='\"', escape='\"', delim=',', auto_detect=false, columns={{{', '.join(repr(name) + ': ' + repr('VARCHAR') for name, _, _ in columns)}}}, max_line_size=20000000)"
    readers = {
        "PyArrow": [list(row.values()) for row in arrow.to_pylist()],
        "pandas": pandas.read_parquet(parquet, dtype_backend="pyarrow").astype(object).where(lambda all: all.notna(), None).values.tolist(),
        "Polars": [list(row) for row in polars.read_parquet(parquet).rows()],
        "DuckDB": [list(row) for row in duckdb.sql(f"select * from read_parquet('{parquet}')").fetchall()],
        "DuckDB, CSV": [list(row) for row in duckdb.sql(f"select * from {varchar}").fetchall()],
    }
    plain = list(csv.reader(open(text, newline="", encoding="utf-8")))
    assert plain[0] == [name for name, _, _ in columns], table
    readers["csv"] = [[None if value == "" else value for value in row] for row in plain[1:]]
    for reader, found in readers.items():
        assert len(found) == len(expected), f"{table}, {reader}: {len(found)} rows, not {len(expected)}"
        for number, (row, of_row) in enumerate(zip(expected, found)):
            assert len(row) == len(of_row), (table, reader, number)
            for (name, kind, _), one, other in zip(columns, row, of_row):
                # Python's csv does not tell an empty text from no value.
                one = None if reader == "csv" and one == "" else one
                check(f"{table}[{number}].{name}, {reader}", one, other, kind)
                cells += 1
print(f"{len(described)} tables, {cells} cells")
