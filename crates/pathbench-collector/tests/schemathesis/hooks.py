"""Media types that schemathesis does not know, and names of things that exist."""

import json
import os

import schemathesis

CHARTS = ["gain.json", "gain.csv", "gain.svg", "usage.json", "max-delay-scatter.json", "handover-duration.svg"]


@schemathesis.serializer("application/x-ndjson")
def ndjson(ctx, value):
    return json.dumps(value).encode()


@schemathesis.deserializer("text/csv", "application/zstd", "application/vnd.apache.parquet")
def opaque(ctx, response):
    return response.content.decode("latin-1")


@schemathesis.hook
def map_path_parameters(ctx, path_parameters):
    # Every second result and chart exists.
    if path_parameters and "id" in path_parameters and sum(map(ord, str(path_parameters["id"]))) % 2:
        path_parameters["id"] = os.environ["PATHBENCH_RESULT"]
    name = str((path_parameters or {}).get("name", ""))
    if name.endswith((".json", ".csv", ".svg")):
        path_parameters["name"] = CHARTS[len(name) % len(CHARTS)]
    return path_parameters


@schemathesis.hook
def filter_query(ctx, query):
    # A parameter without a value counts as absent: the pages' forms send such fields.
    return all(value not in ("", {}, [], None) for value in (query or {}).values())
