"""The last release's client on this server, and this client on the last release's server."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from aclgrad.errors import InvalidFieldError, UnknownOperatorError
from tools.released import python

pytestmark = pytest.mark.timeout(3600)  # the first one builds the release

CALLS = Path(__file__).with_name("calls.py")
OTHERS = {"chunks", "batch"}


@contextmanager
def server(interpreter: str) -> Iterator[str]:
    """Yields the address of a server of that interpreter's version."""
    command = [interpreter, "-m", "aclgrad_server", "--backend", "host", "--listen", "127.0.0.1:0"]
    command += ["--admin", "127.0.0.1:0", "--log-level", "warning"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield next(line.split()[1] for line in process.stdout if line.startswith("ready: "))
        finally:
            process.terminate()


def calls(client: str, address: str) -> dict[str, Any]:
    command = [client, str(CALLS), address]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize(("client", "served_by"), [("released", "this"), ("this", "released")])
def test_each_client_calls_each_server(client: str, served_by: str) -> None:
    interpreters = {"this": sys.executable, "released": python()}
    with server(interpreters[served_by]) as address:
        found = calls(interpreters[client], address)
    known = set(found["outcomes"]) - OTHERS
    both = known & set(found["served"])
    assert len(both) >= 15
    assert {name: told for name, told in found["outcomes"].items() if name in both | OTHERS and told != "right"} == {}
    # What the server lacks is refused by name, or by an attribute of a kind that its protos lack.
    refused = (f"{UnknownOperatorError.__name__}: ", f"{InvalidFieldError.__name__}: attributes[")
    others = {name: found["outcomes"][name] for name in known - both}
    assert {name: told for name, told in others.items() if not told.startswith(refused)} == {}
