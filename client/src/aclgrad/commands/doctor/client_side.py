"""What the doctor says of this side: versions, and the variables that the client reads."""

import os
import platform
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.metadata import version
from typing import Final

from aclgrad._client.settings.credentials import VARIABLES as CREDENTIALS
from aclgrad._client.settings.environment import VARIABLES, settings_of_environment
from aclgrad._client.sync.client import Client
from aclgrad.commands.doctor.findings import Found, bad, fine, noted
from aclgrad.errors import InvalidSettingError

_LIBRARIES: Final = ("aclgrad", "grpcio", "protobuf", "numpy")
_PREFIX: Final = "ACLGRAD_"
_LEAST_S: Final = 1e-4
"""In less, not even a call on the same machine is answered."""
_ALIKE: Final = 0.85
"""Of the server's variables, which a machine may have as well, none is so like one of the client's."""


def of_client(target: str, environment: Mapping[str, str] = os.environ) -> Found:
    """Yields what this program is, and whether a client of the target takes what its environment tells it.

    Values are not shown, for some are secret. The files of TLS are another step's.
    """
    versions = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    yield "client", "versions", fine(f"{versions}, Python {platform.python_version()}, {platform.platform(terse=True)}")
    known = {each.name for each in VARIABLES} | CREDENTIALS.keys()
    given = sorted(each for each in environment if each.startswith(_PREFIX))
    for name in given:
        if name not in known and (meant := get_close_matches(name, known, 1, _ALIKE)):
            yield "client", name, noted(f"the client does not read this variable; {meant[0]} may be meant")
    read = [each for each in given if each in known and environment[each]]
    unread = [each for each in given if each not in known]
    try:
        settings_of_environment()
        with Client.from_env(target, credentials=None) as client:
            limit_s = client.timeout_s
    except InvalidSettingError as error:
        yield "client", "settings", bad(str(error), "or unset the variable")
        return
    if limit_s is not None and limit_s < _LEAST_S:
        problem = f"ACLGRAD_TIMEOUT_S is {environment['ACLGRAD_TIMEOUT_S']}: calls end before a server can answer"
        yield "client", "settings", bad(problem, "give seconds, or none for no limit")
        return
    told = f"set: {', '.join(read)}" if read else "no variable of the client is set"
    yield "client", "settings", fine(f"{told}; not the client's: {', '.join(unread)}" if unread else told)
