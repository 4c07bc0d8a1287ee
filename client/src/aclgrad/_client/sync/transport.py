"""The transport of a client for synchronous code: grpc's threads and blocking waits."""

import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final, TypeVar, cast

import grpc

from aclgrad._client.attempts.progress import Progress
from aclgrad._client.calls.chunked import ChunkedProgram
from aclgrad._client.calls.requirements import LARGE_BYTES
from aclgrad._client.channel.pool import ChannelPool
from aclgrad._client.channel.probes import Channel
from aclgrad._client.channel.servers import Endpoints
from aclgrad._client.settings.checks import TimeLimitError
from aclgrad._client.settings.metadata import Pair
from aclgrad._client.sync.discovery import DiscoveryThread, ThreadNetwork, close
from aclgrad._client.transport import Sending
from aclgrad.errors import ServerFaultError
from aclgrad.wire.service import path_of

CLOSE_TIMEOUT_S: Final = 1.0
_Done = TypeVar("_Done")


def run(course: Callable[..., Coroutine[Any, Any, _Done]], *arguments: Any) -> _Done:
    """Returns the result of a coroutine over a ThreadTransport, which never waits: its first step is its last."""
    try:
        course(*arguments).send(None)
    except StopIteration as end:
        return cast(_Done, end.value)
    except RuntimeError as error:
        if isinstance(error.__cause__, StopIteration):
            # Only a user's function may raise it.
            raise error.__cause__ from None
        raise
    raise RuntimeError("a transport of threads waited for an event loop")


class ThreadTransport:
    """Blocks the caller's thread."""

    may_leave_locks: ClassVar[bool] = True

    def __init__(self, channels: ChannelPool, channel_to: Callable[[Endpoints], Any], metadata: Sequence[Pair]) -> None:
        self.closed = threading.Event()
        self._channels = channels
        self._discovery = DiscoveryThread(channels, ThreadNetwork(channel_to, metadata))

    def bind(self) -> None:
        """Any thread will do."""

    async def message(self, request: bytes, sending: Sending) -> tuple[bytes, Any]:
        channel, method, limit_s, metadata, wants_trailers = sending
        if len(request) > LARGE_BYTES:
            # As a stream of one message: a unary call waits for a full connection even after its deadline.
            replies = _stream(sending, iter((request,)))
            return _only(replies), replies.trailing_metadata() if wants_trailers else None
        call = channel.methods.get(method)
        if call is None:
            call = channel.methods[method] = channel.grpc.unary_unary(path_of(method))
        if not wants_trailers:
            return call(request, timeout=limit_s, metadata=metadata), None
        reply, ended = call.with_call(request, timeout=limit_s, metadata=metadata)
        return reply, ended.trailing_metadata()

    async def chunks(self, sending: Sending, call: ChunkedProgram[Any], progress: Progress) -> Any:
        replies = _stream(sending, progress.outgoing(call.messages()))
        with _watched(progress, replies.cancel) as is_given_up:
            try:
                for message in replies:
                    progress.moved()
                    call.take(message)
            except grpc.RpcError as failure:
                if not is_given_up():
                    raise
                # It would keep this frame and all arrays in a cycle.
                failure.__traceback__ = None
                raise TimeLimitError from None
        return replies.trailing_metadata() if sending.wants_trailers else None

    def means_closed(self, error: BaseException) -> bool:
        # Another thread, or its owner, may have closed the channel since the call took it.
        return isinstance(error, ValueError) and (self.closed.is_set() or "closed channel" in str(error))

    async def beside(self, work: Callable[[], _Done], limit_s: float | None) -> _Done:
        return work()

    async def pause(self, delay_s: float) -> None:
        self.closed.wait(delay_s)

    def discover(self) -> None:
        self._discovery.start()

    async def discovered(self, limit_s: float | None) -> None:
        self._discovery.wait(limit_s)

    def close_channel(self, channel: Channel) -> None:
        close(channel)

    async def close(self) -> None:
        """Ends all calls at once, and waits a moment for connections and threads to end."""
        end = time.monotonic() + CLOSE_TIMEOUT_S
        closers = [close(channel) for channel in self._channels.close()]
        self._discovery.release()
        for closer in filter(None, closers):
            closer.join(max(0.0, end - time.monotonic()))
        self._discovery.join(end - time.monotonic())


@contextmanager
def _watched(progress: Progress, end: Callable[[], object]) -> Iterator[Callable[[], bool]]:
    """Calls `end` on a thread if the silence lasts too long; yields a function that says whether it did."""
    given_up, done = threading.Event(), threading.Event()

    def watch() -> None:
        while (left_s := progress.silence_left_s) is not None:
            if left_s <= 0:
                given_up.set()
                end()
                return
            if done.wait(left_s):
                return

    if progress.silence_left_s is not None:
        threading.Thread(target=watch, name="aclgrad-silence", daemon=True).start()
    try:
        yield given_up.is_set
    finally:
        done.set()


def _stream(sending: Sending, messages: Iterator[bytes]) -> Any:
    streams, name = sending.channel.streams, sending.method
    method = streams.get(name)
    if method is None:
        method = streams[name] = sending.channel.grpc.stream_stream(path_of(name))
    return method(messages, timeout=sending.limit_s, metadata=sending.metadata)


def _only(replies: Iterable[bytes]) -> bytes:
    """Returns the reply to a call of one message; raises ServerFaultError unless there is exactly one reply."""
    try:
        (reply,) = replies
    except ValueError as error:
        raise ServerFaultError("the server sent no reply, or more than one") from error
    return reply
