"""What is made of children that end, or of operators that hold them, in any order."""

import json
import sys
from pathlib import Path

import pytest

from aclgrad.operators.cases import first_cases
from aclgrad.products import Product
from aclgrad_server.devices import probing
from aclgrad_server.devices.faults import UnfitDeviceError
from aclgrad_server.settings import Settings

CHILD = """
import json, os, sys

starts, plan = sys.argv[1], json.loads(sys.argv[2])
with open(starts, "a+") as file:
    file.write("x")
    file.seek(0)
    steps = iter(plan[min(len(file.read()), len(plan)) - 1])
while os.read(0, 2**16):
    step = next(steps, "pass")
    if step == "end":
        os.kill(os.getpid(), 9)
    answers = {
        "open": {"name": "device 0 (Made up)", "product": "910B"},
        "hold": {"unfit": ["device 0 is lost", "made up"]},
        "pass": {"fault": None},
    }
    os.write(1, json.dumps(answers[step]).encode() + b"\\n")
"""
"""Answers its questions by its plan, and `pass` after that. Its settings are the first question."""
SECOND = list(first_cases(Product.ATLAS_A2))[1].spec.name
"""The operator after the first. Both have several dtypes."""
ENDS, HOLDS = "device 0 ends the process that calls it", "device 0 does not answer"

# What the children do, one after the other, the last one again and again; and what is off, or why the device is unfit.
CHILDREN: dict[str, tuple[list[list[str]], dict[str, str] | str]] = {
    "sound": ([["open"]], {}),
    "ended_before_it_opens": ([["end"], ["open"]], {}),
    "ended_before_it_opens_again": ([["end"]], "the process ended with signal 9"),
    "ended_once_by_somebody": ([["open", *["pass"] * 3, "end"], ["open"]], {}),
}


def dtypes_of_the_first() -> int:
    cases = list(first_cases(Product.ATLAS_A2, every_dtype=True))
    return sum(each.spec.name == cases[0].spec.name for each in cases)


ALL_OF_THE_FIRST = ["open", *["pass"] * dtypes_of_the_first()]
CHILDREN |= {
    # A new child is asked first for what passed before.
    "ended_twice_by_one": ([[*ALL_OF_THE_FIRST, "end"], ["open", "pass", "end"], ["open"]], {SECOND: ENDS}),
    "held_by_one": ([[*ALL_OF_THE_FIRST, "hold"], ["open"]], {SECOND: HOLDS}),
    "nothing_has_answered": ([["open", "end"]], "3 operators ended or held the process that called them"),
    "nothing_has_answered_in_time": ([["open", "hold"]], "3 operators ended or held the process that called them"),
    "too_many_do_not_answer": ([["open", "pass", "hold"]], "8 operators do not answer"),
    "what_passed_ends_it": ([[*ALL_OF_THE_FIRST, "end"], ["open", "end"]], "the process ended with signal 9"),
}


@pytest.mark.parametrize(("plan", "expected"), CHILDREN.values(), ids=CHILDREN)
async def test_operators_are_off_or_the_device_is_unfit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: list[list[str]], expected: dict[str, str] | str
) -> None:
    command = (sys.executable, "-I", "-S", "-c", CHILD, str(tmp_path / "starts"), json.dumps(plan))
    monkeypatch.setattr(probing, "COMMAND", command)
    if isinstance(expected, str):
        with pytest.raises(UnfitDeviceError) as caught:
            await probing.probe(Settings(), 1)
        assert expected in caught.value.problem
    else:
        off = await probing.probe(Settings(), 1)
        assert off is not None
        assert {each.name: each.reason.partition(";")[0] for each in off.messages()} == expected
