"""The steps of a program, judged one by one from what each of them had."""

import numpy as np
import pytest

from aclgrad import reference
from aclgrad.errors import InputFailedError
from aclgrad.judge.findings.rows import Verdict
from aclgrad.judge.findings.steps import JudgedSteps, judge_steps
from aclgrad.judge.programs.program import Given, Program, Result, Step, one_step
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType, View

SHAPE = (4, 8)
TYPE = TensorType(DTYPES["float32"], SHAPE)


def chain(scale: float = 1.0) -> tuple[Program, list[dict[str, np.ndarray]]]:
    """Returns two steps, the second of which takes the transposed output of the first, and what they should give."""
    grad, x = (np.random.default_rng(seed).standard_normal(SHAPE, np.float32) * np.float32(scale) for seed in (0, 1))
    types = {"grad_input": TYPE}
    first = Step("sigmoid_backward", [Given("grad_output", TYPE, grad), Given("output", TYPE, x)], {}, (), types)
    view = Given("grad_output", TYPE, step=0, output="grad_input", view=View(0, (1, 4)))
    second = Step("tanh_backward", [view, Given("output", TYPE, x)], {}, (), types)
    made = reference.sigmoid_backward(grad, x).astype(np.float32)
    laid = made.reshape(-1)[np.arange(4)[:, None] + 4 * np.arange(8)]
    last = reference.tanh_backward(laid, x).astype(np.float32)
    return Program([first, second]), [{"grad_input": made}, {"grad_input": last}]


def judge(program: Program, results: list[Result]) -> JudgedSteps:
    return judge_steps(program, results, Product.ATLAS_A2)


def test_steps_within_the_operators_tolerance_pass() -> None:
    judged = judge(*chain())
    assert judged.finding.verdict is Verdict.PASSED
    assert set(judged.findings) == set(judged.truths) == {"0.grad_input", "1.grad_input"}
    assert judged.finding.message == "2 outputs by their definitions"
    assert 0 < judged.finding.figures["error_of_limit"] <= 1


@pytest.mark.parametrize("number", [0, 1])
def test_a_step_that_is_off_by_twice_its_tolerance_is_named(number: int) -> None:
    program, results = chain()
    found = results[number]["grad_input"]
    operator = program.steps[number].operator
    limit = judge(program, results).tolerance.of(f"{number}.grad_input").limit(found.astype(np.float64))
    found[3, 7] += np.float32(2 * limit[3, 7])
    if number == 0:
        first = found.reshape(-1)[np.arange(4)[:, None] + 4 * np.arange(8)]
        results[1]["grad_input"] = reference.tanh_backward(first, program.steps[1].inputs[1].array).astype(np.float32)
    judged = judge(program, results)
    assert [each.verdict for each in judged.findings.values()].count(Verdict.FAILED) == 1
    assert judged.finding.message.startswith(f"step {number} ({operator}, grad_input): 1 of 32 elements are outside")


def test_a_tensor_from_a_wrong_place_fails_whatever_the_size() -> None:
    """Beyond the size of samples there is a slack, and nothing is judged where values are huge."""
    for scale, verdict in ((1, Verdict.FAILED), (6, Verdict.FAILED), (100, Verdict.SKIPPED)):
        program, results = chain(scale)
        assert judge(program, results).finding.verdict is (Verdict.PASSED if scale < 100 else Verdict.SKIPPED)
        results[0]["grad_input"], results[1]["grad_input"] = results[1]["grad_input"], results[0]["grad_input"]
        assert judge(program, results).finding.verdict is verdict


def test_of_several_wrong_steps_the_first_is_told() -> None:
    program, results = chain()
    results = [{name: each + np.float32(1) for name, each in result.items()} for result in results]
    assert judge(program, results).finding.message.endswith("; 1 others failed too")
    assert judge(program, results).finding.message.startswith("step 0 (sigmoid_backward, grad_input): ")


def test_results_of_another_form_are_told_and_nothing_is_read_beyond_them() -> None:
    program, results = chain()
    results[0]["grad_input"] = results[0]["grad_input"][:1]
    judged = judge(program, results)
    assert list(judged.findings) == ["0.grad_input"]
    assert judged.finding.message.startswith("step 0 (sigmoid_backward): grad_input is float32 (1, 8) instead of")


def test_failed_steps_are_left_out() -> None:
    program, results = chain()
    judged = judge(program, [results[0], InputFailedError("step 1 failed")])
    assert list(judged.findings) == ["0.grad_input"]


def test_what_its_dtype_cannot_hold_is_not_judged() -> None:
    """A sum of 20,000 values of 5 is beyond float16."""
    inputs = {"grad_output": np.full((20_000, 1), 5, np.float16), "indices": np.zeros(20_000, np.int64)}
    program = one_step(OPERATORS["embedding_dense_backward"], inputs, {"num_weights": 2})
    (step,) = program.steps
    found = {name: np.full(type.shape, np.inf, np.float16) for name, type in step.types.items()}
    assert judge(program, [found]).findings == {}
