"""PgBouncer in transaction mode in front of a server, with TLS: what managed PostgreSQL often puts in between."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.support.own_postgres import OwnServer, free_port

POOL_SIZE = 4
WAIT_SECONDS = 60.0


class Bouncer:
    """A running PgBouncer. `certificate` is its own, which signs itself."""

    def __init__(self, port: int, certificate: Path) -> None:
        self.port = port
        self.certificate = certificate

    def dsn(self, database: str, **parts: str) -> str:
        """Return the connection string of a database behind it."""
        known = f"host=127.0.0.1 port={self.port} user=postgres sslmode=require"
        return make_conninfo(known, dbname=database, **parts)


@contextmanager
def bouncer(own: OwnServer) -> Iterator[Bouncer]:
    """Start PgBouncer before a server; skip the test where it is not installed."""
    program, openssl = (shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in ("pgbouncer", "openssl"))
    if program is None or openssl is None:
        pytest.skip("PgBouncer or OpenSSL is not installed (Debian: apt install pgbouncer openssl)")
    folder = Path(tempfile.mkdtemp(prefix="memsync-bouncer-"))
    folder.chmod(0o755)
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", key, "-out", certificate, "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    key.chmod(0o644)  # it protects nothing, and PgBouncer may run as another user
    found = Bouncer(free_port(), certificate)
    (folder / "users.txt").write_text('"postgres" ""\n')
    (folder / "pgbouncer.ini").write_text(f"""
[databases]
* = host=127.0.0.1 port={own.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {found.port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users.txt
pool_mode = transaction
default_pool_size = {POOL_SIZE}
max_client_conn = 100
client_tls_sslmode = require
client_tls_key_file = {key}
client_tls_cert_file = {certificate}
""")
    process = subprocess.Popen(
        [program, "-q", str(folder / "pgbouncer.ini")],
        user=own.user,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _await(found)
        yield found
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)


def _await(found: Bouncer) -> None:
    limit = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            psycopg.connect(found.dsn("postgres")).close()
        except psycopg.OperationalError:
            assert time.monotonic() < limit, "PgBouncer does not start"
            time.sleep(0.02)
        else:
            return
