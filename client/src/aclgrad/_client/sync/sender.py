"""One attempt of a call on a channel of grpc: the messages that go out, and the bytes that come back."""

from collections.abc import Iterator
from typing import Any, cast

import grpc

from aclgrad._client.attempts.retry import Attempts
from aclgrad._client.attempts.rpc_errors import deadline_error
from aclgrad._client.base_client import Prepare
from aclgrad._client.calls.arrays import Array
from aclgrad._client.calls.chunked import ChunkedAnswer, chunked_messages
from aclgrad._client.calls.exchanges import CHUNKED, ChunkedCall, only_reply
from aclgrad._client.calls.outgoing import LARGE_BYTES
from aclgrad._client.channel.probes import Channel
from aclgrad._client.settings.metadata import Pair, server_of
from aclgrad._client.sync.idle_timeout import IdleTimeout
from aclgrad.wire.service import path_of


class Sender:
    """Sends what the calls of a client are made of."""

    def __init__(self, target: str, prepare: Prepare) -> None:
        self._target = target
        self._prepare = prepare

    def message(self, channel: Channel, name: str, request: bytes, attempts: Attempts) -> bytes:
        """Returns the reply; raises grpc.RpcError, and ValueError on a closed channel."""
        if len(request) > LARGE_BYTES:
            # As a stream of one message. A unary call would wait for a full connection to take the rest of the message,
            # even after its deadline.
            limit_s, metadata, _ = self._prepare(channel, attempts, name)
            replies = self._stream(channel, name, iter((request,)), limit_s, metadata)
            reply = only_reply(replies)
            attempts.server = server_of(replies.trailing_metadata())
            return reply
        method = channel.methods.get(name)
        if method is None:
            method = channel.methods[name] = channel.grpc.unary_unary(path_of(name))
        limit_s, metadata, wants_server = self._prepare(channel, attempts, name)
        if not wants_server:
            return cast(bytes, method(request, timeout=limit_s, metadata=metadata))
        reply, call = method.with_call(request, timeout=limit_s, metadata=metadata)
        attempts.server = server_of(call.trailing_metadata())
        return cast(bytes, reply)

    def chunks(self, channel: Channel, chunked: ChunkedCall, attempts: Attempts) -> Array:
        """Returns the gradient; raises what `message` raises."""
        answer = ChunkedAnswer(chunked.destination)
        limit_s, metadata, _ = self._prepare(channel, attempts, CHUNKED)
        left_s = attempts.time_left_s()
        idle_timeout = IdleTimeout(limit_s if attempts.may_move else None)
        messages = idle_timeout.through(chunked_messages(chunked.call, chunked.chunk_bytes))
        replies = self._stream(channel, CHUNKED, messages, left_s, metadata)
        try:
            with idle_timeout.watched(replies.cancel):
                for message in idle_timeout.through(replies):
                    answer.take(message)
        except grpc.RpcError as failure:
            if not idle_timeout.is_over:
                raise
            # It would keep this frame, and all arrays, in a cycle.
            failure.__traceback__ = None
            raise deadline_error(self._target) from None
        attempts.server = server_of(replies.trailing_metadata())
        return answer.gradient()

    def _stream(
        self,
        channel: Channel,
        name: str,
        messages: Iterator[bytes],
        limit_s: float | None,
        metadata: tuple[Pair, ...],
    ) -> Any:
        method: Any = channel.grpc.stream_stream(path_of(name))
        return method(messages, timeout=limit_s, metadata=metadata)
