"""manifests.py - checks manifests and dashboards. SPDX-License-Identifier: Apache-2.0

Runs under the Python that `scripts/tools manifests` makes. It prints JSON.

    manifests.py kubernetes VERSION... <MANIFESTS   the documents, and what the schemas of these versions say to them
    manifests.py dashboard FILE                     what Grafana's types make of the dashboard
"""

import json
import sys


def kubernetes(versions):
    """Unknown members are mistakes. Kinds without a schema (custom resources) are listed."""
    import kubernetes_validate
    import yaml
    documents = [document for document in yaml.safe_load_all(sys.stdin) if document]
    wrong, unknown = [], set()
    for document in documents:
        for version in versions:
            try:
                kubernetes_validate.validate(document, version, strict=True)
            except kubernetes_validate.SchemaNotFoundError:
                unknown.add(document["kind"])
            except kubernetes_validate.ValidationError as error:
                where = ".".join(str(part) for part in error.path)
                wrong.append(f"{version} {document['kind']} {where}: {error.message}")
    return {"documents": documents, "wrong": wrong, "unknown": sorted(unknown)}


def lost(before, after, where=""):
    """What of `before` is missing or different in `after`."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            yield from lost(value, after.get(name), f"{where}.{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for i, (old, new) in enumerate(zip(before, after)):
            yield from lost(old, new, f"{where}[{i}]")
    elif before != after and not (before in ({}, [], None) and not after):
        yield f"{where}: {json.dumps(before)[:80]} became {json.dumps(after)[:80]}"


def dashboard(path):
    """Grafana's types drop a member that they do not know, so what comes back shows each mistake."""
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard
    register_default_plugins()
    with open(path) as f:
        before = json.load(f)
    after = json.loads(json.dumps(Dashboard.from_json(json.loads(json.dumps(before))), cls=JSONEncoder))
    return {"lost": list(lost(before, after)), "panels": len(before["panels"])}


if __name__ == "__main__":
    work = {"kubernetes": lambda: kubernetes(sys.argv[2:]), "dashboard": lambda: dashboard(sys.argv[2])}
    json.dump(work[sys.argv[1]](), sys.stdout)
