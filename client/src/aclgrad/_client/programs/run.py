"""One `run()` of a program: its messages, one after the other, and the outcomes of its steps."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from google.rpc import status_pb2

from aclgrad._client.attempts.retry import is_worth_a_retry
from aclgrad._client.attempts.rpc_errors import unreadable_reply
from aclgrad._client.calls.arrays import Array
from aclgrad._client.calls.chunked import ChunkedProgram, Taken
from aclgrad._client.calls.destination import NOTHING
from aclgrad._client.calls.lender import Key, Lender, TakeOver
from aclgrad._client.calls.requirements import Requirements, Withheld
from aclgrad._client.programs.needs import Needs, Returned, closure
from aclgrad._client.programs.portions import Data, Portion, Portions
from aclgrad._client.programs.step_errors import error_of_step
from aclgrad._client.programs.steps import Step
from aclgrad.errors import (
    AclgradError,
    DeadlinePassedError,
    InputFailedError,
    InputValuesRequiredError,
    InvalidFieldError,
    MessageTooLargeError,
    ServerFaultError,
)
from aclgrad.sources import SharedRange
from aclgrad.tensors import TensorType, TensorView
from aclgrad.wire.programs import decode_results

Outcome = Any
"""The outcome of a step: its output, a NamedTuple of several, None if it returns nothing, or its error."""


class ProgramRun(Lender[None]):
    """The steps of one `run()`, exchanged in one message after the other.

    A message has the steps without a final outcome, and all steps that they need. After a temporary failure it is sent
    again with only the failed steps and those that they need.
    """

    method = "ExecuteProgram"

    def __init__(
        self,
        steps: Sequence[Step],
        returned: Returned,
        requirements: Requirements,
        *,
        return_errors: bool,
        product: str = "",
        known: Portions | None = None,
        needs: Needs | None = None,
        data: Data | None = None,
    ) -> None:
        """`known` has the portions of the previous run, `data` the bytes of all placeholders that steps may need.

        `needs` are the needs of the outputs, if known.
        """
        self._steps = steps
        self.returned = returned
        """The names of the outputs that are wanted, by step."""
        self._requirements = requirements
        self._return_errors = return_errors
        self._product = product
        self._data = data or {}
        self._outcomes: dict[int, Outcome] = {}
        self._pending = list(needs.steps) if needs else self._with_needs(returned, requirements.withheld)
        """The positions of the steps without a final outcome, ascending."""
        self._sent: list[int] = []
        """The positions that the current message is for."""
        self.portions: Portions = {}
        """The sent portions, by their steps."""
        self._known = known or {}
        self._portion: Portion
        self._asked: Portion | None = None
        """The portion of the steps that are to be sent again."""
        self.size_bytes = 0
        self._chunk_bytes: int | None = None
        """The size of chunks after a refusal."""
        self._lacking: list[int] = []
        """The steps that lacked values."""
        self._is_answered = False
        self._failure: AclgradError | None = None
        """The error of the first message that failed as a whole."""

    def next_message(self) -> bool:
        """Makes the next message; returns False after the last one, or if the error to raise is known."""
        if not self._pending or (not self._return_errors and self._first_error(self._pending[0])):
            return False
        self._send(self._fitting(self._pending))
        self._chunk_bytes = None
        return True

    def _with_needs(self, positions: Collection[int], withheld: Withheld) -> list[int]:
        """Returns these steps and all that they need, in order."""
        return closure(self._steps, positions, withheld)

    def _fitting(self, positions: list[int]) -> list[int]:
        """Returns the first positions, as many as fit one message."""
        return positions

    def _send(self, positions: list[int]) -> None:
        """Makes the message for these steps."""
        self._sent = positions
        # Another thread may meanwhile learn that values are wanted.
        withheld = dict(self._requirements.withheld)
        returned = {each: self.returned.get(each, ()) for each in positions}
        key = tuple(positions)
        portion = self._known.get(key)
        if portion is None or not portion.is_of(returned, withheld):
            found = self._with_needs(positions, withheld)
            portion = Portion(self._steps, found, returned, withheld, self._product)
        self._portion = self.portions[key] = portion
        self.size_bytes = max(self._portion.sent_bytes, self._portion.received_bytes)

    @property
    def request(self) -> bytes:
        return self._portion.request(self._data)

    def in_chunks(self) -> ChunkedProgram[None] | None:
        return self.chunks_for(self.size_bytes)

    def chunks_for(self, size_bytes: int) -> ChunkedProgram[None] | None:
        if self._chunk_bytes is None and size_bytes <= self._requirements.tensor_bytes:
            return None
        return self._chunked()

    def _chunked(self) -> ChunkedProgram[None]:
        chunk_bytes = self._requirements.chunk_bytes
        header, announced = self._portion.header(chunk_bytes, self._requirements.inline_bytes, self._data)
        return ChunkedProgram(header, announced, chunk_bytes, self._portion.destinations, self._settle)

    def lendable(self) -> tuple[Mapping[Key, memoryview], Mapping[Key, TensorType]]:
        inputs: dict[Key, memoryview] = dict(enumerate(self._portion.data(self._data)))
        return inputs, {(number, each.name): each.type for number, each in self._portion.outputs}

    @property
    def copies_outputs(self) -> bool:
        return any(each.out is not None for each in self._steps)

    def request_in(self, shared: Mapping[Any, SharedRange], memory: Mapping[Any, SharedRange]) -> bytes:
        return self._portion.request(self._data, shared, memory)

    def read(self, reply: bytes) -> None:
        self.read_from(reply, None)

    def read_from(self, reply: bytes, take_over: TakeOver | None) -> None:
        """Settles the steps of the message; raises an error if another attempt may help some of them."""
        try:
            results = decode_results(reply)
        except ValueError as error:
            raise unreadable_reply(error) from error
        destinations = self._portion.destinations
        if len(results) != len(destinations):
            raise ServerFaultError(f"the server answered {len(results)} of {len(destinations)} steps")
        taken: list[Taken] = []
        for number, (result, destination) in enumerate(zip(results, destinations, strict=True)):
            if not result and destination is NOTHING:
                # The usual case in a long program.
                taken.append(None)
                continue
            if not isinstance(result, tuple):
                taken.append(result)
                continue
            take = None if take_over is None else partial(_take, take_over, number)
            try:
                taken.append(destination.read(result, take))
            except InvalidFieldError as error:
                # A wrong `out` concerns no other step.
                taken.append(error)
        self._settle(taken)

    def _settle(self, taken: list[Taken]) -> None:
        """Takes the outcome of each step of the message; raises the error of one that may still succeed."""
        self._is_answered, self._asked = True, self._portion
        errors: dict[int, AclgradError] = {}
        passing: dict[int, AclgradError] = {}
        targets = set(self._sent)
        for position, came in zip(self._portion.positions, taken, strict=True):
            outcome = came
            if isinstance(came, status_pb2.Status):
                errors[position] = outcome = error_of_step(came, position, self._portion.positions, self._steps)
                if self._is_passing(position, outcome, passing):
                    passing[position] = outcome
                if isinstance(outcome, InputFailedError) and int(outcome.metadata["step"]) not in targets:
                    # The failed step's own outcome is gone.
                    outcome = errors.get(int(outcome.metadata["step"]), outcome)
            if position in targets:
                self._outcomes[position] = outcome
        self._lacking = [each for each, error in errors.items() if isinstance(error, InputValuesRequiredError)]
        again = self._needed_again(passing) if passing else []
        for each in targets.intersection(passing).difference(again):
            # The step that needed it has another error, which the caller gets.
            del self._outcomes[each]
        self._finish(set(self._sent).difference(again))
        if again:
            self._send(again)
            # Withheld values are sent at once; otherwise all steps wait for the longest delay.
            raise max(
                (each for each in passing.values() if not isinstance(each, InputFailedError)),
                key=lambda error: (isinstance(error, InputValuesRequiredError), error.retry_after_s or 0.0),
            )

    def _needed_again(self, passing: Collection[int]) -> list[int]:
        """Returns the needed steps of the message that may still succeed."""
        unsettled = [each for each in self._sent if each in passing]
        wanted = [each for each in unsettled if each in self.returned]
        needed = set(self._with_needs(wanted, self._requirements.withheld))
        return [each for each in unsettled if each in needed]

    def _is_passing(self, position: int, error: AclgradError, passing: Mapping[int, AclgradError]) -> bool:
        """Whether another attempt may help, given the earlier steps that may succeed."""
        if isinstance(error, InputFailedError):
            return int(error.metadata["step"]) in passing
        if isinstance(error, InputValuesRequiredError):
            return self._portion.withholds(position)
        # Another server may be faster.
        return is_worth_a_retry(error) or isinstance(error, DeadlinePassedError)

    def amend(self, error: AclgradError) -> "ProgramRun | None":
        """Returns the run with the values that the server asks for, or in smaller messages if one was too large."""
        if isinstance(error, InputValuesRequiredError):
            return self if self._add_values() else None
        return self if self._requirements.learn(error) and self._shrinks_chunks() else None

    def _shrinks_chunks(self) -> bool:
        """Switches to chunks, or to smaller ones; returns whether that is possible."""
        before, self._chunk_bytes = self._chunk_bytes, self._requirements.chunk_bytes
        return before is None or self._chunk_bytes < before

    def _add_values(self) -> bool:
        """Adds the values that the server asked for; returns whether any were withheld."""
        asked, self._asked = self._asked or self._portion, None
        lacking = [each for each in asked.positions if asked.withholds(each)]
        refused, self._lacking = [each for each in lacking if each in self._lacking], []
        for each in refused or lacking:
            self._requirements.require_values(self._steps[each].operator)
        self._send(self._fitting(self._sent))
        return bool(lacking)

    def fail(self, error: AclgradError) -> None:
        """Settles the steps of a message that failed as a whole.

        An error of the client ends the run: no connection, no time left, a closed client.
        """
        is_answer = len(self._sent) == 1 and error.is_from_server
        self._is_answered |= is_answer
        self._failure = self._failure or error
        is_end = not error.is_from_server and not isinstance(error, MessageTooLargeError)
        failed = list(self._pending if is_end else self._sent)
        for each in failed:
            if is_answer or each not in self._outcomes:
                self._outcomes[each] = error
        self._finish(failed)

    def _finish(self, positions: Iterable[int]) -> None:
        finished = set(positions)
        self._pending = [each for each in self._pending if each not in finished]

    def _first_error(self, end: int | None = None) -> AclgradError | None:
        """Returns the error of the first failed step, of those before a position or of all."""
        failed = [at for at, each in self._outcomes.items() if isinstance(each, AclgradError)]
        first = min((at for at in failed if end is None or at < end), default=None)
        return None if first is None else self._outcomes[first]

    def results(self) -> dict[int, Outcome]:
        """Ends the run: returns the outcomes by position.

        Raises the first error unless errors are returned, or if no step was answered.
        """
        error = self._first_error()
        if not self._is_answered:
            error = self._failure
        elif self._return_errors:
            error = None
        outcomes, self._outcomes, self._failure = self._outcomes, {}, None
        if error is None:
            return outcomes
        try:
            raise error
        finally:
            # Its traceback refers to this frame and the run, which hold all arrays: they must not refer to it.
            del error, outcomes


def _take(take_over: TakeOver, number: int, output: TensorView) -> Array:
    return take_over((number, output.name), output)
