"""A channel that the caller made, for example with interceptors, in place of a target."""

from collections.abc import Mapping
from typing import Any, Final

import grpc.aio

from aclgrad._client.channel.options import DEFAULT_TARGET
from aclgrad.errors import InvalidSettingError

TARGET: Final = "your channel"
"""What the messages of errors name as the target: a channel does not tell its own."""
DEFAULTS: Final[Mapping[str, Any]] = {
    "target": DEFAULT_TARGET,
    "compression": None,
    "channel_options": [],
    "credentials": None,
}
"""The settings that such a channel has of its own, and what they are where nobody gave them."""


def check_own_channel(channel: Any, kind: type, **settings: Any) -> None:
    """Raises InvalidSettingError if the channel is not of the client's kind, or a setting is the channel's own."""
    if not isinstance(channel, kind):
        name = "grpc.aio.Channel" if issubclass(kind, grpc.aio.Channel) else "grpc.Channel"
        raise InvalidSettingError(f"channel is a {type(channel).__name__}", field="channel", remedy=f"give a {name}")
    for setting, value in settings.items():
        if value != DEFAULTS[setting]:
            problem = f"{setting} is given beside a channel, which has its own"
            raise InvalidSettingError(problem, field=setting, remedy="leave it out, and make the channel with it")
