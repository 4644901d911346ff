"""Run transactions on any SQLite database of memsync, and turn SQLite's errors into memsync's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from memsync.errors import FilesystemError, IndexBusy, IndexFailure


@contextmanager
def write_transaction(database: apsw.Connection) -> Iterator[None]:
    """Run the body in a write transaction; commit it at the end, or roll it back if the body raises."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:  # some errors roll back by themselves
            database.execute("ROLLBACK")
        raise


@contextmanager
def read_transaction(database: apsw.Connection) -> Iterator[None]:
    """Run the body in a read transaction, so that all its queries see the same state."""
    database.execute("BEGIN")
    try:
        yield
    finally:
        if database.in_transaction:  # some errors end it
            database.execute("ROLLBACK")


@contextmanager
def translate_sqlite_errors(database: str) -> Iterator[None]:
    """Turn SQLite's errors from locks and disks into memsync's. `database` names the database in their messages.

    Raises IndexBusy, FilesystemError, IndexFailure. Errors that mean damage, or a bug of memsync, pass unchanged.
    """
    try:
        yield
    except apsw.BusyError as error:
        raise IndexBusy(f"another process writes to {database}", hint="Try again in a moment.") from error
    except apsw.FullError as error:
        raise FilesystemError(f"no space left for {database}", hint="Free some disk space and try again.") from error
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError) as error:
        raise FilesystemError(f"{database} cannot be written", hint="Check its permissions.") from error
    except apsw.IOError as error:
        code = apsw.mapping_extended_result_codes.get(getattr(error, "extendedresult", 0), "")
        message = f"{database} cannot be read or written: {error} {code}".rstrip()
        raise IndexFailure(message, hint="Check the disk.") from error
