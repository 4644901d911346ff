"""What memsync knows about an agent: the port that each agent's module fills."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent, with the version that its forms were tried with.

    `home` returns its folder. `memory` and `sessions` are glob patterns below it: of the Markdown notes that the agent
    writes by itself, and of its transcripts.
    """

    name: str
    title: str
    tried: str
    home: Callable[[], Path]
    memory: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()


def folder(variable: str, usual: str) -> Callable[[], Path]:
    """Return a function that returns the folder that an environment variable names; without it, one in the home."""

    def named() -> Path:
        return Path(os.environ.get(variable) or os.path.join(os.path.expanduser("~"), usual))

    return named
