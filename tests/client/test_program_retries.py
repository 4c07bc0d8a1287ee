"""Random programs and random failures of their steps: whatever comes back is right, and nothing is sent in vain."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import aclgrad
from aclgrad._client.attempts.retry import RetryPolicy
from aclgrad.errors import InputFailedError

from .scripted_programs import ScriptedPrograms, scripted_programs, sources_of

X = np.random.default_rng(0).standard_normal((1, 2, 3)).astype(np.float32)
BAD = aclgrad.InvalidFieldError("wrong", field="inputs[output]")
BUSY = aclgrad.ServerBusyError("full", retry_after_s=0.0001)
VALUES = aclgrad.InputValuesRequiredError("send the array", field="inputs[self]")


@pytest.fixture(scope="module")
def programs() -> Iterator[ScriptedPrograms]:
    with scripted_programs() as scripted:
        yield scripted


@pytest.fixture
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RetryPolicy, "backoff_s", lambda *_: 0.0)


def tanh(grad: Any, output: Any) -> Any:
    """Returns the definition: the slope of tanh is 1 - output**2."""
    return (grad * (1.0 - output.astype(np.float64) ** 2)).astype(np.float32)


def pooled(grad: Any) -> Any:
    """Returns the definition: each element of X has the share of the only cell that averaged them."""
    return np.broadcast_to(grad / 6, X.shape).astype(np.float32)


class Drawn:
    """Steps of random inputs: tanh, or pooling, which reads the values of one tensor and the shape of another."""

    def __init__(self, draw: Any, program: aclgrad.Program) -> None:
        self.handles: list[aclgrad.Handle] = []
        self.values: list[Any] = []
        self.needs: list[set[int]] = []
        self.needs_with_values: list[set[int]] = []
        for number in range(draw(st.integers(1, 6))):
            chosen = [draw(st.integers(-1, number - 1)) for _ in range(2)]
            tensors = [X + number if each < 0 else self.handles[each] for each in chosen]
            values = [X + number if each < 0 else self.values[each] for each in chosen]
            if draw(st.booleans()):
                self.handles.append(program.tanh_backward(*tensors))
                self.values.append(tanh(*values))
                read = chosen
            else:
                self.handles.append(program.adaptive_avg_pool2d_backward(tensors[0][:, :1, :1], tensors[1]))
                self.values.append(pooled(values[0][:, :1, :1]))
                read = chosen[:1]
            self.needs.append({number}.union(*(self.needs[each] for each in read if each >= 0)))
            whole = [self.needs_with_values[each] for each in chosen if each >= 0]
            self.needs_with_values.append({number}.union(*whole))


@settings(max_examples=60, suppress_health_check=[*HealthCheck])
@given(data=st.data())
def test_random_failures(programs: ScriptedPrograms, no_backoff: None, data: st.DataObject) -> None:
    with aclgrad.Client(programs.address, retries=6) as client:
        program = client.program()
        drawn = Drawn(data.draw, program)
        count = len(drawn.handles)
        wanted = data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=4))
        errors = st.dictionaries(st.integers(0, count - 1), st.sampled_from([BUSY, BUSY, VALUES, BAD]), max_size=3)
        attempts = [*data.draw(st.lists(errors, max_size=4)), {}]
        programs.fail(*attempts)
        found = program.run(*(drawn.handles[each] for each in wanted), return_errors=True)
        failed = any(BAD in each.values() for each in attempts)
        for number, outcome in zip(wanted, found, strict=True):
            if not isinstance(outcome, aclgrad.AclgradError):
                np.testing.assert_allclose(outcome, drawn.values[number], 1e-4, 1e-6)
                continue
            assert failed or VALUES in set().union(*(each.values() for each in attempts))
            assert isinstance(outcome, aclgrad.InvalidFieldError | InputFailedError | aclgrad.InputValuesRequiredError)
            assert outcome.message.startswith("step ")
            if isinstance(outcome, InputFailedError):
                cause = int(outcome.metadata["step"])
                assert cause in drawn.needs_with_values[number]
        check_messages(programs, drawn, set(wanted))
        if all(isinstance(each, np.ndarray) for each in found):
            return
        # Alone, without failures, every wanted step succeeds in one more message.
        programs.fail({})
        again = program.run(*(drawn.handles[each] for each in wanted))
        for number, outcome in zip(wanted, again, strict=True):
            np.testing.assert_allclose(outcome, drawn.values[number], 1e-4, 1e-6)
        assert len(programs.sent) == 1


def check_messages(programs: ScriptedPrograms, drawn: Drawn, wanted: set[int]) -> None:
    """Checks that each message has what its steps need, and that each step is there for a reason."""
    most = set().union(*(drawn.needs_with_values[each] for each in wanted))
    assert len(programs.sent) <= len(programs.attempts) + 7
    for sent in programs.sent:
        assert len(sent.steps) <= len(most)
        used = {source[0] for step in sent.steps for source in sources_of(step).values() if isinstance(source, tuple)}
        returned = {each.step for each in sent.returned} if sent.returned else set(range(len(sent.steps)))
        assert used | returned == set(range(len(sent.steps)))
        entries = [source for step in sent.steps for source in sources_of(step).values() if isinstance(source, int)]
        assert list(dict.fromkeys(entries)) == list(range(len(sent.tensors)))
