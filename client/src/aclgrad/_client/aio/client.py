"""The client for asyncio; its names are those of the synchronous client."""

from __future__ import annotations  # `help` shows the names of unions, and not their members

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import grpc.aio

from aclgrad._client.aio.discovery import DiscoveryTask, TaskNetwork
from aclgrad._client.aio.executor import in_thread
from aclgrad._client.aio.sender import Sender
from aclgrad._client.attempts import rpc_errors
from aclgrad._client.attempts.retry import Attempts
from aclgrad._client.base_client import BaseClient
from aclgrad._client.calls.arrays import Array
from aclgrad._client.calls.batch import BaseBatch, BatchRun
from aclgrad._client.calls.destination import Outputs
from aclgrad._client.calls.exchanges import Exchange, Execution, operators_query, status_query
from aclgrad._client.calls.message_limit import MessageLimit
from aclgrad._client.calls.outgoing import LARGE_BYTES, Inputs, SentValues, copies_much
from aclgrad._client.calls.readiness import HEALTH, Readiness
from aclgrad._client.channel.probes import Channel
from aclgrad._client.server.operators import OperatorDescription
from aclgrad._client.server.status import ServerStatus
from aclgrad._client.settings.metadata import server_of
from aclgrad._client.settings.timeouts import DEFAULT, TimeLimitError, Timeout, time_limit
from aclgrad._client.shared_memory.loans import Loan
from aclgrad._client.shared_memory.regions import RegionPool
from aclgrad.errors import AclgradError, DeadlinePassedError, InputValuesRequiredError
from aclgrad.operators.attributes import AttributeLike
from aclgrad.wire.messages import encode_request

_Result = TypeVar("_Result")
_Done = TypeVar("_Done")


class AsyncClient(BaseClient[Coroutine[Any, Any, Array]]):
    """Computes gradients on the server at `target` (`host:port` or `unix:path`), in the event loop of its first call.

    async with aclgrad.AsyncClient("127.0.0.1:50051") as client:
        gradient = await client.adaptive_avg_pool2d_backward(grad_output, (8, 64, 56, 56))
    """

    _channel_kind = grpc.aio.Channel
    _library = grpc.aio

    def _open(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed: asyncio.Event = asyncio.Event()
        self._discovery = DiscoveryTask(self._channels, TaskNetwork(self._channel_to, self._metadata))
        self._sender = Sender(self.target, self._prepare, self._in_thread)

    async def execute(
        self,
        name: str,
        inputs: Inputs,
        attributes: Mapping[str, AttributeLike] | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Array:
        attempts = self._start(Execution.method, timeout_s)
        prepare = partial(Execution, name, inputs, attributes, self._sent_values, self._limit, out, outputs)
        if not copies_much(inputs):
            return await self._run(prepare(), self._traced(attempts, name))
        try:
            call = await self._in_thread(prepare, attempts)
        except DeadlinePassedError as error:
            attempts.explain(error)
            self._end(attempts, error)
            raise
        attempts.connect_from_now()
        return await self._run(call, self._traced(attempts, name))

    def batch(self) -> AsyncBatch:
        return AsyncBatch(self, self._sent_values, self._limit)

    async def list_operators(self, *, timeout_s: Timeout = DEFAULT) -> list[OperatorDescription]:
        query = operators_query()
        return await self._run(query, self._traced(self._start(query.method, timeout_s)))

    async def server_status(self, *, timeout_s: Timeout = DEFAULT) -> ServerStatus:
        query = status_query()
        return await self._run(query, self._traced(self._start(query.method, timeout_s)))

    async def wait_until_ready(self, timeout_s: Timeout = DEFAULT) -> None:
        wait = Readiness(self.target, time_limit(timeout_s, self.timeout_s))
        while True:
            attempts = self._start(HEALTH.method, wait.probe_s())
            try:
                seen: str | AclgradError = await self._attempt(HEALTH, attempts)
            except AclgradError as error:
                attempts.explain(error)
                attempts.release()
                seen = error
            delay_s = wait.delay_after(seen)
            if delay_s is None:
                return
            await self._pause(delay_s)

    async def close(self) -> None:
        self._closed.set()
        if self._is_inherited:
            return
        try:
            if self._loop is not None and self._own_channel is None:
                self._bind()
                await self._close_channels()
        finally:
            # After the calls: otherwise they would fail because their memory cannot be found.
            if self._regions is not None:
                self._regions.close()

    async def _close_channels(self) -> None:
        await asyncio.gather(*(channel.grpc.close() for channel in self._channels.close()))
        await self._discovery.end()

    def _bind(self) -> None:
        """Opens the channel in the event loop of the first call, which all others have to be in."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            self._open_first_channel()
        elif loop is not self._loop:
            raise rpc_errors.wrong_loop_error(self.target)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    if not TYPE_CHECKING:  # type checkers say so before the program runs

        def __enter__(self):
            raise TypeError("an AsyncClient is entered by `async with`; write that, or make an aclgrad.Client")

        __exit__ = __enter__

    async def _run(self, call: Exchange[_Result], attempts: Attempts) -> _Result:
        try:
            result = await self._repeat(call, attempts)
        except BaseException as error:
            self._end(attempts, error)
            raise
        self._end(attempts)
        return result

    async def _run_batch(self, call: BatchRun, timeout_s: Timeout) -> list[Any]:
        """Sends the messages of a batch one after the other, each with its own retries, within one time limit."""
        attempts = self._traced(self._start(call.method, timeout_s))
        try:
            while call.next_message():
                try:
                    await self._repeat(call, attempts)
                except AclgradError as error:
                    call.fail(error)
                attempts = attempts.of_another_message()
            results = call.results()
        except BaseException as error:
            self._end(attempts, error)
            raise
        self._end(attempts)
        return results

    async def _repeat(self, call: Exchange[_Result], attempts: Attempts) -> _Result:
        """Makes the call, within the time that is left, until it succeeds or its error is final."""
        with self._retry_policy.budget:
            while True:
                try:
                    return await self._attempt(call, attempts)
                except AclgradError as error:
                    amended = await self._amended(call, error, attempts)
                    delay_s = attempts.delay_after_s(error) if amended is None else attempts.no_delay_after(error)
                    if delay_s is None:
                        attempts.explain(error)
                        raise
                    if attempts.moves(error):
                        await self._discover_now(attempts)
                call = amended or call
                await self._pause(delay_s)

    async def _amended(
        self, call: Exchange[_Result], error: AclgradError, attempts: Attempts
    ) -> Exchange[_Result] | None:
        if not isinstance(error, InputValuesRequiredError):
            return call.amend(error)
        try:
            # It copies arrays whose values were withheld.
            return await self._in_thread(partial(call.amend, error), attempts)
        except DeadlinePassedError as late:
            attempts.explain(late)
            raise late from None

    async def _in_thread(self, work: Callable[[], _Done], attempts: Attempts) -> _Done:
        """Does what would hold the event loop; the time limit of the call covers the wait for a thread."""
        try:
            return await in_thread(work, attempts.time_left_s())
        except TimeLimitError:
            raise rpc_errors.deadline_error(self.target) from None

    async def _attempt(self, call: Exchange[_Result], attempts: Attempts) -> _Result:
        if self._closed.is_set():
            raise rpc_errors.closed_error(self.target)
        channel = await self._channel_for(attempts)
        try:
            result = await self._attempt_on(channel, call, attempts)
        except AclgradError as error:
            self._channels.failed(channel, error, moves=attempts.moves(error))
            if attempts.trace is not None:
                attempts.trace.end_attempt(error, attempts.server)
            raise
        finally:
            if self._channels.give_back(channel):
                self._discovery.close(channel)
        self._channels.succeeded(channel)
        attempts.release()
        if attempts.trace is not None:
            attempts.trace.end_attempt(server=attempts.server)
        return result

    async def _channel_for(self, attempts: Attempts) -> Channel:
        """Returns the channel for an attempt; if names have to be looked up for it, that counts as looking for one."""
        self._bind()
        channel = self._channels.take(attempts.tried)
        self._discovery.start()
        if channel is None:
            await self._discovery.wait(attempts.time_left_s())
            channel = self._channels.take()
        if channel is None:
            raise rpc_errors.unfound_error(self.target, attempts.time_left_s(), self._channels.source_problem)
        return channel

    async def _discover_now(self, attempts: Attempts) -> None:
        """Has the servers checked, one of which said nothing, before another attempt goes to one of them."""
        self._discovery.start()
        left_s = attempts.time_left_s()
        # The other half is for that attempt, whatever delays the discovery.
        await self._discovery.wait(None if left_s is None else left_s / 2)

    async def _attempt_on(self, channel: Channel, call: Exchange[_Result], attempts: Attempts) -> _Result:
        try:
            if isinstance(call, Execution) and self._regions is not None:
                return await self._send_shared(channel, call, self._regions, attempts)
            size_bytes = call.size_bytes
            if isinstance(call, Execution | BatchRun) and (chunked := call.in_chunks(size_bytes)):
                return call.take(await self._sender.chunks(channel, chunked, attempts))
            if size_bytes > LARGE_BYTES:
                reply = await self._sender.large(channel, call.method, lambda: call.request, attempts)
                return await self._in_thread(partial(call.read, reply), attempts)
            return call.read(await self._sender.message(channel, call.method, call.request, attempts))
        except grpc.aio.AioRpcError as failure:
            attempts.server = server_of(failure.trailing_metadata())
            is_closed, proxy = self._closed.is_set(), channel.endpoints.proxy
            raise rpc_errors.error_of(failure, self.target, is_closed=is_closed, proxy=proxy) from None
        except (asyncio.CancelledError, grpc.aio.UsageError):
            # What grpc.aio does to the calls of a channel that is closed; but a task may be cancelled as well.
            task = asyncio.current_task()
            if task and task.cancelling():
                raise
            if self._closed.is_set():
                raise rpc_errors.closed_error(self.target) from None
            if self._own_channel is not None:
                raise rpc_errors.channel_closed_error(self.target) from None
            raise

    async def _send_shared(self, channel: Channel, call: Execution, regions: RegionPool, attempts: Attempts) -> Array:
        with Loan(regions, call.outgoing, call.destination) as shared:
            is_large = call.size_bytes > LARGE_BYTES
            lent = await self._in_thread(shared.lend, attempts) if is_large else shared.lend()
            if chunked := call.in_chunks(lent.size_bytes):
                # There was no room for all of it.
                return await self._sender.chunks(channel, chunked, attempts)
            encode = partial(encode_request, lent.call)
            if lent.size_bytes > LARGE_BYTES:
                reply = await self._sender.large(channel, call.method, encode, attempts)
            else:
                reply = await self._sender.message(channel, call.method, encode(), attempts)
            read = partial(shared.read, reply)
            return await self._in_thread(read, attempts) if shared.copies_much else read()

    async def _pause(self, delay_s: float) -> None:
        """Waits for the next attempt; a client that is closed meanwhile makes no further attempt."""
        try:
            async with asyncio.timeout(delay_s):
                await self._closed.wait()
        except TimeoutError:
            return
        raise rpc_errors.closed_error(self.target)


class AsyncBatch(BaseBatch):
    """Calls that are sent together; a method of an operator adds its call and returns its position.

    batch = client.batch()
    for grad_output in grads:
        batch.adaptive_avg_pool2d_backward(grad_output, (8, 64, 56, 56))
    gradients = await batch.run()
    """

    def __init__(self, client: AsyncClient, sent_values: SentValues, limit: MessageLimit) -> None:
        super().__init__(sent_values, limit)
        self._client = client

    async def run(self, *, return_errors: bool = False, timeout_s: Timeout = DEFAULT) -> list[Any]:
        return await self._client._run_batch(self.to_send(return_errors), timeout_s)  # noqa: SLF001 - the two are one
