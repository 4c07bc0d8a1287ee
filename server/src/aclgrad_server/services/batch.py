"""Many independent calls in one message, each with its own result or status."""

import logging
from typing import Final

from aclgrad.errors import AclgradError, InvalidFieldError, Violation, to_status
from aclgrad.wire.messages import failed_result, result_prefix
from aclgrad_server.admission import AtEnd
from aclgrad_server.executor import Executor, remaining
from aclgrad_server.logs import line_of
from aclgrad_server.planner import Planner
from aclgrad_server.request_id import current_request_id
from aclgrad_server.validation import OperatorPlan, check_reply_size

log = logging.getLogger(__name__)

MAX_LOGGED_CALLS: Final = 20
"""Of the calls of a batch that fail; a message of a hundred kilobytes can hold twenty thousand."""


def execute_batch(
    planner: Planner, executor: Executor, request: bytes, max_message_bytes: int, deadline: float, at_end: AtEnd
) -> bytes:
    """Returns the serialized BatchExecuteOperatorsResponse.

    Raises an AclgradError where the message as a whole cannot be read, admitted, or answered in one message, or is
    too late.
    """
    plans: dict[int, OperatorPlan] = {}
    failures: dict[int, AclgradError] = {}
    for index, each in enumerate(planner.split_batch(request)):
        remaining(deadline)
        try:
            plan = planner.read(each)
            if plan.uses_shared_memory:
                raise _shared(index)
            plans[index] = plan
        except AclgradError as error:
            failures[index] = error
    prefixes = [result_prefix(plan.reply_prefix, plan.output_bytes) for plan in plans.values()]
    size_bytes = sum(map(len, prefixes)) + sum(plan.output_bytes for plan in plans.values())
    check_reply_size("calls", size_bytes, max_message_bytes)
    reply, errors = executor.execute_all(tuple(plans.values()), prefixes, deadline, at_end)
    failures |= {index: error for index, error in zip(plans, errors, strict=True) if error is not None}
    return reply if not failures else _with_failures(reply, plans, prefixes, failures)


def _shared(index: int) -> InvalidFieldError:
    problem, remedy = "names shared memory", "send such a call by itself"
    return InvalidFieldError.of(Violation(f"calls[{index}]", problem, remedy))


def _with_failures(
    reply: bytes,
    plans: dict[int, OperatorPlan],
    prefixes: list[bytes],
    failures: dict[int, AclgradError],
) -> bytes:
    """Returns the reply with a status in place of every result that is void, or that no plan was made for."""
    results: dict[int, bytes | memoryview] = {}
    start = 0
    for (index, plan), prefix in zip(plans.items(), prefixes, strict=True):
        end = start + len(prefix) + plan.output_bytes
        results[index] = memoryview(reply)[start:end]
        start = end
    request_id = current_request_id.get()
    for count, (index, error) in enumerate(failures.items()):
        if count < MAX_LOGGED_CALLS:
            log.info("%s call %d of the batch: %s", request_id, index, line_of(error))
        results[index] = failed_result(to_status(error, request_id))
    if len(failures) > MAX_LOGGED_CALLS:
        log.info("%s %d more calls of the batch failed", request_id, len(failures) - MAX_LOGGED_CALLS)
    return b"".join(results[index] for index in sorted(results))
