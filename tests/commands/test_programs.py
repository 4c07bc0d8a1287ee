"""`aclgrad call --program` and `aclgrad bench --program`: several operators in one call, from a file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import aclgrad
from aclgrad import reference
from aclgrad.commands.files import load
from aclgrad.testing import TestServer

from .conftest import Run

GENERATOR = np.random.default_rng(0)
GRAD = GENERATOR.standard_normal((4, 8), np.float32)
X = GENERATOR.uniform(-0.9, 0.9, (8, 4)).astype(np.float32)
TURNED = {"shape": [4, 8], "strides": [1, 4]}
STEPS: list[dict[str, Any]] = [
    {
        "operator": "gelu_backward",
        "inputs": {"grad_output": "grad.npy", "self": {"file": "x.safetensors:x", "view": TURNED}},
        "name": "g",
    },
    {
        "operator": "tanh_backward",
        "inputs": {"grad_output": {"step": "g", "output": "grad_input"}, "output": {"step": 0, "view": TURNED}},
    },
    {
        "operator": "layer_norm_backward",
        "inputs": {
            "grad_output": {"step": 1},
            "input": {"step": 0},
            "mean": "row.npy",
            "rstd": "row.npy",
            "weight": {"step": 0, "view": {"offset": 8, "shape": [8]}},
        },
        "attributes": {"normalized_shape": [8]},
        "outputs": ["grad_input", "grad_bias"],
        "name": "norm",
    },
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "grad.npy", GRAD)
    np.save(tmp_path / "row.npy", np.ones((4, 1), np.float32))
    save_file({"x": X, "y": X}, tmp_path / "x.safetensors")
    return tmp_path


def written(folder: Path, fields: Any) -> Path:
    path = folder / "program.json"
    path.write_text(json.dumps(fields))
    return path


def expected() -> dict[str, Any]:
    """The outputs by the definitions, each from rounded inputs, with numpy's own views."""
    first = reference.gelu_backward(GRAD, X.T).astype(np.float32)
    second = reference.tanh_backward(first, np.lib.stride_tricks.as_strided(first, (4, 8), (4, 16))).astype(np.float32)
    row = np.ones((4, 1), np.float32)
    third = reference.layer_norm_backward(second, first, mean=row, rstd=row, weight=first[1], normalized_shape=(8,))
    return {"g.grad_input": first, "1.grad_input": second, "norm.grad_input": third[0], "norm.grad_bias": third[2]}


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_what_no_step_uses_goes_to_a_file_by_name(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """The arrays are beside the program, wherever the command runs."""
    monkeypatch.chdir("/")
    path, output = written(folder, {"steps": STEPS}), folder / f"found{suffix}"
    result = run("call --program", path, "-o", output)
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"norm.grad_input float32 4x8, norm.grad_bias float32 8 to {output} in ")
    truths = expected()
    for name in ("norm.grad_input", "norm.grad_bias"):
        np.testing.assert_allclose(load(f"{output}:{name}"), truths[name], rtol=1e-5, atol=1e-5)


def test_what_is_named_is_returned_in_that_order(run: Run, testing: TestServer, folder: Path) -> None:
    returned = [{"step": 1, "output": "grad_input"}, {"step": "g"}]
    result = run("call --json --program", written(folder, {"steps": STEPS, "returned": returned}))
    told = json.loads(result.output)
    assert (told["steps"], list(told["gradients"])) == (3, ["1.grad_input", "g.grad_input"])
    assert told["gradients"]["g.grad_input"] == {"dtype": "float32", "shape": [4, 8]}


def test_one_step_is_a_call_and_a_shape_needs_no_values(run: Run, folder: Path) -> None:
    step = {
        "operator": "adaptive_avg_pool2d_backward",
        "inputs": {"grad_output": {"file": "grad.npy", "view": {"shape": [2, 4, 4]}}, "input": [2, 8, 8]},
    }
    output = folder / "found.npy"
    result = run("call --json --program", written(folder, {"steps": [step]}), "-o", output)
    assert json.loads(result.output)["operator"] == "adaptive_avg_pool2d_backward", result.output
    truth = np.repeat(np.repeat(GRAD.reshape(2, 4, 4), 2, -1), 2, -2) / 4
    np.testing.assert_allclose(np.load(output), truth, rtol=1e-6)


def changed(number: int, **changes: Any) -> dict[str, Any]:
    """Returns the program with other fields of a step; None takes one away."""
    steps = [dict(each) for each in STEPS]
    steps[number] = {name: each for name, each in (steps[number] | changes).items() if each is not None}
    return {"steps": steps}


REFUSED: dict[str, tuple[Any, str]] = {
    "no object": ([], "the program has to be an object with steps, returned"),
    "no steps": ({}, "the program has no steps; give a list"),
    "another field": ({"steps": STEPS, "return": []}, "the program has the field 'return'; it takes steps, returned"),
    "no operator": (changed(1, operator=None), "step 1 has no operator; give a text"),
    "unknown": (changed(1, operator="tanh_backwards"), "step 1 operator 'tanh_backwards' is not known to this client"),
    "input": (changed(0, inputs={"grad": "grad.npy"}), "inputs[grad] is not known; call it grad_output"),
    "twice": (changed(0, inputs={"self": [3], "input": [3]}), "step 0 (gelu_backward) inputs[input] is given twice"),
    "no file": (changed(0, inputs={"self": "y.npy"}), "step 0 (gelu_backward) inputs[self]: [Errno 2] No such file"),
    "no tensor": (changed(0, inputs={"self": "x.safetensors:z"}), "has no array 'z'"),
    "shapes": (changed(0, inputs={"self": [3, 4]}), "inputs[self] is a shape, and no other input has a dtype"),
    "value": (changed(0, inputs={"self": 3}), "step 0 (gelu_backward) inputs[self] has to be a file, a list of sizes"),
    "later": (changed(1, inputs={"output": {"step": "norm"}}), "inputs[output] has step 'norm'; give the name or the"),
    "output": (
        changed(1, inputs={"output": {"step": 0, "output": "out"}}),
        "has output 'out', and step 0 has grad_input",
    ),
    "which output": (
        {"steps": STEPS, "returned": [{"step": "norm"}]},
        "returned[0] has no output; give a text",
    ),
    "view": (
        changed(1, inputs={"output": {"step": 0, "view": {"shape": [33]}}}),
        "inputs[output] view of shape (33,) is not within the 32 elements of float32[4, 8]",
    ),
    "strides": (
        changed(1, inputs={"output": {"step": 0, "view": {"shape": [4, 8], "strides": [1]}}}),
        "is not within the 32 elements",
    ),
    "attribute": (changed(2, attributes={"normalized_shape": "8"}), "attributes[normalized_shape] is '8'"),
    "many values": (changed(2, attributes={"normalized_shape": [8] * 4097}), "no list of at most 4096"),
    "shape": (changed(2, attributes={"normalized_shape": [9]}), "step 2 (layer_norm_backward): "),
    "no name": (changed(2, name="a b"), "step 2 (layer_norm_backward) has the name 'a b'"),
    "name twice": (changed(2, name="g"), "has the name 'g' of step 0; give it another"),
    "returned": ({"steps": STEPS, "returned": [{"step": 3}]}, "returned[0] has step 3; give the name or the number"),
    "nothing": ({"steps": STEPS, "returned": []}, "returned names no output, or one twice"),
}


@pytest.mark.parametrize(("fields", "told"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_program_has_one_line_that_says_where(
    run: Run, testing: TestServer, folder: Path, fields: Any, told: str
) -> None:
    before = len(testing.calls)
    path = written(folder, fields)
    result = run("call --program", path)
    assert (result.exit_code, result.output.count("\n")) == (2, 1), result.output
    assert result.output.startswith(f"aclgrad call: {path}: ")
    assert told in result.output
    assert len(testing.calls) == before


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "is no JSON (line 1, column 2)"),
        ("set -e", 'give a file like {"steps": [...]}: see'),
        ("[" * 100_000, "recursion"),
        ('{"steps": NaN}', "it has NaN, which is no number"),
        (b"\xff", "is no JSON: it is no text; give a file like"),
    ],
)
def test_what_is_no_json_has_one_line(run: Run, tmp_path: Path, content: str | bytes, told: str) -> None:
    path = tmp_path / "program.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    result = run("call --program", path)
    assert (result.exit_code, result.output.count("\n")) == (2, 1), result.output
    assert told in result.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("call", "--program", "{path}", "gelu_backward"), "leave out gelu_backward, or --program"),
        (("call", "--program", "{path}", "--want", "g"), "leave out --want, or --program"),
        (
            ("call", "--program", "{path}", "-o", "found.npy"),
            "found.npy holds one array, and there are norm.grad_input",
        ),
        (("bench", "--program", "{path}", "--size", "16 KB"), "leave out --size, or --program"),
        (("bench", "--program", "{path}", "--operator", "gelu_backward"), "leave out --operator, or --program"),
        (("bench", "--program", "nowhere.json"), "'nowhere.json' does not exist"),
    ],
)
def test_wrong_usage_is_told(run: Run, folder: Path, words: tuple[str, ...], told: str) -> None:
    path = written(folder, {"steps": STEPS})
    result = run("", *(each.format(path=path) for each in words), COLUMNS="200")
    assert (result.exit_code, told in result.output) == (2, True), result.output


def test_a_step_that_fails_is_named(run: Run, testing: TestServer, folder: Path) -> None:
    testing.fail(aclgrad.ServerFaultError("broken"))
    result = run("call --program", written(folder, {"steps": STEPS}))
    assert result.exit_code == 3
    assert "broken" in result.output


def test_bench_counts_programs_and_their_steps(run: Run, folder: Path) -> None:
    path = written(folder, {"steps": STEPS})
    result = run("bench --seconds 0.3 --callers 2 --json --program", path)
    told = json.loads(result.output)
    assert (result.exit_code, told["program"], told["steps"], told["errors"]) == (0, str(path), 3, {})
    assert told["answered"] > 0
    assert told["steps_per_s"] == pytest.approx(3 * told["calls_per_s"])
    assert "operator" not in told
    shown = run("bench --seconds 0.3 --program", path, COLUMNS="120").output.splitlines()[0].split()
    assert shown[:3] == ["calls", "calls/s", "steps/s"]
    assert told["flop_per_s"] is None  # there is no product
