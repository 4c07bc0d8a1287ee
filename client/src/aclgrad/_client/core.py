"""The course of a client's calls, the same for both clients: attempts, discovery, readiness, programs, closing.

Coroutines over a `Transport`. An AsyncClient awaits them; a Client runs them without an event loop, because its
transport blocks instead of waiting.
"""

import logging
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import grpc.aio

from aclgrad._client.attempts import rpc_errors
from aclgrad._client.attempts.request_ids import given_id
from aclgrad._client.attempts.retry import Attempts, RetryPolicy
from aclgrad._client.calls.exchange import Exchange
from aclgrad._client.calls.lender import Lender
from aclgrad._client.calls.readiness import HEALTH, Readiness
from aclgrad._client.calls.requirements import LARGE_BYTES, Requirements
from aclgrad._client.channel.pool import ChannelPool
from aclgrad._client.channel.probes import Channel
from aclgrad._client.programs.run import ProgramRun
from aclgrad._client.reports import OnCall, log
from aclgrad._client.settings.checks import DEFAULT, TimeLimitError, Timeout, time_limit
from aclgrad._client.settings.metadata import Pair, server_of
from aclgrad._client.transport import Sending, Transport
from aclgrad.errors import AclgradError, DeadlinePassedError, InputValuesRequiredError
from aclgrad.wire.service import REQUEST_ID

if TYPE_CHECKING:
    from aclgrad._client.shared_memory.loans import LendingPool
    from aclgrad.tracing import Tracing

_Result = TypeVar("_Result")
_Done = TypeVar("_Done")
_Run = TypeVar("_Run", bound=ProgramRun)


class Core:
    """The operations of both clients."""

    target: str
    timeout_s: float | None
    _channels: ChannelPool
    _ids: Iterator[str]
    _limit_s: float | None
    _metadata: tuple[Pair, ...]
    _on_call: OnCall | None
    _own_channel: grpc.Channel | grpc.aio.Channel | None
    _process_id: int
    _regions: "LendingPool | None"
    _requirements: Requirements
    _retry_policy: RetryPolicy
    _tracing: "Tracing | None"
    _transport: Transport

    async def _ask(self, query: Exchange[_Result], timeout_s: Timeout) -> _Result:
        return await self._run(query, self._start(query.method, timeout_s))

    async def _run_program(self, call: _Run, results: Callable[[_Run], list[Any]], timeout_s: Timeout) -> list[Any]:
        """Sends the messages of a run one after the other, each with its own retries, within one time limit."""
        attempts = self._traced(self._start(call.method, timeout_s))
        try:
            while call.next_message():
                try:
                    await self._repeat(call, attempts)
                except AclgradError as error:
                    call.fail(error)
                attempts = attempts.of_another_message()
            found = results(call)
        except BaseException as error:
            self._end(attempts, error)
            raise
        self._end(attempts)
        return found

    async def _wait_until_ready(self, timeout_s: Timeout) -> None:
        wait = Readiness(self.target, time_limit(timeout_s, self.timeout_s))
        while True:
            attempts = self._start(HEALTH.method, wait.probe_s())
            try:
                seen: str | AclgradError = await self._attempt(HEALTH, attempts)
            except AclgradError as error:
                attempts.explain(error)
                seen = error
            finally:
                attempts.release()
            delay_s = wait.delay_after(seen)
            if delay_s is None:
                return
            await self._pause(delay_s)

    async def _close(self) -> None:
        self._transport.closed.set()
        if self._is_inherited:
            return
        try:
            if self._own_channel is None:
                await self._transport.close()
        finally:
            # After the calls, which would otherwise not find their memory.
            if self._regions is not None:
                self._regions.close()

    @property
    def _is_inherited(self) -> bool:
        """Whether this process was forked off the client's, and so lacks gRPC's threads."""
        return os.getpid() != self._process_id

    @property
    def _wants_server(self) -> bool:
        """Whether the name of the answering server is needed."""
        return self._on_call is not None or self._tracing is not None or log.isEnabledFor(logging.DEBUG)

    def _start(self, method: str, timeout_s: Timeout) -> Attempts:
        self._check_process()
        limit_s = self._limit_s if timeout_s is DEFAULT else time_limit(timeout_s, None)
        return self._retry_policy.start(limit_s, method, given_id.get() or next(self._ids))

    def _check_process(self) -> None:
        if self._is_inherited:
            raise rpc_errors.forked_error(self.target)

    def _traced(self, attempts: Attempts, operator: str | None = None) -> Attempts:
        """Begins the trace of a call that is about to be sent."""
        if self._tracing is not None:
            attempts.trace = self._tracing.begin(attempts.method, operator, attempts.request_id)
        return attempts

    def _end(self, attempts: Attempts, error: BaseException | None = None) -> None:
        """Reports an ended call to `on_call`; an error gets the id of the call.

        A cancelled or interrupted call has no report.
        """
        attempts.release()
        if attempts.trace is not None:
            attempts.trace.end(error, attempts.retries)
        if error is not None and not isinstance(error, AclgradError):
            return
        if error is not None:
            error.request_id = error.request_id or attempts.request_id
        if self._wants_server:
            report = attempts.report(error)
            if self._on_call is not None:
                self._on_call(report)

    async def _run(self, call: Exchange[_Result], attempts: Attempts, operator: str | None = None) -> _Result:
        self._traced(attempts, operator)
        try:
            result = await self._repeat(call, attempts)
        except BaseException as error:
            self._end(attempts, error)
            raise
        self._end(attempts)
        return result

    async def _repeat(self, call: Exchange[_Result], attempts: Attempts) -> _Result:
        """Makes the call within its remaining time until it succeeds or its error is final."""
        with attempts.counted.of(call.size_bytes):
            while True:
                try:
                    return await self._attempt(call, attempts)
                except AclgradError as error:
                    amended = await self._amended(call, error, attempts)
                    # The failed part of a program may be smaller.
                    attempts.counted.resize((amended or call).size_bytes)
                    delay_s = attempts.delay_after_s(error) if amended is None else attempts.no_delay_after(error)
                    if delay_s is None:
                        attempts.explain(error)
                        raise
                    if attempts.fails_over(error):
                        await self._discover_now(attempts)
                call = amended or call
                await self._pause(delay_s)

    async def _amended(
        self, call: Exchange[_Result], error: AclgradError, attempts: Attempts
    ) -> Exchange[_Result] | None:
        if not isinstance(error, InputValuesRequiredError):
            return call.amend(error)
        try:
            # It copies the arrays with withheld values.
            return await self._beside(partial(call.amend, error), attempts)
        except DeadlinePassedError as late:
            attempts.explain(late)
            raise late from None

    async def _attempt(self, call: Exchange[_Result], attempts: Attempts) -> _Result:
        self._check_open()
        # The process may have been forked during the call.
        self._check_process()
        channel = await self._channel_for(attempts)
        try:
            if self._channels.is_discovery_due:
                self._transport.discover()
            result = await self._attempt_on(channel, call, attempts)
        except AclgradError as error:
            self._channels.failed(channel, error, fails_over=attempts.fails_over(error))
            if attempts.trace is not None:
                attempts.trace.end_attempt(error, attempts.server)
            raise
        except BaseException:
            if self._transport.may_leave_locks and self._own_channel is None:
                self._channels.abandon(channel)
            raise
        finally:
            if self._channels.give_back(channel):
                self._transport.close_channel(channel)
        self._channels.succeeded(channel)
        attempts.release()
        if attempts.trace is not None:
            attempts.trace.end_attempt(server=attempts.server)
        return result

    async def _channel_for(self, attempts: Attempts) -> Channel:
        """Returns the channel for an attempt; a look-up of names counts as part of the wait for a connection."""
        self._transport.bind()
        channel = self._channels.take(attempts.tried)
        if channel is None:
            self._transport.discover()
            await self._transport.discovered(attempts.time_left_s())
            channel = self._channels.take()
        if channel is None:
            raise rpc_errors.unfound_error(self.target, attempts.time_left_s(), self._channels.source_problem)
        return channel

    async def _discover_now(self, attempts: Attempts) -> None:
        """Checks the servers after a silent one, before another attempt."""
        self._transport.discover()
        left_s = attempts.time_left_s()
        # The other half of the time is for the attempt, whatever delays the discovery.
        await self._transport.discovered(None if left_s is None else left_s / 2)

    async def _attempt_on(self, channel: Channel, call: Exchange[_Result], attempts: Attempts) -> _Result:
        try:
            if self._regions is None or not isinstance(call, Lender):
                return await self._exchange(channel, call, attempts)
            with self._regions.lend(call) as loan:
                await self._beside(loan.lend, attempts, is_much=call.size_bytes > LARGE_BYTES)
                return cast(_Result, await self._exchange(channel, loan, attempts))
        except AclgradError:
            raise
        except grpc.RpcError as failure:
            # A grpc call is its own exception: its traceback would keep it, this frame and all arrays in a cycle.
            failure.__traceback__ = None
            attempts.server = server_of(failure.trailing_metadata())
            is_closed, proxy = self._transport.closed.is_set(), channel.endpoints.proxy
            raise rpc_errors.error_of(failure, self.target, is_closed=is_closed, proxy=proxy) from None
        except TimeLimitError:
            raise rpc_errors.deadline_error(self.target) from None
        except BaseException as error:
            if not self._transport.means_closed(error):
                raise
            if self._transport.closed.is_set():
                raise rpc_errors.closed_error(self.target) from None
            if self._own_channel is not None:
                raise rpc_errors.channel_closed_error(self.target) from None
            raise

    async def _exchange(self, channel: Channel, call: Exchange[_Result], attempts: Attempts) -> _Result:
        chunked = call.in_chunks()
        if chunked is not None:
            sending = self._prepare(channel, attempts, chunked.method)
            progress = attempts.follow_chunks(sending.limit_s)
            # As long as messages move, all of the call's time.
            sending = sending._replace(limit_s=attempts.time_left_s())
            attempts.server = server_of(await self._transport.chunks(sending, chunked, progress))
            return await self._beside(chunked.result, attempts, is_much=chunked.reads_much)
        is_large = call.size_bytes > LARGE_BYTES
        # The message has no name here, so that its memory is free before the reply is read.
        reply, trailers = await self._transport.message(
            await self._beside(lambda: call.request, attempts) if is_large else call.request,
            self._prepare(channel, attempts, call.method, call.size_bytes),
        )
        if trailers:
            attempts.server = server_of(trailers)
        return await self._beside(partial(call.read, reply), attempts) if is_large else call.read(reply)

    def _prepare(self, channel: Channel, attempts: Attempts, method: str, message_bytes: int = 0) -> Sending:
        """Begins an attempt."""
        has_others = self._channels.has_others(channel, attempts.tried)
        balancing = channel.endpoints.balancing
        limit_s = attempts.limit_s(balancing, has_others=has_others, message_bytes=message_bytes)
        metadata = (*self._metadata, (REQUEST_ID, attempts.request_id))
        if attempts.trace is not None:
            metadata += attempts.trace.begin_attempt(method)
        return Sending(channel, method, limit_s, metadata, self._wants_server)

    async def _beside(self, work: Callable[[], _Done], attempts: Attempts, *, is_much: bool = True) -> _Done:
        """Does large work off the event loop; the call's time limit covers the wait for a thread."""
        if not is_much:
            return work()
        try:
            return await self._transport.beside(work, attempts.time_left_s())
        except TimeLimitError:
            raise rpc_errors.deadline_error(self.target) from None

    async def _pause(self, delay_s: float) -> None:
        """Waits for the next attempt; raises the client's error if it is closed meanwhile."""
        await self._transport.pause(delay_s)
        self._check_open()

    def _check_open(self) -> None:
        if self._transport.closed.is_set():
            raise rpc_errors.closed_error(self.target)
