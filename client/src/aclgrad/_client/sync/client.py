"""The client for synchronous code."""

from __future__ import annotations  # `help` shows the names of unions, and not their members

import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import grpc

from aclgrad._client.attempts import rpc_errors
from aclgrad._client.attempts.retry import Attempts
from aclgrad._client.base_client import BaseClient
from aclgrad._client.calls.arrays import Array
from aclgrad._client.calls.batch import BaseBatch, BatchRun
from aclgrad._client.calls.destination import Outputs
from aclgrad._client.calls.exchanges import (
    Exchange,
    Execution,
    operators_query,
    status_query,
)
from aclgrad._client.calls.message_limit import MessageLimit
from aclgrad._client.calls.outgoing import Inputs, SentValues
from aclgrad._client.calls.readiness import HEALTH, Readiness
from aclgrad._client.channel.probes import Channel
from aclgrad._client.server.operators import OperatorDescription
from aclgrad._client.server.status import ServerStatus
from aclgrad._client.settings.metadata import server_of
from aclgrad._client.settings.timeouts import DEFAULT, Timeout, time_limit
from aclgrad._client.shared_memory.loans import Loan
from aclgrad._client.shared_memory.regions import RegionPool
from aclgrad._client.sync.bridge_functions import BridgeFunctions
from aclgrad._client.sync.discovery import DiscoveryThread, ThreadNetwork, close
from aclgrad._client.sync.sender import Sender
from aclgrad.errors import AclgradError
from aclgrad.operators.attributes import AttributeLike
from aclgrad.wire.messages import encode_request

CLOSE_TIMEOUT_S = 1.0
_Result = TypeVar("_Result")


class Client(BaseClient[Array]):
    """Computes gradients on the server at `target` (`host:port` or `unix:path`); safe to share between threads.

    with aclgrad.Client("127.0.0.1:50051") as client:
        gradient = client.adaptive_avg_pool2d_backward(grad_output, (8, 64, 56, 56))
    """

    _channel_kind = grpc.Channel
    _library = grpc

    def _open(self) -> None:
        self._closed: threading.Event = threading.Event()
        self.bridge_functions = BridgeFunctions()
        """What a bridge to a framework made for this client; it ends with it."""
        self._discovery = DiscoveryThread(self._channels, ThreadNetwork(self._channel_to, self._metadata))
        self._sender = Sender(self.target, self._prepare)
        self._open_first_channel()

    def execute(
        self,
        name: str,
        inputs: Inputs,
        attributes: Mapping[str, AttributeLike] | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Array:
        call = Execution(name, inputs, attributes, self._sent_values, self._limit, out, outputs)
        return self._run(call, timeout_s, name)

    def batch(self) -> Batch:
        return Batch(self, self._sent_values, self._limit)

    def list_operators(self, *, timeout_s: Timeout = DEFAULT) -> list[OperatorDescription]:
        return self._run(operators_query(), timeout_s)

    def server_status(self, *, timeout_s: Timeout = DEFAULT) -> ServerStatus:
        return self._run(status_query(), timeout_s)

    def wait_until_ready(self, timeout_s: Timeout = DEFAULT) -> None:
        wait = Readiness(self.target, time_limit(timeout_s, self.timeout_s))
        while True:
            attempts = self._start(HEALTH.method, wait.probe_s())
            try:
                seen: str | AclgradError = self._attempt(HEALTH, attempts)
            except AclgradError as error:
                attempts.explain(error)
                attempts.release()
                seen = error
            delay_s = wait.delay_after(seen)
            if delay_s is None:
                return
            self._pause(delay_s)

    def close(self) -> None:
        self._closed.set()
        self.bridge_functions.clear()
        if self._is_inherited:
            return
        try:
            if self._own_channel is None:
                self._close_channels()
        finally:
            # After the calls: otherwise they would fail because their memory cannot be found.
            if self._regions is not None:
                self._regions.close()

    def _close_channels(self) -> None:
        """Ends all calls at once, and waits for a moment until connections and threads have ended, too."""
        end = time.monotonic() + CLOSE_TIMEOUT_S
        closers = [close(channel) for channel in self._channels.close()]
        self._discovery.release()
        for closer in filter(None, closers):
            closer.join(max(0.0, end - time.monotonic()))
        self._discovery.join(end - time.monotonic())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    if not TYPE_CHECKING:  # type checkers say so before the program runs

        def __aenter__(self):
            raise TypeError("a Client is entered by `with`; write that, or make an aclgrad.AsyncClient")

        __aexit__ = __aenter__

    def _run(self, call: Exchange[_Result], timeout_s: Timeout, operator: str | None = None) -> _Result:
        attempts = self._traced(self._start(call.method, timeout_s), operator)
        try:
            result = self._repeat(call, attempts)
        except BaseException as error:
            self._end(attempts, error)
            raise
        self._end(attempts)
        return result

    def _run_batch(self, call: BatchRun, timeout_s: Timeout) -> list[Any]:
        """Sends the messages of a batch one after the other, each with its own retries, within one time limit."""
        attempts = self._traced(self._start(call.method, timeout_s))
        try:
            while call.next_message():
                try:
                    self._repeat(call, attempts)
                except AclgradError as error:
                    call.fail(error)
                attempts = attempts.of_another_message()
            results = call.results()
        except BaseException as error:
            self._end(attempts, error)
            raise
        self._end(attempts)
        return results

    def _repeat(self, call: Exchange[_Result], attempts: Attempts) -> _Result:
        """Makes the call, within the time that is left, until it succeeds or its error is final."""
        with self._retry_policy.budget:
            while True:
                try:
                    return self._attempt(call, attempts)
                except AclgradError as error:
                    amended = call.amend(error)
                    delay_s = attempts.delay_after_s(error) if amended is None else attempts.no_delay_after(error)
                    if delay_s is None:
                        attempts.explain(error)
                        raise
                    if attempts.moves(error):
                        self._discover_now(attempts)
                call = amended or call
                self._pause(delay_s)

    def _attempt(self, call: Exchange[_Result], attempts: Attempts) -> _Result:
        if self._closed.is_set():
            raise rpc_errors.closed_error(self.target)
        channel = self._channel_for(attempts)
        try:
            result = self._attempt_on(channel, call, attempts)
        except AclgradError as error:
            self._channels.failed(channel, error, moves=attempts.moves(error))
            if attempts.trace is not None:
                attempts.trace.end_attempt(error, attempts.server)
            raise
        finally:
            if self._channels.give_back(channel):
                close(channel)
        self._channels.succeeded(channel)
        attempts.release()
        if attempts.trace is not None:
            attempts.trace.end_attempt(server=attempts.server)
        return result

    def _channel_for(self, attempts: Attempts) -> Channel:
        """Returns the channel for an attempt; if names have to be looked up for it, that counts as looking for one."""
        channel = self._channels.take(attempts.tried)
        self._discovery.start()
        if channel is None:
            self._discovery.wait(attempts.time_left_s())
            channel = self._channels.take()
        if channel is None:
            if self._closed.is_set():
                raise rpc_errors.closed_error(self.target)
            raise rpc_errors.unfound_error(self.target, attempts.time_left_s(), self._channels.source_problem)
        return channel

    def _discover_now(self, attempts: Attempts) -> None:
        """Has the servers checked, one of which said nothing, before another attempt goes to one of them."""
        self._discovery.start()
        left_s = attempts.time_left_s()
        # The other half is for that attempt, whatever delays the discovery.
        self._discovery.wait(None if left_s is None else left_s / 2)

    def _attempt_on(self, channel: Channel, call: Exchange[_Result], attempts: Attempts) -> _Result:
        try:
            if isinstance(call, Execution) and self._regions is not None:
                return self._send_shared(channel, call, self._regions, attempts)
            if isinstance(call, Execution | BatchRun) and (chunked := call.in_chunks(call.size_bytes)):
                return call.take(self._sender.chunks(channel, chunked, attempts))
            return call.read(self._sender.message(channel, call.method, call.request, attempts))
        except grpc.RpcError as failure:
            # A call of grpc is its own exception. Its traceback would keep it, this frame and all arrays in a cycle.
            failure.__traceback__ = None
            attempts.server = server_of(failure.trailing_metadata())
            is_closed, proxy = self._closed.is_set(), channel.endpoints.proxy
            raise rpc_errors.error_of(failure, self.target, is_closed=is_closed, proxy=proxy) from None
        except ValueError as error:
            # What grpc raises for a channel that another thread closed since it was asked, or its owner.
            if self._closed.is_set():
                raise rpc_errors.closed_error(self.target) from None
            if self._own_channel is not None and "closed channel" in str(error):
                raise rpc_errors.channel_closed_error(self.target) from None
            raise

    def _send_shared(self, channel: Channel, call: Execution, regions: RegionPool, attempts: Attempts) -> Array:
        with Loan(regions, call.outgoing, call.destination) as shared:
            lent = shared.lend()
            if chunked := call.in_chunks(lent.size_bytes):
                # There was no room for all of it.
                return self._sender.chunks(channel, chunked, attempts)
            return shared.read(self._sender.message(channel, call.method, encode_request(lent.call), attempts))

    def _pause(self, delay_s: float) -> None:
        """Waits for the next attempt; a client that is closed meanwhile makes no further attempt."""
        if self._closed.wait(delay_s):
            raise rpc_errors.closed_error(self.target)


class Batch(BaseBatch):
    """Calls that are sent together; a method of an operator adds its call and returns its position.

    batch = client.batch()
    for grad_output in grads:
        batch.adaptive_avg_pool2d_backward(grad_output, (8, 64, 56, 56))
    gradients = batch.run()
    """

    def __init__(self, client: Client, sent_values: SentValues, limit: MessageLimit) -> None:
        super().__init__(sent_values, limit)
        self._client = client

    def run(self, *, return_errors: bool = False, timeout_s: Timeout = DEFAULT) -> list[Any]:
        return self._client._run_batch(self.to_send(return_errors), timeout_s)  # noqa: SLF001 - the two are one
