"""`aclgrad serve`: becomes `aclgrad-server`, which is a distribution of its own."""

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from aclgrad.commands.common import UNUSABLE, fail

_REMEDY: Final = "use its image, or in a checkout of aclgrad, with a C++ compiler: pip install ./native ./server"


def serve(arguments: Sequence[str]) -> None:
    """Replaces this process by the server of the same environment; exits with 2 if there is none."""
    if find_spec("aclgrad_server") is None:
        fail("serve", f"aclgrad-server is not installed; {_REMEDY}", UNUSABLE)
    # -P: no module of the working directory is taken for one of ours.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "aclgrad_server", *arguments])
