"""Programs as a user builds them: steps that use each other's outputs, without input or output."""

from __future__ import annotations  # `help` shows the names of unions, and not their members

import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from aclgrad._client.calls.arguments import OUTPUTS, RETURNED, Inputs
from aclgrad._client.calls.destination import Outputs, outputs_type
from aclgrad._client.calls.handles import Handle
from aclgrad._client.calls.operator_methods import OperatorMethods
from aclgrad._client.calls.placeholders import Placeholder
from aclgrad._client.calls.requirements import Requirements
from aclgrad._client.programs.batch import check_no_timeout
from aclgrad._client.programs.costs import Costs
from aclgrad._client.programs.needs import Needs, Returned
from aclgrad._client.programs.portions import Portions
from aclgrad._client.programs.run import Outcome, ProgramRun
from aclgrad._client.programs.steps import Step, place_of_caller
from aclgrad._client.programs.table import Table
from aclgrad._client.programs.values import NO_VALUES, Values, data_of
from aclgrad._client.settings.checks import DEFAULT, Timeout
from aclgrad.errors import AclgradError, InvalidFieldError, LimitExceededError, UnknownOperatorError
from aclgrad.operators.attributes import AttributeLike
from aclgrad.tensors import TensorType
from aclgrad.wire.values import checked_name

_Client = TypeVar("_Client")
Wanted = Handle | tuple[Any, ...]
"""What `run` returns: an output or a view of one, or what an operator with several outputs returned."""

_MOST_KEPT: Final = 4
"""Number of cached sets of wanted outputs: a step of training, its evaluation, ..."""


class _Kept(NamedTuple):
    """The needs and the portions of the latest run for some outputs."""

    needs: Needs
    portions: Portions


class BaseProgram(OperatorMethods[Handle], Generic[_Client]):
    """Steps that are sent together; a method of an operator adds a step and returns the handle of its output.

    A handle has a shape and a dtype, and no values; later steps take it in place of an array. Arrays are copied when
    their step is added, and may change afterwards. One that is given again with the same values, and every view of it,
    is sent once. A placeholder stands for an array that each `run` brings. Nothing is sent before `run`.
    """

    def __init__(self, requirements: Requirements, client: _Client, product: str = "") -> None:
        self._requirements = requirements
        self._client = client
        self._product = checked_name("product", product)
        self._table = Table()
        self._steps: list[Step] = []
        self._adding = threading.Lock()
        """Gives threads that add steps to one program different numbers."""
        self._kept: dict[tuple[tuple[int, tuple[str, ...]], ...], _Kept] = {}
        """By the returned outputs: the next run for them sends the same if nothing has changed."""
        self._returned: Returned | None = None
        """The outputs of the latest run; None before."""
        self._placeholder_count = 0
        self.place: Callable[[], str] = place_of_caller
        """Returns the place where a step is added, for errors: by default the caller's file and line."""

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def steps(self) -> Sequence[Step]:
        """The steps so far."""
        return self._steps

    def execute(
        self,
        name: str,
        inputs: Inputs,
        attributes: Mapping[str, AttributeLike] | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Handle:
        """Adds a step of any operator that this client knows, by its wire names, and returns the handle of its output.

        Of an operator with several outputs it returns a NamedTuple of handles. With `out`, each `run` that returns the
        output writes it to that array and returns that.

        Raises InvalidFieldError where an array or an attribute has no form on the wire, where what the operator returns
        does not follow from its inputs, for a handle of another program, and after `run`; UnknownOperatorError for an
        operator that this client does not know; InvalidSettingError for a `timeout_s`, which `run` takes.
        """
        check_no_timeout("a step of a program", timeout_s)
        self._check_not_run(f"a step ({name})")
        if checked_name("operator", name) not in OUTPUTS:
            remedy = "upgrade aclgrad, or make single calls of it"
            raise UnknownOperatorError.at(
                "operator", f"{name!r} is not known here, so nothing can use its output", remedy
            )
        step = Step(name, inputs, attributes, self._requirements, self._table, out, outputs, self._check)
        if not step.outputs:
            problem = f"({name}) {step.why_nothing_follows()}"
            raise InvalidFieldError.at(
                f"step {len(self)}", problem, "see the operator's docstring for dtypes and shapes"
            )
        step.place = self.place()
        with self._adding:
            number = len(self._steps)
            self._steps.append(step)
        handles = {each.name: Handle(self, number, each.name, each.type) for each in step.outputs}
        names = OUTPUTS[name]
        if len(names) == 1:
            return handles[names[0]]
        several: Any = outputs_type(name, names)(*map(handles.get, names))
        return several  # type: ignore[no-any-return]

    def placeholder(self, type: TensorType) -> Handle:
        """Returns a handle that stands for an array of this type, which each `run` brings; steps take views of it too.

        All bytes of the array are sent, once, whatever views the steps take. The values of indices, masks and boxes
        may be a placeholder's.

        Raises InvalidFieldError for what is no type, such as an array, and after `run`.
        """
        if not isinstance(type, TensorType) or min(type.shape, default=0) < 0:
            remedy = 'give aclgrad.TensorType.of("float32", (64, 512))'
            raise InvalidFieldError.at("type", f"is {type!r}, which is no type of a tensor", remedy)
        self._check_not_run("a placeholder")
        place = self.place()
        with self._adding:
            placeholder = Placeholder(self._placeholder_count, type, place)
            self._placeholder_count += 1
        return Handle(self, -1, "", type, placeholder=placeholder)

    def _check_not_run(self, what: str) -> None:
        if self._returned is not None:
            problem = f"gets {what}, and has run"
            raise InvalidFieldError.at("program", problem, "make a new program, and give it what run() returned")

    def _check(self, name: str, handle: Handle) -> None:
        if not handle.is_of(self):
            problem = f"is {handle!r} of another program"
            raise InvalidFieldError.at(f"inputs[{name}]", problem, "give what its run() returned, or make it here")

    @abstractmethod
    def run(
        self,
        *wanted: Wanted,
        values: Values = NO_VALUES,
        return_errors: bool = False,
        timeout_s: Timeout = DEFAULT,
    ) -> Any:
        """Sends the program, and returns the values of the wanted handles in a list.

        In place of a handle, what an operator with several outputs returned stands for all of these: a NamedTuple of
        arrays comes back. Only what the wanted handles need is computed. Views of handles give arrays of their own; the
        same handle twice gives the same array twice.

        It goes in one message, or in chunks if it is large, and runs on one server as a whole. Where steps fail, raises
        the error of the first one, which names the step and the line that added it; with `return_errors` it stands in
        the list instead, for each wanted handle that lacks a value. A program that takes too much memory at once raises
        LimitExceededError, which says where to cut it.

        `values` has an array for each placeholder that the wanted handles need, of its dtype and shape; others are
        ignored. The arrays are read while the program runs, and not copied unless they are not contiguous: they may
        not change before `run` returns.

        Afterwards the program takes no further steps, but it may run again, with the same wanted handles and values or
        others, also from several threads at once.
        """

    def to_send(self, wanted: Sequence[Wanted], values: Values, return_errors: bool) -> ProgramRun:
        """Returns the run for the wanted outputs; raises InvalidFieldError if one is not of this program.

        It also raises that if values do not fit the placeholders.
        """
        handles = handles_in(wanted)
        if not handles:
            raise InvalidFieldError.at("wanted", "names no outputs", "give run() at least one handle")
        returned: dict[int, set[str]] = {}
        for handle in handles:
            if not isinstance(handle, Handle) or not handle.is_of(self):
                problem = f"has {handle!r}, which is no handle of this program"
                raise InvalidFieldError.at("wanted", problem, "give what the methods of this program returned")
            if handle.placeholder is not None:
                raise InvalidFieldError.at(
                    "wanted", f"has {handle!r}, which no step makes", "use the array that you give"
                )
            if handle.output not in RETURNED[self._steps[handle.step].operator]:
                problem = f"has output {handle.output!r} of step {handle.step}, which has a form of the device's own"
                raise InvalidFieldError.at("wanted", problem, "use it in later steps alone")
            returned.setdefault(handle.step, set()).add(handle.output)
        in_order = {step: _in_order(self._steps[step], found) for step, found in returned.items()}
        key = tuple(sorted(in_order.items()))
        needs, known = self._kept.get(key, (None, None))
        if needs is None or needs.withheld != self._requirements.withheld:
            needs = Needs.of(self._steps, in_order, self._requirements.withheld)
        data = data_of(values, self, needs.placeholders, self._table)
        # Read once: another thread may run the program for other outputs.
        self._returned = in_order
        run = ProgramRun(
            self._steps,
            in_order,
            self._requirements,
            return_errors=return_errors,
            product=self._product,
            known=known,
            needs=needs,
            data=data,
        )
        with self._adding:
            self._kept.pop(key, None)
            self._kept[key] = _Kept(needs, run.portions)
            if len(self._kept) > _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        return run

    def values_of(self, wanted: Sequence[Wanted], run: ProgramRun) -> list[Any]:
        """Ends the run: returns the wanted outputs; raises as `ProgramRun.results` does."""
        try:
            outcomes = run.results()
        except LimitExceededError as error:
            self._explain(error, run)
            raise
        return [self._value(each, outcomes) for each in wanted]

    def _value(self, wanted: Wanted, outcomes: Mapping[int, Outcome]) -> Any:
        if not isinstance(wanted, Handle):
            values = [None if each is None else self._value(each, outcomes) for each in wanted]
            failed = next((each for each in values if isinstance(each, AclgradError)), None)
            return failed or (type(wanted)._make(values) if hasattr(wanted, "_make") else type(wanted)(values))
        outcome, step = outcomes[wanted.step], self._steps[wanted.step]
        if isinstance(outcome, AclgradError):
            return outcome
        names = OUTPUTS[step.operator]
        value = outcome if len(names) == 1 else outcome[names.index(wanted.output)]
        return wanted.taken_from(value)

    def _explain(self, error: LimitExceededError, run: ProgramRun) -> None:
        """Adds to the error where to cut a program that takes too much memory at once."""
        peak, limit = (error.metadata.get(each, "") for each in ("peak_bytes", "limit"))
        if peak.isdecimal() and limit.isdecimal():
            cut = Costs(self._steps, run.returned, self._requirements.withheld).cheapest_cut(int(limit), int(peak))
            if cut:
                error.message += f"; {cut}"
                error.args = (error.message,)

    def costs(self) -> Costs:
        """Returns the costs of the latest run; before one, those of a run for all outputs that no step uses."""
        return Costs(self._steps, self._returned, self._requirements.withheld)

    def __str__(self) -> str:
        return str(self.costs())

    def __repr__(self) -> str:
        return f"<aclgrad.{type(self).__name__} of {len(self)} steps>"


def handles_in(wanted: Sequence[Wanted]) -> list[Handle]:
    """Returns the handles among the wanted values, and everything else."""
    found: list[Handle] = []
    for each in wanted:
        found += handles_in([part for part in each if part is not None]) if isinstance(each, tuple) else [each]
    return found


def _in_order(step: Step, names: set[str]) -> tuple[str, ...]:
    return tuple(each.name for each in step.outputs if each.name in names)
