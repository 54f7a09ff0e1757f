"""Validates results against the schemas: validate.py SCHEMAS RESULT…. Prints FILE:LINE: $.PLACE: PROBLEM for each error."""

import json
import pathlib
import sys

from jsonschema_rs import Draft202012Validator, meta

DOCUMENTS = ["run", "trace"]
schemas = {path.stem: json.loads(path.read_text()) for path in pathlib.Path(sys.argv[1]).glob("*.json")}
validators = {name: Draft202012Validator(schema) for name, schema in schemas.items()}


def place(steps):
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


assert all(map(meta.is_valid, schemas.values()))
wrong = checked = 0
for directory in map(pathlib.Path, sys.argv[2:]):
    for name, validator in validators.items():
        path = directory / (f"{name}.json" if name in DOCUMENTS else f"{name}.jsonl")
        if not path.exists():
            continue
        texts = [path.read_text()] if name in DOCUMENTS else path.read_text().splitlines()
        for number, text in enumerate(texts, 1):
            checked += 1
            for error in validator.iter_errors(json.loads(text)):
                wrong += 1
                print(f"{path}:{number}: {place(error.instance_path)}: {error.message}")
print(f"{checked} documents and lines")
sys.exit(wrong > 0 or checked == 0)
