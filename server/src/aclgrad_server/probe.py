"""`aclgrad-server probe`: asks a server's admin listener, for health checks that use an exit code.

It runs every few seconds, so it imports nothing but the standard library.
"""

import argparse
import os
import sys
import tomllib
from http.client import HTTPConnection, HTTPException
from typing import Final

DEFAULT_ADDRESS: Final = "127.0.0.1:9464"
_MAX_ANSWER_BYTES: Final = 1000
_EVERY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
_REMEDY: Final = "give host:port as a server's --admin has it"

_DESCRIPTION: Final = """\
Ask the server whose admin listener has this ADDRESS, host:port, whether it is ready for calls, or with --live whether
it is alive. The default is where a server of this environment would listen: ACLGRAD_ADMIN, the key `admin` of the file
that ACLGRAD_CONFIG names, or 127.0.0.1:9464. The exit code is 0 for yes, 1 for no and for no answer, 2 for a wrong
use."""


def main(arguments: list[str], program: str) -> None:
    """Prints one line about the server and ends the process unless it is well."""
    parser = argparse.ArgumentParser(program, description=_DESCRIPTION, allow_abbrev=False)
    parser.add_argument("address", nargs="?", help="host:port, an IPv6 host in brackets")
    parser.add_argument("--live", action="store_true", help="ask /livez instead of /readyz")
    parser.add_argument("--timeout-s", type=_seconds, default=2.0, metavar="S", help="time to wait for the answer (2)")
    options = parser.parse_args(arguments)
    try:
        address = connectable(options.address or configured_address())
    except ValueError as error:
        parser.exit(2, f"aclgrad-server: {error}\n")
    status = None
    try:
        connection = HTTPConnection(address, timeout=options.timeout_s)
        connection.request("GET", "/livez" if options.live else "/readyz")
        answer = connection.getresponse()
        text = " ".join(answer.read(_MAX_ANSWER_BYTES).decode(errors="replace").split())
        status = answer.status
    except TimeoutError:
        text = f"no answer within {options.timeout_s:g} s; the server hangs, or is slower than --timeout-s"
    except HTTPException:
        text = f"the answer is not HTTP; {_REMEDY}"
    except OSError as error:
        text = f"no answer: {error.strerror or error}"
    if status == 200:
        print(f"{address}: {text}")
    else:
        told = text if status in (None, 503) else f"HTTP status {status}; {_REMEDY}"
        sys.exit(f"aclgrad-server: {address}: {told}")


def configured_address() -> str:
    """Returns the address of a server with this environment; raises ValueError if it cannot be known."""
    address: object = os.environ.get("ACLGRAD_ADMIN")
    if not address and (file := os.environ.get("ACLGRAD_CONFIG")):
        try:
            with open(file, "rb") as stream:
                address = tomllib.load(stream).get("admin")
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise ValueError(f"config: {file}: {error}") from error
    return str(address or DEFAULT_ADDRESS)


def connectable(address: str) -> str:
    """Returns the address for reaching a server on this host that listens on the given one, which may be a wildcard."""
    host, _, port = address.rpartition(":")
    if not (host and "/" not in host and port.isdecimal() and 0 < int(port) < 65536):
        raise ValueError(f"{address!r} is not an address to ask; {_REMEDY}")
    return f"{_EVERY_ADDRESS.get(host, host)}:{port}"


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.01 <= value <= 60:
        raise argparse.ArgumentTypeError(f"{text} is not between 0.01 and 60")
    return value
