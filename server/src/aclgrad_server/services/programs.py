"""ExecuteProgram: a program in one message, and its results in another."""

import asyncio
import logging
import time
from collections import Counter
from itertools import islice
from typing import Final

from aclgrad.errors import AclgradError, LimitExceededError, to_status
from aclgrad.wire.programs import failed_result, result_prefix
from aclgrad_server.calls.call import Call
from aclgrad_server.calls.outcome import pieces_of
from aclgrad_server.calls.runner import Runner
from aclgrad_server.devices.planning import check_reply_size
from aclgrad_server.devices.programs import Pause
from aclgrad_server.devices.steps import PlannedProgram
from aclgrad_server.limits import SMALL_BYTES
from aclgrad_server.logs import fields, line_of
from aclgrad_server.statistics import OK, OperatorAndReason

log = logging.getLogger(__name__)

MAX_LOGGED_STEPS: Final = 20  # logged failures of one program
_HOLD_S: Final = 0.002  # longest time that one program holds the event loop


def pauses(runner: Runner, call: Call) -> Pause:
    """Returns a pause: it lets other coroutines run after each `_HOLD_S`, and raises DeadlinePassedError in the end.

    Paused programs go on one at a time, so that several hold the event loop no longer than one.
    """
    end = time.monotonic() + _HOLD_S

    async def pause() -> None:
        nonlocal end
        if time.monotonic() > end:
            async with runner.pausing:
                await asyncio.sleep(0)
            call.check_deadline()
            end = time.monotonic() + _HOLD_S

    return pause


async def execute_program(runner: Runner, request: bytes, call: Call) -> bytes:
    """Returns the ExecuteProgramResponse; raises an AclgradError if the message as a whole is refused."""
    pause = pauses(runner, call)
    program, payloads = await runner.programs.read(request, pause)
    name_program(call, program)
    program = refuse_beyond(runner, call, program)
    steps = program.steps
    check_reply_size("steps", program.reply_bytes, runner.max_message_bytes)
    outcome = await runner.run_program(call, program, payloads, pause)
    failures = outcome.failures
    call.items = items_of(program, failures)
    is_described = program.is_shared and any(step.described for step in steps.values())
    if not failures and len(outcome.replies) == 1 and not is_described:
        return outcome.replies[0][0]
    results: dict[int, list[bytes | memoryview]] = {}
    for number, section in outcome.sections():
        if number not in failures:
            step, prefix = steps[number], result_prefix(steps[number].message_bytes)
            results[number] = [prefix, *pieces_of(step, section[len(prefix) :])] if is_described else [section]
    for number, result in (await _statuses(call, failures, pause)).items():
        results[number] = [result]
    pieces = [piece for number in sorted(results) for piece in results[number]]
    # Statuses may be larger than the results that they replace.
    size_bytes = sum(map(len, pieces))
    check_reply_size("steps", size_bytes, runner.max_message_bytes)
    return b"".join(pieces) if size_bytes <= SMALL_BYTES else await runner.device.join(pieces)


def name_program(call: Call, program: PlannedProgram) -> None:
    """Sets the call's operator and figures for logs and metrics."""
    alone = program.steps.get(0) if program.step_count == 1 else None
    call.operator = f"program of {program.step_count}" if alone is None else alone.plan.spec.name
    call.step_count, call.work_s = program.step_count, program.seconds


def refuse_beyond(runner: Runner, call: Call, program: PlannedProgram) -> PlannedProgram:
    """Returns the program without steps that alone exceed the caller's limit, and without steps that need those."""
    plans = [step.plan for step in program.steps.values()]
    largest_bytes = max((each.size_bytes + each.workspace.size_bytes for each in plans), default=0)
    try:
        runner.admission.check(call.caller, largest_bytes)
        return program
    except LimitExceededError:
        pass  # each has a status of its own
    beyond: dict[int, AclgradError] = {}
    for number, step in program.steps.items():
        workspace_bytes = step.plan.workspace.size_bytes
        try:
            runner.admission.check(call.caller, step.plan.size_bytes + workspace_bytes, workspace_bytes)
        except LimitExceededError as error:
            beyond[number] = error.with_traceback(None)
    return program.without(beyond)


def items_of(program: PlannedProgram, failures: dict[int, AclgradError]) -> Counter[OperatorAndReason]:
    """Returns how many steps ended, by operator and reason."""
    found: Counter[OperatorAndReason] = Counter(
        {(operator, OK): count for operator, count in program.operators.items()}
    )
    for number, error in failures.items():
        operator = error.operator or "-"
        if number in program.steps:
            operator = program.steps[number].plan.spec.name
            found[operator, OK] -= 1
        found[operator, error.reason] += 1
    return found


async def _statuses(call: Call, failures: dict[int, AclgradError], pause: Pause) -> dict[int, bytes]:
    """Returns the results of steps that failed."""
    log_failures(call, failures)
    results = {}
    for number, error in failures.items():
        results[number] = failed_result(to_status(error, call.request_id))
        await pause()
    return results


def log_failures(call: Call, failures: dict[int, AclgradError]) -> None:
    """Logs the first of the steps that failed."""
    for number, error in islice(failures.items(), MAX_LOGGED_STEPS):
        told = call.fields() | {"reason": error.reason, "index": number}
        log.info("%s step %d of the program: %s", call.request_id, number, line_of(error), extra=fields(told))
    if len(failures) > MAX_LOGGED_STEPS:
        count = len(failures) - MAX_LOGGED_STEPS
        log.info("%s %d more steps of the program failed", call.request_id, count, extra=fields(call.fields()))
