"""Time limits of calls: that of the client, another one, or none."""

from enum import Enum
from typing import Final

from aclgrad._client.settings.checks import checked_seconds

DEFAULT_TIMEOUT_S: Final = 120.0
_MAX_TIMEOUT_S: Final = 1e8
"""More is more than gRPC's clock can count."""


class TimeLimitError(Exception):
    """The time limit of a call passed while it waited."""


class Default(Enum):
    """Its only value stands for the setting of the client."""

    DEFAULT = "default"

    def __repr__(self) -> str:
        return "aclgrad.DEFAULT"


DEFAULT: Final = Default.DEFAULT
"""As `timeout_s` of a call: the client's own."""
Timeout = float | Default | None
"""A number of seconds, None for no limit, or DEFAULT for the client's limit."""


def time_limit(timeout_s: Timeout, default_s: float | None) -> float | None:
    """Returns the limit as gRPC takes it: None if there is none.

    Raises InvalidSettingError unless it is a number of seconds, None or DEFAULT.
    """
    if timeout_s is DEFAULT:
        limit_s = default_s
    else:
        limit_s = None if timeout_s is None else checked_seconds("timeout_s", timeout_s)
    return None if limit_s is None or limit_s > _MAX_TIMEOUT_S else limit_s
