"""The library that checks each call of the ABI, before the host library: a file for aclInit asks for it."""

import json
import os
from pathlib import Path
from typing import Any


def strict_library() -> str:
    """Returns the path of libacl_strict.so, which by default leads to the host library."""
    from aclgrad_native.backends import host_library  # here, because tests of the client run without it

    return str(host_library().with_name("libacl_strict.so"))


def config_text(
    *, strict: bool | None = None, strict_report: object = "", strict_cann: str | None = None, **host: Any
) -> str:
    """Returns a file for aclInit with these settings of the host library, and with what `strict_backend` reads.

    `strict_cann` is the release of CANN whose rules hold; by default those of all releases do.
    """
    release = {} if strict_cann is None else {"cann": strict_cann}
    asked = {} if strict is None else {"strict": {"report": str(strict_report), **release} if strict else False}
    return json.dumps({"host": host} | asked)


def strict_backend(config: str | None) -> str:
    """Returns the strict library if the file, by default that of ACL_HOST_CONFIG, asks for it, and otherwise `host`."""
    try:
        asks = json.loads(Path(config or os.environ["ACL_HOST_CONFIG"]).read_text()).get("strict")
    except (OSError, KeyError, ValueError, AttributeError):  # tests of bad files
        asks = False
    return strict_library() if asks else "host"
