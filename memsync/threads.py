"""Views over threads: sessions, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable

from memsync.model import Session, Thread, Usage


def sessions_of(threads: Iterable[Thread]) -> list[Session]:
    """Return the sessions that threads belong to, the last active first; equal ones by name."""
    by_name: dict[str, list[Thread]] = {}
    for thread in threads:
        by_name.setdefault(thread.session, []).append(thread)
    sessions = [_session(name, of) for name, of in sorted(by_name.items())]
    return sorted(sessions, key=lambda one: one.last_active, reverse=True)


def _session(name: str, threads: list[Thread]) -> Session:
    latest = max(threads, key=lambda thread: (thread.last_active, thread.path))
    named = sorted(threads, key=lambda thread: thread is not latest)
    return Session(
        session=name,
        user=next((thread.user for thread in named if thread.user), ""),
        project=next((thread.project for thread in named if thread.project), ""),
        status=status_of(latest),
        last_active=latest.last_active,
        threads=tuple(thread.path for thread in threads),
        usage=total(thread.usage for thread in threads),
    )


def status_of(thread: Thread) -> str:
    """Return a thread's status: what is archived is so whatever else its front matter says."""
    return "archived" if thread.archived else thread.status


def total(usages: Iterable[Usage]) -> Usage:
    """Return the sum of what was used."""
    all_of = list(usages)
    return Usage(
        sum(one.messages for one in all_of),
        sum(one.tokens_in for one in all_of),
        sum(one.tokens_out for one in all_of),
        round(sum(one.cost for one in all_of), 9),
    )
