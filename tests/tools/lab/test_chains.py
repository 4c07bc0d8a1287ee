"""The judge of programs can fail: a wrong, missing or cut output. Clients build the programs that were drawn."""

import numpy as np
import pytest

import aclgrad
import aclgrad.testing
from tools.lab.chains import ELEMENTWISE, OF_ROWS, chain, draw_chains, draw_large_chains, known_chain
from tools.lab.known import KnownProgram, WrongGradientError

OPERATORS = (*ELEMENTWISE, *OF_ROWS)
LAST = len(OPERATORS) - 1


@pytest.mark.parametrize("shares", [True, False])
def test_only_the_outputs_of_the_definitions_pass(shares: bool) -> None:
    known = known_chain(chain(OPERATORS, 4, shares=shares), [2, LAST])
    right = list(known.truths.values())
    known.compare(right)
    for at, (number, each) in enumerate(known.truths.items()):
        others = right[:at], right[at + 1 :]
        largest = np.unravel_index(np.abs(each).argmax(), each.shape)
        for wrong in (each[largest] * 1.01, 0, np.nan):
            spoiled = each.copy()
            spoiled[largest] = wrong
            with pytest.raises(WrongGradientError, match=f"step {number}: {known.steps[number].output}"):
                known.compare([*others[0], spoiled, *others[1]])
        with pytest.raises(WrongGradientError, match="shape"):
            known.compare([*others[0], each[None], *others[1]])
        with pytest.raises(WrongGradientError, match="returned"):
            known.compare([*others[0], *others[1]])


def test_each_step_changes_what_the_chain_returns() -> None:
    """A step that was left out, or got another tensor, is seen in the last output."""
    known = known_chain(chain(OPERATORS, 4), [LAST])
    for number in range(len(OPERATORS)):
        others = OPERATORS[:number] + OPERATORS[number + 1 :]
        with pytest.raises(WrongGradientError):
            known.compare(list(known_chain(chain(others, 4), [LAST - 1]).truths.values()))


MESSAGE_BYTES = 8 * 2**20
"""A client sends and fetches no more in one message."""


@pytest.mark.parametrize(
    ("known", "is_large"),
    [*((each, False) for each in draw_chains(2)), *((each, True) for each in draw_large_chains(2))],
    ids=["few", "all", "much sent", "much returned"],
)
def test_clients_make_the_programs(known: KnownProgram, is_large: bool) -> None:
    given = {id(each): each for step in known.steps for each in step.inputs.values() if not isinstance(each, int)}
    sides = (sum(each.nbytes for each in side) for side in (given.values(), known.truths.values()))
    assert (max(sides) > MESSAGE_BYTES) == is_large
    with aclgrad.testing.serve() as server, aclgrad.Client(server.target) as client:
        program = client.program()
        wanted = known.add_to(program)
        known.compare(program.run(*wanted))
