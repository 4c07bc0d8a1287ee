"""The errors of a program's steps, with the steps' positions in the whole program."""

from collections.abc import Sequence

from google.rpc import status_pb2

from aclgrad._client.attempts.rpc_errors import error_of_status, unreadable_reply
from aclgrad._client.programs.steps import Step
from aclgrad.errors import AclgradError, InputFailedError


def error_of_step(
    status: status_pb2.Status, position: int, positions: Sequence[int], steps: Sequence[Step]
) -> AclgradError:
    """Returns the error of a step, which names its position in the whole program.

    `positions` are those of the sent steps.
    """
    error, step = error_of_status(status), steps[position]
    if isinstance(error, InputFailedError):
        named = error.metadata.get("step", "")
        if not named.isdecimal() or int(named) >= len(positions):
            return unreadable_reply(ValueError(f"step {position} names {named!r} as the step that failed"))
        cause = positions[int(named)]
        error.metadata = {**error.metadata, "step": str(cause)}
        error.message = f"step {cause} ({steps[cause].label}) failed, whose output this one needs"
    if step.place:
        error.message = f"step {position} ({step.label}): {error.message}"
    error.args = (error.message,)
    return error
