"""Many independent calls in one message, each with its own result or status."""

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final

from aclgrad.errors import AclgradError, InvalidFieldError, to_status
from aclgrad.wire.messages import failed_result, result_prefix, split_batch
from aclgrad_server.calls.admission import Attempts, bytes_at_once
from aclgrad_server.calls.call import Call, deadline_passed
from aclgrad_server.calls.gate import Claim
from aclgrad_server.calls.runner import Runner
from aclgrad_server.devices.device import PlannedCall
from aclgrad_server.devices.planning import check_reply_size, extract_payloads, is_small
from aclgrad_server.limits import GROUP_S, SMALL_BYTES, WORK_PER_S
from aclgrad_server.logs import fields, line_of
from aclgrad_server.statistics import OK, RUN, WAIT, OperatorAndReason

log = logging.getLogger(__name__)

Ran = tuple[bytes, list[AclgradError | None]]
"""What came of a group of a batch: its outputs, each behind its prefix, and the error of each that failed."""
MAX_LOGGED_CALLS: Final = 20  # failing calls of one batch that are logged
_TURN_S: Final = 0.002  # how long one batch may hold the event loop before others get their turn


class _Turns:
    """Lets other coroutines run after each `_TURN_S`."""

    def __init__(self) -> None:
        self._end = time.monotonic() + _TURN_S

    async def pause(self) -> None:
        if time.monotonic() > self._end:
            await asyncio.sleep(0)
            self._end = time.monotonic() + _TURN_S


async def execute_batch(runner: Runner, request: bytes, call: Call) -> bytes:
    """Returns the BatchExecuteOperatorsResponse; raises an AclgradError if the message as a whole is refused."""
    planned: dict[int, PlannedCall] = {}
    failures: dict[int, AclgradError] = {}
    turns = _Turns()
    for index, each in enumerate(split_batch(request, extract_payloads)):
        try:
            plan, payloads = runner.planner.read(each)
            if plan.uses_shared_memory:
                raise InvalidFieldError.at(f"calls[{index}]", "names shared memory", "send such a call by itself")
            workspace_bytes = plan.workspace.size_bytes
            runner.admission.check(call.caller, plan.size_bytes + workspace_bytes, workspace_bytes)
            planned[index] = plan, plan.contents(payloads), result_prefix(payload_bytes=plan.reply_bytes)
        except AclgradError as error:
            # Its traceback has this frame, which has the error: a cycle, which would keep the whole message.
            failures[index] = error.with_traceback(None)
        await turns.pause()
        call.check_deadline()
    call.operator = f"batch of {len(planned) + len(failures)}"
    size_bytes = sum(len(prefix) + plan.reply_bytes for plan, _, prefix in planned.values())
    check_reply_size("calls", size_bytes, runner.max_message_bytes)
    ran: list[Ran] = []
    if planned:
        ran = await run_calls(runner, call, tuple(planned.values()))
        errors = (error for _, of_group in ran for error in of_group)
        failures |= {index: error for index, error in zip(planned, errors, strict=True) if error is not None}
    call.items = _items(planned, failures)
    if not failures and len(ran) == 1:
        return ran[0][0]
    results: dict[int, bytes | memoryview] = dict(_sections(planned, ran))
    results |= await _statuses(call, failures, turns)
    # Statuses may be larger than what they stand for.
    size_bytes = sum(map(len, results.values()))
    check_reply_size("calls", size_bytes, runner.max_message_bytes)
    pieces = [results[index] for index in sorted(results)]
    return b"".join(pieces) if size_bytes <= SMALL_BYTES else await runner.device.join(pieces)


async def run_calls(runner: Runner, call: Call, calls: Sequence[PlannedCall]) -> list[Ran]:
    """Runs plans in groups that take little time, and returns what came of each.

    A group has as many streams as it has slots, and others get these between groups.
    """
    admission, streams = runner.admission, runner.admission.large.running_limit
    groups = [_Group(group) for group in _groups(calls)]
    tensor_bytes, encoded_bytes, output_bytes = map(sum, zip(*(group.held for group in groups), strict=True))
    # One for all: a group begins when the device is done with the one before, or never.
    workspace_bytes = max(bytes_at_once(group.workspaces, streams) for group in groups)
    size_bytes = tensor_bytes + workspace_bytes
    is_small_batch = is_small(tensor_bytes + encoded_bytes, sum(plan.work for plan, _, _ in calls))
    takes_little = is_small_batch and size_bytes + encoded_bytes <= SMALL_BYTES
    # Outputs may have to be joined, with those of other groups or with statuses.
    reply_bytes = output_bytes if len(calls) == 1 else 2 * output_bytes
    claims = await admission.claim(call, size_bytes, encoded_bytes, workspace_bytes, takes_little)
    left, ran = deque(groups), list[Ran]()
    end_of_all = partial(claims.give_back, workspace_bytes)
    with Attempts(admission, call.caller, size_bytes, workspace_bytes, takes_little, end_of_all) as attempts:
        try:
            if reply_bytes > SMALL_BYTES:
                await admission.claim_reply(call, reply_bytes)
            for group in groups:
                call.enter(WAIT)
                try:
                    async with asyncio.timeout_at(call.deadline):
                        slot = await admission.slot(call.caller, len(group.calls), is_small_batch)
                except TimeoutError:
                    ran.append((b"", [deadline_passed() for _ in group.calls]))
                    continue
                call.enter(RUN)
                left.remove(group)

                def end(slot: Claim = slot, group: _Group = group) -> None:
                    admission.ran(slot, is_small_batch)
                    claims.give_back(*group.held)

                run = partial(runner.device.execute_all, group.calls, call.deadline, slot.units)
                ran.append(await attempts.run_all(group.tensors, group.workspaces, streams, run, end))
        finally:
            for group in left:
                claims.give_back(*group.held[:2])
    return ran


class _Group:
    """Calls that run together, and what they hold besides workspaces."""

    def __init__(self, calls: Sequence[PlannedCall]) -> None:
        self.calls = calls
        plans = [plan for plan, _, _ in calls]
        self.tensors = [plan.size_bytes for plan in plans]
        self.workspaces = [plan.workspace.size_bytes for plan in plans]
        output_bytes = sum(plan.output_bytes for plan in plans)
        self.held = sum(self.tensors), sum(plan.encoded_bytes for plan in plans), output_bytes
        """What `Claims.give_back` takes."""


def _groups(calls: Sequence[PlannedCall]) -> Iterator[Sequence[PlannedCall]]:
    """Yields calls that take about `GROUP_S` together, and single ones that take longer."""
    start, work = 0, 0.0
    for number, (plan, _, _) in enumerate(calls):
        if number > start and work + plan.work > GROUP_S * WORK_PER_S:
            yield calls[start:number]
            start, work = number, 0.0
        work += plan.work
    yield calls[start:]


def _items(planned: dict[int, PlannedCall], failures: dict[int, AclgradError]) -> Counter[OperatorAndReason]:
    operators = Counter(plan.spec.name for plan, _, _ in planned.values())
    found: Counter[OperatorAndReason] = Counter({(operator, OK): count for operator, count in operators.items()})
    for index, error in failures.items():
        operator = error.operator or "-"
        if index in planned:
            operator = planned[index][0].spec.name
            found[operator, OK] -= 1
        found[operator, error.reason] += 1
    return found


def _sections(planned: dict[int, PlannedCall], ran: list[Ran]) -> Iterator[tuple[int, memoryview]]:
    """Yields the outputs behind their prefixes; those of calls that failed mean nothing."""
    calls = iter(planned.items())
    for reply, errors in ran:
        start = 0
        for index, (plan, _, prefix) in islice(calls, len(errors)):
            end = start + len(prefix) + plan.reply_bytes
            yield index, memoryview(reply)[start:end]
            start = end


async def _statuses(call: Call, failures: dict[int, AclgradError], turns: _Turns) -> dict[int, bytes]:
    results = {}
    for count, (index, error) in enumerate(failures.items()):
        if count < MAX_LOGGED_CALLS:
            told = call.fields() | {"reason": error.reason, "index": index}
            log.info("%s call %d of the batch: %s", call.request_id, index, line_of(error), extra=fields(told))
        results[index] = failed_result(to_status(error, call.request_id))
        await turns.pause()
    if len(failures) > MAX_LOGGED_CALLS:
        count = len(failures) - MAX_LOGGED_CALLS
        log.info("%s %d more calls of the batch failed", call.request_id, count, extra=fields(call.fields()))
    return results
