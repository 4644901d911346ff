"""What starting costs: the command line's imports over click's alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from statistics import median

from benchmarks.report import Row

RUNS = 15


def imports(state: Path) -> list[Row]:
    """Compare `import memsync.cli.main` with `import click`, each in a process of its own."""
    del state
    pairs = [(_import_us("memsync.cli.main"), _import_us("click")) for _ in range(RUNS)]
    ratio = median(ours / click for ours, click in pairs)
    figure = (
        f"{ratio:.2f} × ({median(p[0] for p in pairs) / 1000:.0f} ms over {median(p[1] for p in pairs) / 1000:.0f} ms)"
    )
    return [Row("import memsync.cli.main over import click", figure, "≤ 1.5 ×", ratio <= 1.5)]


def _import_us(module: str) -> int:
    """Return the cumulative microseconds of one import, the site's own not counted."""
    command = [sys.executable, "-X", "importtime", "-c", f"import {module}"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()
    rows = [line.split("|") for line in lines if line.count("|") == 2]
    top = {module, module.split(".")[0]}
    return sum(int(row[1]) for row in rows if row[2].strip() in top and not row[2].startswith("  "))
