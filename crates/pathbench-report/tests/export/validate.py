"""Validates results against the schemas: validate.py SCHEMAS RESULT…. Prints FILE:LINE: $.PLACE: PROBLEM for each error."""

import json
import pathlib
import sys

from jsonschema import Draft202012Validator

schemas = {path.stem: json.loads(path.read_text()) for path in pathlib.Path(sys.argv[1]).glob("*.json")}
wrong = checked = 0
for directory in map(pathlib.Path, sys.argv[2:]):
    for name, schema in schemas.items():
        Draft202012Validator.check_schema(schema)
        validator = Draft202012Validator(schema)
        path = directory / ("run.json" if name == "run" else f"{name}.jsonl")
        if not path.exists():
            continue
        texts = [path.read_text()] if name == "run" else path.read_text().splitlines()
        for number, text in enumerate(texts, 1):
            checked += 1
            for error in validator.iter_errors(json.loads(text)):
                wrong += 1
                print(f"{path.name}:{number}: {error.json_path}: {error.message}")
print(f"{checked} documents and lines")
sys.exit(wrong > 0)
