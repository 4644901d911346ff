"""What a request names -> arguments of the right types, or an error that says which is wrong and what it should be."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from memsync.daemon import wire
from memsync.errors import MemsyncError
from memsync.model import Filters, Mode, Query, TimeHint

MOST_HITS = 1_000
MOST_TOKENS = 1_000_000
LATEST_GENERATION = 2**63 - 1
_HINT = "See docs/protocol.md."


class RequestError(MemsyncError):
    """A request that the protocol does not know; `code` is JSON-RPC's."""

    exit_code = 2
    code = wire.INVALID_PARAMS


class Params:
    """The parameters of one request, each taken by name as what it must be; null is as if left out.

    with Params("wait", {"seconds": 3}) as params:
        seconds = params.number("seconds", most=600.0, default=10.0)

    Leaving the block refuses whatever was not taken. Everything raises RequestError.
    """

    def __init__(self, of: str, values: Mapping[str, Any]) -> None:
        self._of = of
        self._values = {name: value for name, value in values.items() if value is not None}
        self._known: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        unknown = sorted(self._values.keys() - set(self._known))
        if error is None and unknown:
            names = ", ".join(name[:100] for name in unknown[:10])
            known = ", ".join(sorted(self._known)) or "none"
            raise RequestError(f"{self._of} has no parameter {names}", hint=f"Known are: {known}.")

    def value(self, name: str) -> Any:
        """Return a parameter whatever it is; None when it is left out."""
        self._known.append(name)
        return self._values.get(name)

    def text(self, name: str, default: str = "") -> str:
        """Return text; half a surrogate pair in it, which is no text, is replaced."""
        value = self.value(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self._wrong(name, "text")
        return _sound(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts; none when it is left out."""
        value = self.value(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(name, "a list of texts")
        return tuple(_sound(item) for item in value)

    def pairs(self, name: str) -> tuple[tuple[str, str], ...]:
        """Return a list of pairs of texts."""
        value = self.value(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(_is_pair(item) for item in value):
            raise self._wrong(name, "a list of pairs of texts")
        return tuple((_sound(first), _sound(second)) for first, second in value)

    def whole(self, name: str, least: int, most: int) -> int | None:
        """Return a whole number within bounds; None when it is left out."""
        value = self.value(name)
        if value is not None and (type(value) is not int or not least <= value <= most):
            raise self._wrong(name, f"a whole number from {least:,} to {most:,}")
        return value

    def share(self, name: str) -> float | None:
        """Return a number from 0 to 1; None when it is left out."""
        value = self.value(name)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1
        ):
            raise self._wrong(name, "a number from 0 to 1")
        return value

    def number(self, name: str, *, most: float, default: float) -> float:
        """Return a number from 0, however large it is given no larger than `most`."""
        value = self.value(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            raise self._wrong(name, "a number from 0")
        return float(min(value, most))

    def flag(self, name: str) -> bool:
        """Return true or false; false when it is left out."""
        value = self.value(name)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value is True

    def part(self, name: str) -> Params | None:
        """Return a parameter that is an object itself; None when it is left out."""
        value = self.value(name)
        if value is not None and not isinstance(value, dict):
            raise self._wrong(name, "an object")
        return Params(name, value) if value is not None else None

    def parts(self, name: str) -> list[Params]:
        """Return a list of objects; none when it is left out."""
        value = self.value(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self._wrong(name, "a list of objects")
        return [Params(name, item) for item in value]

    def has(self, name: str) -> bool:
        """Tell whether a parameter is given."""
        return name in self._values

    def needed(self, name: str) -> None:
        """Refuse a request that leaves a parameter out."""
        if name not in self._values:
            raise RequestError(f"{self._of} needs {name}", hint=_HINT)

    def _wrong(self, name: str, wanted: str) -> RequestError:
        return RequestError(f"{name} must be {wanted}", hint=_HINT)


def search_arguments(params: Params) -> dict[str, Any]:
    """Return the arguments of Memory.search that a request names."""
    params.needed("query")
    part = params.part("query") if isinstance(params.value("query"), dict) else None
    query = params.text("query") if part is None else _query(part)
    given = {
        "limit": params.whole("limit", 1, MOST_HITS),
        "tokens": params.whole("tokens", 1, MOST_TOKENS),
        "generation": params.whole("generation", 0, LATEST_GENERATION),
        "min_score": params.share("min_score"),
        "rerank": params.flag("rerank") or None,
        "mode": params.text("mode") or None,
        "fresh": params.text("fresh") or None,
        "filters": _filters(params),
    }
    arguments = {name: value for name, value in given.items() if value is not None}
    return {"query": query, "filter_pairs": params.pairs("filter_pairs"), **arguments}


def _query(params: Params) -> Query:
    """Return a query that is taken apart already, as `memsync.model.Query` has it."""
    with params:
        mode = params.text("mode", "hybrid")
        if mode not in list(Mode):
            raise RequestError(f"mode {mode!r} is not known", hint=f"Write {', '.join(Mode)}.")
        return Query(
            text=params.text("text"),
            words=params.texts("words"),
            phrases=params.texts("phrases"),
            exclusions=params.texts("exclusions"),
            filters=_filters(params) or Filters(),
            limit=params.whole("limit", 1, MOST_HITS) or 10,
            mode=Mode(mode),
            warnings=params.texts("warnings"),
            min_score=params.share("min_score"),
            rerank=params.flag("rerank"),
            times=tuple(map(_time, params.parts("times"))),
        )


def _time(params: Params) -> TimeHint:
    with params:
        return TimeHint(params.text("words"), params.text("after"), params.text("before"))


def _filters(params: Params) -> Filters | None:
    part = params.part("filters")
    if part is None:
        return None
    with part:
        return Filters(
            kinds=part.texts("kinds"),
            tiers=part.texts("tiers"),
            tags=part.texts("tags"),
            folders=part.texts("folders"),
            path_globs=part.texts("path_globs"),
            roles=part.texts("roles"),
            sessions=part.texts("sessions"),
            after=part.text("after"),
            before=part.text("before"),
            where=part.pairs("where"),
            archived=part.flag("archived"),
        )


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(item, str) for item in value)


def _sound(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
