"""The methods of `memsync.calls` as requests: what each takes, read from its signature, and checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from memsync.calls import Calls
from memsync.daemon.params import Params

LARGEST = 2**53

_TAKES: Mapping[Any, Callable[[Params, str], Any]] = {
    str: lambda params, name: params.text(name),
    bool: lambda params, name: params.flag(name),
    int: lambda params, name: params.whole(name, 0, LARGEST),
    float: lambda params, name: params.number(name, most=float(LARGEST), default=0.0),
    tuple[str, ...]: lambda params, name: params.texts(name),
}


def _signature(method: Callable[..., Any]) -> Mapping[str, tuple[Any, Any]]:
    """Return type and default of each parameter."""
    hints = get_type_hints(method)
    parameters = list(inspect.signature(method).parameters.values())[1:]
    return {one.name: (hints[one.name], one.default) for one in parameters}


CALLS = {
    name: _signature(method)
    for name, method in vars(Calls).items()
    if not name.startswith("_") and inspect.isfunction(method)
}
"""Each method's name -> its parameters: type and default, which is `inspect.Parameter.empty` for what is needed."""


def call_arguments(params: Params, signature: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    """Return the arguments that a request gives a method. Raises RequestError."""
    arguments = {}
    for name, (kind, default) in signature.items():
        if default is inspect.Parameter.empty:
            params.needed(name)
        value = _TAKES[kind](params, name)
        arguments[name] = default if not params.has(name) else value
    return arguments
