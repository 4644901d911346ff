"""An agent of another package: its sessions are kept, and more fields of Agent would connect hooks."""

from collections.abc import Iterator

from memsync.agents.agent import Agent, folder
from memsync.agents.events import About, Record, SessionEvent, Who, text_at


def read(record: Record, about: About) -> Iterator[SessionEvent]:
    """Yield what a line of a session says, and learn from it which session that is."""
    about.learn(session=record.get("session"), cwd=record.get("folder"))
    who = {"person": Who.USER, "notary": Who.ASSISTANT}.get(str(record.get("from")))
    if who is not None:
        yield SessionEvent(who, text_at(record, "text"), record.get("time"))


AGENT = Agent(
    name="notary",
    title="Notary",
    tried="1.0",
    home=folder("NOTARY_HOME", ".notary"),
    sessions=("sessions/*.jsonl",),
    read=read,
)
