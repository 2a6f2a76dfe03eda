"""Writes the files that the Helm chart shares with `opsconsole manifests`: rules and dashboard.

`python -m opsconsole.deploy deploy/helm/opsconsole/files`; a test fails while they differ.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from opsconsole.deploy import rules
from opsconsole.deploy.dashboard import dashboard


def files() -> dict[str, str]:
    """File name -> text."""
    import yaml

    parts = {"watching": rules.watching(), "acting": rules.acting(), "nodes": rules.nodes()}
    texts = {f"rules-{name}.yaml": yaml.safe_dump(part, sort_keys=False) for name, part in parts.items()}
    return {**texts, "dashboard.json": json.dumps(dashboard(), indent=2) + "\n"}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")
