"""What a program costs, and where a cut costs least: against all cuts, tried one by one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aclgrad
from aclgrad._client.programs.costs import Costs
from aclgrad.units import size
from tools.calling import maybe_await

from .conftest import Connect
from .scripted_service import ScriptedService, failing


@dataclass
class Model:
    """Tensors by name: their sizes, and the steps with what they use and make."""

    sizes: dict[str, int] = field(default_factory=dict)
    steps: list[tuple[list[str], str]] = field(default_factory=list)
    returned: set[str] = field(default_factory=set)

    def part(self, first: int, end: int, ahead: int | None = None) -> tuple[int, int]:
        """Returns the peak of some of the steps as a program, and the bytes that go over the connection for it.

        It returns what is wanted, and what later steps use; it is sent what earlier steps made. With `ahead` the peak
        is what a server may count: all that comes and goes, or so much more than is needed at once.
        """
        steps = self.steps[first:end]
        later = {name for uses, _ in self.steps[end:] for name in uses}
        made = {name for _, name in steps}
        back = made & (self.returned | later)
        sent = {name for uses, _ in steps for name in uses} - made
        peak = self.most(steps, made | sent, back)
        moved = sum(self.sizes[name] for name in back) + sum(self.sizes[name] for name in sent)
        if ahead is not None:
            own = {name for _, name in self.steps}
            most_made = self.most(self.steps, own, self.returned)
            peak = min(peak + ahead, moved + min(sum(self.sizes[name] for name in made), most_made))
        return peak, moved

    def most(self, steps: list[tuple[list[str], str]], names: set[str], back: set[str]) -> int:
        """Returns the most bytes that these tensors have at once; those that go back have them to the end."""
        peak = 0
        for number in range(len(steps)):
            live = set()
            for name in names:
                uses = [i for i, (used, own) in enumerate(steps) if name in used or name == own]
                last = len(steps) if name in back else uses[-1]
                if uses[0] <= number <= last:
                    live.add(name)
            peak = max(peak, sum(self.sizes[name] for name in live))
        return peak


def draw_model(draw: st.DrawFn) -> Model:
    """Draws a model: each step uses one tensor of any size, or two of its own, sent or made before."""
    model = Model()
    for number in range(draw(st.integers(2, 8))):
        count = draw(st.sampled_from([4, 8, 400]))
        names = [name for name, own in model.sizes.items() if own == count]
        uses = []
        for _ in range(2):
            uses.append(draw(st.sampled_from([*names, f"sent {len(model.sizes)}"])))
            model.sizes.setdefault(uses[-1], count)
        if draw(st.booleans()):
            uses = [draw(st.sampled_from([*model.sizes]))]
            model.sizes = {name: own for name, own in model.sizes.items() if name == uses[0] or is_used(model, name)}
        model.sizes[f"made {number}"] = count
        model.steps.append((uses, f"made {number}"))
    used = {name for uses, _ in model.steps for name in uses}
    own = [made for _, made in model.steps]
    # What nobody uses is returned: no step is without need.
    model.returned = {each for each in own if each not in used or draw(st.booleans())}
    return model


def is_used(model: Model, name: str) -> bool:
    return any(name in uses or name == own for uses, own in model.steps)


def build(program: aclgrad.Program, model: Model) -> list[aclgrad.Handle]:
    """Adds the steps; returns the handles of what is wanted."""
    tensors = {name: np.full((1, 1, count // 4), i, np.float32) for i, (name, count) in enumerate(model.sizes.items())}
    for uses, own in model.steps:
        given = [tensors[name] for name in uses]
        shape = (1, 1, model.sizes[own] // 4)
        add = program.adaptive_avg_pool2d_backward if len(uses) == 1 else program.tanh_backward
        tensors[own] = add(given[0], shape if len(uses) == 1 else given[1])
    return [tensors[name] for name in sorted(model.returned)]


@pytest.fixture(scope="module")
def closed() -> Iterator[aclgrad.Client]:
    """A client that nobody sends anything with."""
    with aclgrad.Client("127.0.0.1:1") as client:
        yield client


@settings(max_examples=100)
@given(data=st.data())
def test_the_cut_that_is_named_costs_least(closed: aclgrad.Client, data: st.DataObject) -> None:
    """The server's peak is in another unit: it may count more than tensors."""
    model = draw_model(data.draw)
    program = closed.program()
    wanted = build(program, model)
    run = program.to_send(wanted, {}, return_errors=False)
    costs = Costs(program._steps, run.returned)  # noqa: SLF001 - what it is made of
    count = len(model.steps)
    peak, whole_bytes = model.part(0, count)
    assert (costs.peak_bytes, costs.sent_bytes + costs.received_bytes) == (peak, whole_bytes)
    ahead = data.draw(st.sampled_from([0, 40, 2000]))
    peak, _ = model.part(0, count, ahead)
    limit = data.draw(st.integers(1, peak))
    told = costs.cheapest_cut(3 * limit, 3 * peak, ahead)
    found = re.match(
        r"cut it before step (\d+) \(\w+, test_program_costs.py:\d+\), where (.*) more would be sent", told
    )
    assert found is not None
    cuts = {at: (model.part(0, at, ahead), model.part(at, count, ahead)) for at in range(1, count)}
    more = {at: first[1] + second[1] - whole_bytes for at, (first, second) in cuts.items()}
    at = int(found[1])
    assert found[2] == size(more[at])
    begins = [each for each, (first, _) in cuts.items() if first[0] <= limit]
    fit = [each for each in begins if cuts[each][1][0] <= limit]
    if fit:
        assert at in fit
        assert more[at] == min(more[each] for each in fit)
        assert told.endswith("would be sent")
    elif begins:
        assert at in begins
        assert 2 * at > begins[-1]
        assert more[at] == min(more[each] for each in begins if 2 * each > begins[-1])
        assert told.endswith("and cut what follows again")
    else:
        largest = {each: max(first[0], second[0]) for each, (first, second) in cuts.items()}
        assert largest[at] == min(largest.values())
        assert told.endswith("and cut the larger part again")


X = np.ones((256, 1024), np.float32)
"""1 MiB."""
TOO_MUCH = aclgrad.LimitExceededError(
    "takes 4194304 bytes at once", field="call", metadata={"peak_bytes": str(4 * 2**20), "limit": str(3 * 2**20)}
)


@pytest.mark.parametrize("return_errors", [False, True])
async def test_a_program_that_takes_too_much_is_told_where_to_cut_it(
    connect: Connect, service: ScriptedService, return_errors: bool
) -> None:
    """By what this run needs, and by the number of a step among all."""
    service.answer = failing(TOO_MUCH)
    program = connect(service.address).program()
    kept = program.tanh_backward(X, X)
    large = program.tanh_backward(2 * X, 2 * X)
    small = program.adaptive_avg_pool2d_backward(large.reshape(1, 256, 1024), (1, 2, 2))
    last = program.adaptive_avg_pool2d_backward(small, (1, 256, 1024))
    cuts = {
        (
            last,
        ): "step 3 (adaptive_avg_pool2d_backward, {}), where 32 B more would be sent, and cut the larger part again",
        (kept, last): "step 1 (tanh_backward, {}), where 0 B more would be sent",
    }
    for wanted, cut in [*cuts.items(), *cuts.items()]:
        with pytest.raises(aclgrad.LimitExceededError) as caught:
            await maybe_await(program.run(*wanted, return_errors=return_errors))
        message = re.sub(r"test_program_costs.py:\d+", "{}", caught.value.message)
        assert message == f"takes 4194304 bytes at once; cut it before {cut}"
        assert str(caught.value).count("cut it") == 1
        assert caught.value.metadata["peak_bytes"] == "4194304"
    assert len(service.requests) == 4


async def test_one_step_has_no_cut(connect: Connect, service: ScriptedService) -> None:
    service.answer = failing(TOO_MUCH)
    program = connect(service.address).program()
    gradient = program.tanh_backward(X, X)
    with pytest.raises(aclgrad.LimitExceededError) as caught:
        await maybe_await(program.run(gradient))
    assert caught.value.message.endswith("takes 4194304 bytes at once")


def test_a_program_shows_what_it_costs(closed: aclgrad.Client) -> None:
    program = closed.program()
    empty = str(program)
    assert empty.startswith("program of 0 steps: 0 B to the server, 0 B back, at least 0 B on the device at once")
    first = program.tanh_backward(X, X)
    second = program.tanh_backward(first.T, X.T)
    program.adaptive_avg_pool2d_backward(second.reshape(1, 1024, 256)[:, :2, :2], (1, 4, 4))
    head, *lines = str(program).split("\n")
    assert head.startswith(
        f"program of 3 steps: {size(2**20)} to the server, 64 B back, at least {size(3 * 2**20)} on the"
    )
    assert [int(line.split()[0]) for line in lines] == [0, 1, 2]
    operands = "grad_output = 0.grad_input (view) float32[1024, 256], output float32[1024, 256]"
    assert f"tanh_backward({operands}) -> grad_input float32[1024, 256]  test_program_costs.py:" in lines[1]
    assert "self (shape) float32[1, 4, 4]" in lines[2]
    assert (len(program), repr(program)) == (3, "<aclgrad.Program of 3 steps>")
    for _ in range(100):
        second = program.tanh_backward(second, X.T)
    assert len(str(program).split("\n")) == 62
    assert "43 steps" in str(program)


@pytest.mark.parametrize(
    ("outputs", "sent"), [(["grad_input"], 13), (["grad_weight"], 20), (["grad_bias"], 10), (None, 23)]
)
def test_values_that_no_wanted_output_depends_on_are_not_sent(outputs: list[str] | None, sent: int) -> None:
    with aclgrad.Client("127.0.0.1:1") as client:
        program = client.program()
        row, weight = np.ones((1, 1, 10), np.float32), np.ones((1, 1, 3), np.float32)
        program.convolution_backward(row, -row, weight, padding=1, outputs=outputs)
        assert f"{size(4 * sent)} to the server" in str(program)


@pytest.mark.parametrize("shape_only", [True, False])
def test_what_is_not_sent_costs_nothing(shape_only: bool) -> None:
    """Not the array of which only the shape goes, and not the step that would make it."""
    with aclgrad.Client("127.0.0.1:1", shape_only=shape_only) as client:
        program = client.program()
        made = program.tanh_backward(X[None], X[None])
        program.adaptive_avg_pool2d_backward(np.ones((1, 1, 1), np.float32), made)
        program.adaptive_avg_pool2d_backward(np.ones((1, 1, 1), np.float32), X[None])
        sent = size(4 if shape_only else 2**20 + 4)
        assert f"{sent} to the server, {size(2 * 2**20)} back" in str(program)
        assert ("1 more steps are not needed" in str(program)) is shape_only
