"""A property that is computed once for an object, even if several threads ask for it at the same moment."""

from __future__ import annotations

from functools import cached_property
from threading import RLock
from typing import Any, Self, TypeVar, overload

T = TypeVar("T")


class once_property(cached_property[T]):  # noqa: N801 because it is used like functools.cached_property
    """A cached property for what must be one, such as the holder of a lock.

    Since Python 3.12 functools.cached_property has no lock: threads that ask at the same moment get different objects.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Self | T:
        if instance is None:
            return self
        with vars(instance).setdefault(f"computing {self.attrname}", RLock()):
            return super().__get__(instance, owner)
