"""What a client needs of threads or of an event loop: the one place where its two kinds differ."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from aclgrad._client.attempts.progress import Progress
from aclgrad._client.calls.chunked import ChunkedProgram
from aclgrad._client.channel.probes import Channel
from aclgrad._client.settings.metadata import Pair

_Done = TypeVar("_Done")


class Sending(NamedTuple):
    """How an attempt is sent. It is given up after `limit_s`."""

    channel: Channel
    method: str
    limit_s: float | None
    metadata: tuple[Pair, ...]
    wants_trailers: bool


class Flag(Protocol):
    """An event of threads or of tasks."""

    def is_set(self) -> bool: ...

    def set(self) -> None: ...


class Transport(Protocol):
    """Does what waits. That of threads blocks in place of waiting, so that nobody needs an event loop.

    `message` and `chunks` raise grpc.RpcError, TimeLimitError if an attempt was given up on this side, and what
    `means_closed` recognises.
    """

    may_leave_locks: ClassVar[bool]
    """Whether what interrupts a call, such as Ctrl-C, may come between the steps of a lock of gRPC's channel, which
    then stays locked for every other call."""

    @property
    def closed(self) -> Flag:
        """Set when the client is closed; whoever pauses wakes."""
        ...

    def bind(self) -> None:
        """Prepares for a call by this caller; raises WrongEventLoopError in another event loop."""

    async def message(self, request: bytes, sending: Sending) -> tuple[bytes, Any]:
        """Sends a message; returns the reply and the trailers, None if nobody wants them."""
        ...

    async def chunks(self, sending: Sending, call: ChunkedProgram[Any], progress: Progress) -> Any:
        """Has a call send its chunks and take its answer, and gives it up if it is silent for too long.

        Returns the trailers, None if nobody wants them.
        """
        ...

    def means_closed(self, error: BaseException) -> bool:
        """Whether gRPC raises the error for a channel that is closed."""
        ...

    async def beside(self, work: Callable[[], _Done], limit_s: float | None) -> _Done:
        """Does what would hold an event loop; raises TimeLimitError if it was not begun in time."""
        ...

    async def pause(self, delay_s: float) -> None:
        """Waits, at most until the client is closed."""

    def discover(self) -> None:
        """Begins a discovery that is due, unless one is under way."""

    async def discovered(self, limit_s: float | None) -> None:
        """Waits until the discovery under way has ended, or for so long."""

    def close_channel(self, channel: Channel) -> None:
        """Closes a channel that no call uses any more, without waiting for it."""

    async def close(self) -> None:
        """Closes all channels, which ends their calls, and ends discovery."""
