"""Tells which process listens on a TCP port, as far as the system lets this user know."""

from __future__ import annotations

import glob
import os
import shlex
from contextlib import suppress

_LISTENS = "0A"


def listener(port: int) -> str:
    """Return the process that listens on a TCP port, with its command line; empty if it cannot be known.

    Only Linux tells, and only of this user's processes. A memsync server's command line names its memory root.
    """
    sockets = {f"socket:[{inode}]" for inode in _inodes(port)}
    for link in glob.iglob("/proc/[0-9]*/fd/*") if sockets else ():
        with suppress(OSError):  # another user's process, or one that has ended
            if os.readlink(link) in sockets:
                process = link.split("/")[2]
                with open(f"/proc/{process}/cmdline", "rb") as file:
                    words = os.fsdecode(file.read()).rstrip("\0").split("\0")
                words = words[words.index("memsync") :] if "memsync" in words else words
                return f"process {process} ({shlex.join(words)[:200]})"
    return ""


def _inodes(port: int) -> set[str]:
    """Return the inodes of the sockets that listen on a port."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError), open(table, encoding="ascii") as lines:
            for line in lines:
                fields = line.split()
                if fields[3] == _LISTENS and fields[1].endswith(f":{port:04X}"):
                    inodes.add(fields[9])
    return inodes
