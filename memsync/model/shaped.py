"""What JSON holds as a value of the model."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints


def shaped(kind: Any, value: Any) -> Any:
    """Return what JSON holds as `kind`: dataclasses from objects, tuples from lists, enums from text.

    The inverse of `plain`. Raises KeyError, TypeError, ValueError for what does not fit; unknown names are passed over.
    """
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        kinds = [one for one in get_args(kind) if one is not NoneType]
        return None if value is None else shaped(kinds[0], value)
    if origin is tuple:
        return tuple(shaped(get_args(kind)[0], item) for item in value)
    if origin is not None:  # a mapping, a type with parameters that JSON has as they are
        return value
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        names = [field.name for field in fields(kind) if field.name in value]
        return kind(**{name: shaped(hints[name], value[name]) for name in names})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    return value
