"""Convert values of the model to JSON and back, and describe them as JSON Schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Struct

T = TypeVar("T")


def to_json(value: Any) -> Any:
    """Return structs, dataclasses and mappings as objects, tuples as lists, bytes as hexadecimal text.

    The object also has the properties that the class names in `computed`. It lacks a member that the class names in
    `optional` as long as it has its default.
    """
    if isinstance(value, (str, int, float)):
        return value
    kind: Any = type(value)
    names = getattr(kind, "__struct_fields__", None) or getattr(kind, "_fields", None)
    names = names or getattr(kind, "__dataclass_fields__", None)
    if names is not None:
        usual = _usual(kind)
        present = [name for name in names if name not in usual or getattr(value, name) != usual[name]]
        return {name: to_json(getattr(value, name)) for name in (*present, *getattr(value, "computed", ()))}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    return value


@cache
def _usual(kind: Any) -> Mapping[str, Any]:
    """Return the default of each member that the JSON of a class may lack."""
    names = getattr(kind, "optional", ())
    members = [member for member in msgspec.structs.fields(kind) if member.name in names] if names else ()
    return {one.name: {} if one.default is msgspec.NODEFAULT else one.default for one in members}


def from_json(kind: type[T], value: Any) -> T:
    """Convert a JSON value to `kind`, ignoring unknown members. Raises ValueError."""
    return msgspec.convert(value, kind)


def schemas_of(kinds: Iterable[Any], ref_template: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the JSON Schema of each type, as `to_json` writes its values, and those of the classes in them by name.

    A reference to a class is `ref_template`, in which {name} is the name.
    """
    from inspect import cleandoc

    kinds = list(kinds)
    schemas, components = msgspec.json.schema_components(kinds, ref_template=ref_template)
    for kind in _classes(kinds):
        _describe(kind, components[kind.__name__])
    for schema in components.values():
        if "description" in schema:
            schema["description"] = cleandoc(schema["description"])  # as Python itself does since 3.13
    return list(schemas), components


def _describe(kind: type, schema: dict[str, Any]) -> None:
    """Add the computed members to a class's schema; remove its description and its defaults."""
    computed = getattr(kind, "computed", ())
    for name in computed:
        returned = get_type_hints(getattr(kind, name).fget)["return"]
        schema["properties"][name] = msgspec.json.schema(returned)
    schema["required"] = [*schema.get("required", ()), *computed]
    schema.pop("description", None)
    for member in schema["properties"].values():
        member.pop("default", None)


def _classes(kinds: Iterable[Any]) -> list[type]:
    """Return the classes that types are made of."""
    classes: dict[type, None] = {}
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop()
        waiting += get_args(kind)
        if isinstance(kind, type) and issubclass(kind, Struct) and kind not in classes:
            classes[kind] = None
            waiting += [hint for name, hint in get_type_hints(kind).items() if name not in ("computed", "optional")]
    return list(classes)
