"""Small is what takes little memory and little time: it has slots and memory that large programs never take."""

from dataclasses import replace

import pytest

from aclgrad.wire.messages import OperatorCall
from aclgrad_server.calls.admission import Occupancy
from aclgrad_server.calls.runner import Runner
from aclgrad_server.devices.steps import PlannedProgram
from aclgrad_server.limits import SMALL_BYTES, SMALL_S
from tests.server.fake_device import FakeDevice, Gate
from tests.server.fakes import at_once, begun, new_call, runner_of
from tests.server.sent import output_of, pooling_call, program_of, step_of, tanh_call, tensor

CASES = pytest.mark.parametrize(
    ("height", "seconds", "is_small"),
    [(127, SMALL_S, True), (128, 0.0, False), (1, SMALL_S * 1.01, False), (1, 60.0, False)],
)
"""The output has 128 columns of 4 bytes, and the input 4."""


def rooms(runner: Runner) -> tuple[int, int]:
    """Returns how many slots small and large programs have."""
    found = runner.admission.rooms
    return found["small"].slots.used, found["large"].slots.used


@CASES
async def test_a_step(height: int, seconds: float, is_small: bool) -> None:
    gate = Gate()
    runner, step = runner_of(FakeDevice(0, gate)), step_of(pooling_call(1, height, 128))
    step = replace(step, plan=replace(step.plan, seconds=seconds))
    running = await begun(runner.run_step(new_call(), step, ()))
    assert rooms(runner) == ((1, 0) if is_small else (0, 1))
    gate.is_open.set()
    await running


@CASES
async def test_a_program_of_one_step(height: int, seconds: float, is_small: bool) -> None:
    gate = Gate()
    runner = runner_of(FakeDevice(0, gate))
    program, payloads = await runner.programs.read(program_of(pooling_call(1, height, 128)), at_once)
    step = program.steps[0]
    slow = PlannedProgram(1, {0: replace(step, plan=replace(step.plan, seconds=seconds))}, {})
    running = await begun(runner.run_program(new_call(), slow, payloads, at_once))
    assert rooms(runner) == ((1, 0) if is_small else (0, 1))
    gate.is_open.set()
    await running


@pytest.mark.parametrize(("count", "is_small"), [(16, True), (4000, True), (5000, False)])
async def test_a_chain_counts_what_it_has_at_once(count: int, is_small: bool) -> None:
    """Three steps whose tensors would not be small if each had its own memory."""
    gate = Gate()
    runner = runner_of(FakeDevice(0, gate))
    output = tensor("output", count, dtype="float16", data=bytes(2 * count))

    def after(step: int) -> OperatorCall:
        return tanh_call(output_of(step, "grad_output", count, output="grad_input", dtype="float16"), replace(output))

    first = tanh_call(tensor("grad_output", count, dtype="float16", data=bytes(2 * count)), output)
    request = program_of(first, after(0), after(1), returned=[(2, "grad_input")])
    program, payloads = await runner.programs.read(request, at_once)
    running = await begun(runner.run_program(new_call(), program, payloads, at_once))
    assert rooms(runner) == ((1, 0) if is_small else (0, 1))
    assert (runner.admission.occupancy().running_bytes <= SMALL_BYTES) is is_small
    gate.is_open.set()
    await running
    assert runner.admission.occupancy() == Occupancy(0, 0, 2 * count)
