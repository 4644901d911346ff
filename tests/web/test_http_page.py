"""docs/programs.md: the examples of HTTP run, and its table of errors is that of the code."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from memsync import errors
from memsync.errors import MemsyncError
from memsync.web.problems import status_of
from tests.conftest import PROJECT, Write
from tests.support.daemon_process import Cli
from tests.web.test_serving import Web

PAGE = (PROJECT / "docs" / "programs.md").read_text()
EXAMPLES = re.findall(r"^curl .*$", PAGE, re.MULTILINE)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_examples_run(cli: Cli, write: Write) -> None:
    """Each as printed, except for the port and the token, prints one JSON document and no problem."""
    write("a.md", "The heron nests.\n")
    web = Web(cli.begin("http", "--port", "0"), cli.root)
    assert len(EXAMPLES) == 4
    for example in EXAMPLES:
        command = example.replace(":8740", f":{web.port}")
        done = subprocess.run(
            ["sh", "-c", command], env={"TOKEN": web.token, "PATH": "/usr/bin:/bin"}, capture_output=True, check=True
        )
        document = json.loads(done.stdout)
        assert "exit_code" not in document and document, example


@pytest.mark.parametrize(
    "kind",
    [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MemsyncError)],
    ids=lambda kind: kind.__name__,
)
def test_table_has_the_status_of_each_error(kind: type[MemsyncError]) -> None:
    """In the row of its exit code."""
    (row,) = re.findall(rf"^\| (?:\d+, )?{kind.exit_code}(?:, \d+)? \| (.*)$", PAGE, re.MULTILINE)
    assert str(status_of(kind("it failed"))) in row
