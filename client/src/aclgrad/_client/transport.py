"""The interface of clients to threads or to an event loop: the only difference between the two kinds."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from aclgrad._client.attempts.progress import Progress
from aclgrad._client.calls.chunked import ChunkedProgram
from aclgrad._client.channel.probes import Channel
from aclgrad._client.settings.metadata import Pair

_Done = TypeVar("_Done")


class Sending(NamedTuple):
    """How an attempt is sent. It is abandoned after `limit_s`."""

    channel: Channel
    method: str
    limit_s: float | None
    metadata: tuple[Pair, ...]
    wants_trailers: bool


class Flag(Protocol):
    """A threading.Event or an asyncio.Event."""

    def is_set(self) -> bool: ...

    def set(self) -> None: ...


class Transport(Protocol):
    """Does everything that waits. The one for threads blocks instead, so that it needs no event loop.

    `message` and `chunks` raise grpc.RpcError, TimeLimitError if an attempt was abandoned on this side, and the errors
    that `means_closed` recognises.
    """

    may_leave_locks: ClassVar[bool]
    """Whether an interrupt such as Ctrl-C may leave a lock of gRPC's channel held, and so block all other calls."""

    @property
    def closed(self) -> Flag:
        """Set when the client is closed, which ends all pauses."""
        ...

    def bind(self) -> None:
        """Prepares for a call by this caller; raises WrongEventLoopError in another event loop."""

    async def message(self, request: bytes, sending: Sending) -> tuple[bytes, Any]:
        """Sends a message; returns the reply and the trailers, None if they are not wanted."""
        ...

    async def chunks(self, sending: Sending, call: ChunkedProgram[Any], progress: Progress) -> Any:
        """Sends the chunks of a call and takes its answer, and abandons it after too long a silence.

        Returns the trailers, None if they are not wanted.
        """
        ...

    def means_closed(self, error: BaseException) -> bool:
        """Whether this is gRPC's error for a closed channel."""
        ...

    async def beside(self, work: Callable[[], _Done], limit_s: float | None) -> _Done:
        """Runs work that would hold an event loop; raises TimeLimitError if it was not begun in time."""
        ...

    async def pause(self, delay_s: float) -> None:
        """Waits, at most until the client is closed."""

    def discover(self) -> None:
        """Begins a discovery that is due, unless one is under way."""

    async def discovered(self, limit_s: float | None) -> None:
        """Waits until the discovery under way has ended, or for this long."""

    def close_channel(self, channel: Channel) -> None:
        """Closes an unused channel, without waiting for it."""

    async def close(self) -> None:
        """Closes all channels, which ends their calls, and ends discovery."""
