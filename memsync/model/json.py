"""Convert values of the model to JSON and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def to_json(value: Any) -> Any:
    """Return structs, dataclasses and mappings as objects, tuples as lists, bytes as hexadecimal text.

    The object also has the properties that the class names in `computed`. It lacks a member that the class names in
    `optional` as long as it has the value given there.
    """
    if isinstance(value, (str, int, float)):
        return value
    kind = type(value)
    names = getattr(kind, "__struct_fields__", None) or getattr(kind, "_fields", None)
    names = names or getattr(kind, "__dataclass_fields__", None)
    if names is not None:
        usual = getattr(value, "optional", {})
        present = [name for name in names if name not in usual or getattr(value, name) != usual[name]]
        return {name: to_json(getattr(value, name)) for name in (*present, *getattr(value, "computed", ()))}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    return value


def from_json(kind: type[T], value: Any) -> T:
    """Convert a JSON value to `kind`, ignoring unknown members. Raises ValueError."""
    return msgspec.convert(value, kind)
