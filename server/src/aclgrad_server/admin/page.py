"""The status page: the server's status as one self-contained HTML document that works without script."""

import hashlib
from base64 import b64encode
from datetime import UTC, datetime
from importlib.resources import files
from typing import Final

from google.protobuf.duration_pb2 import Duration
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from aclgrad.descriptions.status import called, named, unnamed
from aclgrad.units import number, rate, size, span
from aclgrad.v1 import operator_service_pb2 as pb

_FOLDER: Final = files(__package__)
_STYLE: Final = _FOLDER.joinpath("status.css").read_text("utf-8")
_SCRIPT: Final = _FOLDER.joinpath("status.js").read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


HEADERS: Final = {
    "cache-control": "no-store",
    # Only our own style and script run, and they connect only to us.
    "content-security-policy": f"default-src 'none'; style-src {_hash(_STYLE)}; script-src {_hash(_SCRIPT)}; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


def seconds(duration: Duration) -> float:
    return duration.ToNanoseconds() / 1e9


def share(part: float, whole: float) -> float:
    """Returns a percentage from 0 to 100."""
    return round(min(100.0, max(0.0, 100 * part / whole)), 1) if whole > 0 else 0.0


_ENVIRONMENT: Final = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
_ENVIRONMENT.filters |= {
    each.__name__: each for each in (called, named, number, rate, seconds, share, size, span, unnamed)
}
_ENVIRONMENT.globals |= {"style": Markup(_STYLE), "script": Markup(_SCRIPT)}
_TEMPLATE: Final = _ENVIRONMENT.from_string(_FOLDER.joinpath("status.html.j2").read_text("utf-8"))


def render(status: pb.GetServerStatusResponse) -> str:
    return _TEMPLATE.render(status=status, now=datetime.now(UTC))
