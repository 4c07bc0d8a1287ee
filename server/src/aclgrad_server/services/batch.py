"""Many independent calls in one message, each with its own result or status."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final

from aclgrad.errors import AclgradError, InvalidFieldError, to_status
from aclgrad.wire.messages import failed_result, result_prefix, split_batch
from aclgrad_server.calls.call import Call
from aclgrad_server.calls.runner import Ran, Runner, Step
from aclgrad_server.devices.planning import check_reply_size, extract_payloads
from aclgrad_server.limits import SMALL_BYTES
from aclgrad_server.logs import fields, line_of
from aclgrad_server.statistics import OK, OperatorAndReason

log = logging.getLogger(__name__)

MAX_LOGGED_CALLS: Final = 20  # failing calls of one batch that are logged
_HOLD_S: Final = 0.002  # how long one batch may hold the event loop before other coroutines run


class _Pauses:
    """Lets other coroutines run after each `_HOLD_S`."""

    def __init__(self) -> None:
        self._end = time.monotonic() + _HOLD_S

    async def pause(self) -> None:
        if time.monotonic() > self._end:
            await asyncio.sleep(0)
            self._end = time.monotonic() + _HOLD_S


async def execute_batch(runner: Runner, request: bytes, call: Call) -> bytes:
    """Returns the BatchExecuteOperatorsResponse; raises an AclgradError if the message as a whole is refused."""
    steps: dict[int, Step] = {}
    failures: dict[int, AclgradError] = {}
    pauses = _Pauses()
    for index, each in enumerate(split_batch(request, extract_payloads)):
        try:
            planned, payloads = runner.planner.read(each)
            if planned.is_shared:
                raise InvalidFieldError.at(f"calls[{index}]", "names shared memory", "send such a call by itself")
            plan = planned.plan
            workspace_bytes = plan.workspace.size_bytes
            runner.admission.check(call.caller, plan.size_bytes + workspace_bytes, workspace_bytes)
            steps[index] = Step(planned, payloads, result_prefix(payload_bytes=plan.reply_bytes))
        except AclgradError as error:
            # Its traceback has this frame, which has the error: a cycle, which would keep the whole message.
            failures[index] = error.with_traceback(None)
        await pauses.pause()
        call.check_deadline()
    call.operator = f"batch of {len(steps) + len(failures)}"
    check_reply_size("calls", sum(map(_section_bytes, steps.values())), runner.max_message_bytes)
    ran: list[Ran] = []
    if steps:
        ran = await runner.run_all(call, tuple(steps.values()))
        errors = (error for _, of_group in ran for error in of_group)
        failures |= {index: error for index, error in zip(steps, errors, strict=True) if error is not None}
    call.items = _items(steps, failures)
    if not failures and len(ran) == 1:
        whole: bytes = ran[0][0]
        return whole
    results: dict[int, bytes | memoryview] = dict(_sections(steps, ran))
    results |= await _statuses(call, failures, pauses)
    # Statuses may be larger than what they stand for.
    size_bytes = sum(map(len, results.values()))
    check_reply_size("calls", size_bytes, runner.max_message_bytes)
    pieces = [results[index] for index in sorted(results)]
    return b"".join(pieces) if size_bytes <= SMALL_BYTES else await runner.device.join(pieces)


def _items(steps: dict[int, Step], failures: dict[int, AclgradError]) -> Counter[OperatorAndReason]:
    operators = Counter(_operator(each) for each in steps.values())
    found: Counter[OperatorAndReason] = Counter({(operator, OK): count for operator, count in operators.items()})
    for index, error in failures.items():
        operator = error.operator or "-"
        if index in steps:
            operator = _operator(steps[index])
            found[operator, OK] -= 1
        found[operator, error.reason] += 1
    return found


def _operator(step: Step) -> str:
    return step.planned.plan.spec.name


def _section_bytes(step: Step) -> int:
    return len(step.prefix) + step.planned.plan.reply_bytes


def _sections(steps: dict[int, Step], ran: list[Ran]) -> Iterator[tuple[int, memoryview]]:
    """Yields the outputs behind their prefixes; the bytes of steps that failed are undefined."""
    left = iter(steps.items())
    for reply, errors in ran:
        start = 0
        for index, step in islice(left, len(errors)):
            end = start + _section_bytes(step)
            yield index, memoryview(reply)[start:end]
            start = end


async def _statuses(call: Call, failures: dict[int, AclgradError], pauses: _Pauses) -> dict[int, bytes]:
    results = {}
    for count, (index, error) in enumerate(failures.items()):
        if count < MAX_LOGGED_CALLS:
            told = call.fields() | {"reason": error.reason, "index": index}
            log.info("%s call %d of the batch: %s", call.request_id, index, line_of(error), extra=fields(told))
        results[index] = failed_result(to_status(error, call.request_id))
        await pauses.pause()
    if len(failures) > MAX_LOGGED_CALLS:
        count = len(failures) - MAX_LOGGED_CALLS
        log.info("%s %d more calls of the batch failed", call.request_id, count, extra=fields(call.fields()))
    return results
