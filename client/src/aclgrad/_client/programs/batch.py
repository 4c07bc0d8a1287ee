"""Calls that are collected and sent together: a program whose steps do not refer to each other."""

from __future__ import annotations  # `help` shows the names of unions, and not their members

import threading
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from aclgrad._client.calls.arguments import Inputs
from aclgrad._client.calls.chunked import ChunkedProgram
from aclgrad._client.calls.destination import Outputs
from aclgrad._client.calls.operator_methods import OperatorMethods
from aclgrad._client.calls.requirements import Requirements, Withheld
from aclgrad._client.programs.needs import needs_of
from aclgrad._client.programs.portions import STATUS_BYTES, Portions
from aclgrad._client.programs.run import ProgramRun
from aclgrad._client.programs.steps import Step
from aclgrad._client.programs.table import Table
from aclgrad._client.settings.checks import DEFAULT, Timeout
from aclgrad.errors import AclgradError, InputValuesRequiredError, InvalidSettingError, LimitExceededError
from aclgrad.operators.attributes import AttributeLike
from aclgrad.wire.limits import MAX_PROGRAM_REST_BYTES, MAX_STEPS

_Client = TypeVar("_Client")
_MARGIN_BYTES: Final = 64
"""Bytes of a program beside its steps and its table."""


class BaseBatch(OperatorMethods[int], Generic[_Client]):
    """Calls that are sent together; a method of an operator adds its call and returns its position."""

    def __init__(self, requirements: Requirements, client: _Client) -> None:
        self._requirements = requirements
        self._client = client
        self._table = Table()
        self._steps: list[Step] = []
        self._adding = threading.Lock()
        """Gives threads that add calls to one batch different positions."""
        self._portions: Portions = {}
        """The portions of the latest run: the next one sends them again if nothing has changed."""

    def __len__(self) -> int:
        return len(self._steps)

    def execute(
        self,
        name: str,
        inputs: Inputs,
        attributes: Mapping[str, AttributeLike] | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> int:
        """Adds the call of any operator of the server, by its wire names, and returns its position.

        The arrays are read now and may change afterwards. An array of which only the shape is sent is copied too, in
        case the server asks for its values; a shape in its place saves that. With `out`, each `run` writes the output
        to that array and returns it.

        Raises InvalidFieldError where an array or an attribute has no form on the wire, and InvalidSettingError for
        a `timeout_s`: a batch has one time limit, which `run` takes.
        """
        check_no_timeout("a call in a batch", timeout_s)
        step = Step(name, inputs, attributes, self._requirements, self._table, out, outputs)
        with self._adding:
            self._steps.append(step)
            return len(self._steps) - 1

    @abstractmethod
    def run(self, *, return_errors: bool = False, timeout_s: Timeout = DEFAULT) -> Any:
        """Makes the calls and returns their outputs, in the order in which they were added.

        Where a call fails, raises its error, the first if there are several; with `return_errors` it stands in the
        list instead, and the others' outputs are not lost. Raises an AclgradError of its own where no call was made.

        Calls that exceed a message together go in several, one after the other; a call that alone exceeds one goes in
        chunks. `timeout_s` bounds all of them together.
        """

    def to_send(self, return_errors: bool) -> BatchRun:
        """Returns the run of all calls."""
        run = BatchRun(list(self._steps), self._requirements, return_errors=return_errors, known=self._portions)
        self._portions = run.portions
        return run


def check_no_timeout(what: str, timeout_s: Timeout) -> None:
    """Raises InvalidSettingError if a part of a message has a time limit of its own."""
    if timeout_s is not DEFAULT:
        problem = f"{what} has no timeout_s of its own"
        raise InvalidSettingError(problem, field="timeout_s", remedy="give it to run()")


class BatchRun(ProgramRun):
    """The calls of one `run()`, cut into messages.

    A message has the next calls that fit by their requests and expected replies. A call that alone exceeds a message
    goes in chunks.
    """

    def __init__(self, steps: list[Step], requirements: Requirements, *, return_errors: bool, known: Portions) -> None:
        returned = {position: step.returned for position, step in enumerate(steps)}
        super().__init__(steps, returned, requirements, return_errors=return_errors, known=known)

    def _with_needs(self, positions: Collection[int], withheld: Withheld) -> list[int]:
        """Returns the positions unchanged: no call needs another."""
        return list(positions)

    def _fitting(self, positions: list[int]) -> list[int]:
        """Returns the first positions whose calls fit one message, and whose results fit one reply."""
        fitting: list[int] = []
        seen: set[int] = set()
        request_bytes = reply_bytes = rest = _MARGIN_BYTES
        for position in positions[:MAX_STEPS]:
            step = self._steps[position]
            own = step.rest_bytes
            rest += own
            reply_bytes += max(step.form.reply_bytes, STATUS_BYTES)
            request_bytes += own
            for each in needs_of(step, self._requirements.withheld):
                if each.entry is not None and id(each.entry) not in seen:
                    seen.add(id(each.entry))
                    request_bytes += each.entry.size_bytes
            is_large = max(request_bytes, reply_bytes) > self._requirements.message_bytes
            if fitting and (is_large or rest > MAX_PROGRAM_REST_BYTES):
                break
            fitting.append(position)
        return fitting

    def chunks_for(self, size_bytes: int) -> ChunkedProgram[None] | None:
        if len(self._sent) > 1:
            return None
        if self._chunk_bytes is None and size_bytes + _MARGIN_BYTES <= self._requirements.message_bytes:
            return None
        return self._chunked()

    def amend(self, error: AclgradError) -> BatchRun | None:
        """Returns the calls with the values that the server asks for, or fewer calls if a message was too large."""
        if isinstance(error, InputValuesRequiredError):
            return self if self._add_values() else None
        takes_too_much = isinstance(error, LimitExceededError) and "peak_bytes" in error.metadata
        if len(self._sent) == 1:
            return self if self._requirements.learn(error) and self._shrinks_chunks() else None
        if not self._requirements.learn(error) and not takes_too_much:
            return None
        fitting = self._fitting(self._sent)
        # If that is not smaller, the size was misestimated, or the calls take too much on the device.
        self._send(fitting if len(fitting) < len(self._sent) else fitting[: len(fitting) // 2])
        return self

    def outcomes(self) -> list[Any]:
        """Ends the run: returns the outcomes of all calls; raises as `results` does."""
        found = self.results()
        return [found[position] for position in sorted(found)]
