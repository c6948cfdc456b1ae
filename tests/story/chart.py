"""chart.py - what stories and scripts/generate know of the Helm chart. SPDX-License-Identifier: Apache-2.0

    chart.py EXAMPLE    writes the settings of EXAMPLE (penstock config --example) into values.schema.json of the chart
"""

import glob
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHART = os.path.join(ROOT, "conf", "helm")
SCHEMA = os.path.join(CHART, "values.schema.json")


def one_schema(value, help_text):
    """What a setting may be, as its default and its help text say."""
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, int):
        return {"type": "integer", "minimum": 0}
    if isinstance(value, dict):
        return {"type": "object", "additionalProperties": {"type": "object"}}
    choices = re.search(r"\(([a-z]+(?:\|[a-z]+)+)\)$", help_text)
    if choices:
        return {"enum": choices[1].split("|")}
    if re.fullmatch(r"\d+[A-Za-z]*", value):    # a size or a duration
        return {"type": ["string", "integer"]}
    return {"type": "string"}


def settings_schema(example):
    """The JSON schema of "settings": every name that the daemon knows, and no other."""
    names, found = json.loads(example), {"keys": {"type": "array", "items": {"type": "object"}}}
    for key, help_text in names.items():
        name = key[2:]
        if not key.startswith("# ") or not re.fullmatch("[a-z_0-9]+", name) or name == "keys":
            continue
        if name in names:
            found[name] = one_schema(names[name], help_text)
        else:    # a secret has no default, and may be in a file
            found[name] = found[name + "_file"] = {"type": "string"}
    return {"type": "object", "additionalProperties": False, "patternProperties": {"^#": {}}, "properties": found}


def dump(value, indent=0):
    """JSON in which what fits on a line has one."""
    flat = json.dumps(value)
    if not isinstance(value, (dict, list)) or len(flat) + indent < 110:
        return flat
    inner = " " * (indent + 2)
    if isinstance(value, dict):
        parts, ends = [f"{inner}{json.dumps(k)}: {dump(v, indent + 2)}" for k, v in value.items()], "{}"
    else:
        parts, ends = [inner + dump(v, indent + 2) for v in value], "[]"
    return ends[0] + "\n" + ",\n".join(parts) + "\n" + " " * indent + ends[1]


def helm():
    """Helm, if scripts/test --all or scripts/tools helm has built it; otherwise the story is skipped."""
    from harness import Skip, TOOLS, pinned
    path = os.path.join(TOOLS, f"helm-{pinned('helm')}", "bin", "helm")
    if not os.access(path, os.X_OK):
        raise Skip("Helm is not there: run scripts/tools helm")
    return path


def validator():
    """The Python that runs manifests.py."""
    from harness import Skip, TOOLS
    found = sorted(glob.glob(os.path.join(TOOLS, "manifests-*", "bin", "python3")), key=os.path.getmtime)
    if not found or not os.path.exists(os.path.join(os.path.dirname(found[-1]), "..", ".whole")):
        raise Skip("kubernetes-validate is not there: run scripts/tools manifests")
    return found[-1]


if __name__ == "__main__":
    with open(sys.argv[1]) as f:
        settings = settings_schema(f.read())
    with open(SCHEMA) as f:
        schema = json.load(f)
    schema["properties"]["settings"] = settings
    with open(SCHEMA + ".new", "w") as f:
        f.write(dump(schema) + "\n")
    os.rename(SCHEMA + ".new", SCHEMA)
