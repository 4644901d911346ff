"""What a setting is, and which values it accepts."""

from __future__ import annotations

from typing import Any, NamedTuple

from memsync.errors import ConfigError
from memsync.model.text import quoted


class Setting(NamedTuple):
    """One setting: its name, default, a one-line explanation, and which values it accepts.

    A number must be within `bounds`, a text one of `choices`; instead of a list, one of these may stand. A tuple,
    because every command creates all settings and tuples are fast.
    """

    name: str
    default: Any
    explanation: str
    bounds: tuple[float, float] | None = None
    choices: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "MEMSYNC_" + self.name.removeprefix("memsync.").replace(".", "_").upper()


def checked(setting: Setting, value: Any, where: str) -> Any:
    """Return a value if the setting accepts it. Raises ConfigError, which names the place `where`."""
    required = type(setting.default)
    if required is list and value in setting.choices:  # a word stands for what memsync does itself
        return [value]
    if required is float and type(value) is int:
        value = float(value)
    names = {str: "text", bool: "true or false", int: "a whole number", float: "a number", list: "a list of texts"}
    expected = ""
    if type(value) is not required or (required is list and not all(isinstance(item, str) for item in value)):
        expected = names[required]
    elif setting.bounds is not None and not setting.bounds[0] <= value <= setting.bounds[1]:
        expected = f"from {setting.bounds[0]:g} to {setting.bounds[1]:g}"
    elif setting.choices and required is not list and value not in setting.choices:
        expected = f"{', '.join(setting.choices[:-1])} or {setting.choices[-1]}"
    if expected:
        raise ConfigError(
            f"{where}: {setting.name} must be {expected}, not {quoted(str(value))}", hint=setting.explanation
        )
    return value


def from_text(setting: Setting, text: str) -> Any:
    """Return text converted to the setting's type; unconverted if that fails, so that the type check reports it."""
    kind = type(setting.default)
    if kind is list:
        if text.lstrip().startswith("["):  # as in config.toml
            import tomllib  # here, because hardly any environment has such a list

            try:
                return tomllib.loads(f"list = {text}")["list"]
            except tomllib.TOMLDecodeError:
                return text
        return [part.strip() for part in text.split(",") if part.strip()]
    if kind is bool:
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    try:
        return kind(text)
    except ValueError:
        return text
