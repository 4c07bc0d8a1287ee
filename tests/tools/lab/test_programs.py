"""The judge of programs can fail: a wrong, missing or cut output, and a step that failed."""

import numpy as np
import pytest
from google.rpc import status_pb2

import aclgrad
from aclgrad.tensors import view_of_array
from aclgrad.wire.programs import StepOutcome
from tools.lab.chains import ELEMENTWISE, OF_ROWS, chain, known_chain
from tools.lab.known import WrongGradientError
from tools.lab.programs import outputs_of

OPERATORS = (*ELEMENTWISE, *OF_ROWS)
LAST = len(OPERATORS) - 1


@pytest.mark.parametrize("shares", [True, False])
def test_only_the_outputs_of_the_definitions_pass(shares: bool) -> None:
    known = known_chain(chain(OPERATORS, 4, shares=shares), [2, LAST])
    right = dict(known.truths)
    known.compare(right)
    for key, each in right.items():
        largest = np.unravel_index(np.abs(each).argmax(), each.shape)
        for wrong in (each[largest] * 1.01, 0, np.nan):
            spoiled = each.copy()
            spoiled[largest] = wrong
            with pytest.raises(WrongGradientError, match=key[1]):
                known.compare(right | {key: spoiled})
        with pytest.raises(WrongGradientError, match="shape"):
            known.compare(right | {key: each[None]})
        with pytest.raises(WrongGradientError, match="returned"):
            known.compare({other: array for other, array in right.items() if other != key})


def test_each_step_changes_what_the_chain_returns() -> None:
    """A step that was left out, or got another tensor, is seen in the last output."""
    known = known_chain(chain(OPERATORS, 4), [LAST])
    for number in range(len(OPERATORS)):
        others = OPERATORS[:number] + OPERATORS[number + 1 :]
        (last,) = known_chain(chain(others, 4), [LAST - 1]).truths.values()
        with pytest.raises(WrongGradientError):
            known.compare({key: last for key in known.truths})


def test_what_is_no_answer() -> None:
    array = np.ones((2, 3), np.float32)
    made: StepOutcome = (view_of_array("out", array),)
    busy = status_pb2.Status(code=14, message="come later")
    assert outputs_of([made, ()], 2)[0, "out"].tolist() == array.tolist()
    assert outputs_of([(), made], 2, [bytearray(array.tobytes())])[1, "out"].tolist() == array.tolist()
    with pytest.raises(aclgrad.ServerFaultError, match="1 of 2 steps"):
        outputs_of([made], 2)
    with pytest.raises(aclgrad.ServerFaultError, match="ended after 4 bytes"):
        outputs_of([made], 1, [bytearray(4)])
    with pytest.raises(aclgrad.AclgradError, match="come later"):
        outputs_of([made, busy, status_pb2.Status(code=3)], 3)
