"""`aclgrad call --bundle`, and the script in a bundle: the same call once more, and what has changed."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
from safetensors.numpy import load_file

import aclgrad
from aclgrad.judge.bundles import Bundle, JudgedProgram, write
from aclgrad.judge.findings.steps import judge_steps
from aclgrad.judge.programs.form import program_of
from aclgrad.judge.programs.judging import DEFINITION
from aclgrad.judge.programs.sending import send
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Tolerance
from aclgrad.products import Product
from aclgrad.testing import TestServer
from tests.bundled import EXPLODES, bundle_of, members_of, pack, typed_case, with_judged

from .conftest import Run

POOL = ("avg_pool2d_backward", "float32", "overlapping")
NORM = ("layer_norm_backward", "float32", "rows")
PADDED = {"kernel_size": (3, 3), "stride": (2, 2), "padding": (2, 2)}
FORMS: list[tuple[tuple[str, str, str], dict[str, Any]]] = [
    (POOL, {}),
    (POOL, {"shape_only": ("self",)}),
    (("layer_norm_backward", "bfloat16", "rows"), {}),
    (("layer_norm_backward", "float16", "no_weight"), {}),
    (NORM, {"outputs": ("grad_weight",)}),
    (("layer_norm_backward", "float32", "no_columns"), {}),
    (("batch_norm_backward", "float32", "no_weight"), {}),
    (("max_pool2d_with_mask_backward", "bfloat16", "overlapping_int64"), {}),
    (("reflection_pad1d_backward", "complex64", "two_around"), {}),
]
Make = Callable[..., Path]


@pytest.fixture
def make(testing: TestServer, tmp_path: Path) -> Make:
    """Writes the bundle of a sample call, with changes of its judged call."""

    def make(case: tuple[str, str, str] = POOL, *, options: Any = {}, **changes: Any) -> Path:  # noqa: B006 - is read
        path = tmp_path / "call.zip"
        with aclgrad.Client(testing.target) as client:
            write(path, with_judged(bundle_of(client, typed_case(*case), **options), **changes), overwrite=True)
        return path

    return make


@pytest.fixture
def of_program(testing: TestServer, tmp_path: Path) -> Make:
    """Writes the bundle of a program of two steps, of which the second has a view of what the first one returns."""

    def make(change: Callable[[np.ndarray], np.ndarray] = lambda gradient: gradient) -> Path:
        grad, x = (np.random.default_rng(seed).standard_normal((4, 8), np.float32) for seed in (0, 1))
        turned = {"step": 0, "view": {"shape": [8, 4], "strides": [1, 8]}}
        steps = [
            {"operator": "gelu_backward", "inputs": {"grad_output": "grad", "self": "x"}},
            {"operator": "tanh_backward", "inputs": {"grad_output": turned, "output": turned}},
        ]
        returned = [{"step": 0}, {"step": 1}]
        fields = {"steps": steps, "returned": returned}
        program, every = program_of(fields, {"grad": grad, "x": x}.__getitem__)
        with aclgrad.Client(testing.target) as client:
            found = {name: change(each) for name, each in send(client, program, every).items()}
            results = [{"grad_input": each} for each in found.values()]
            judged = judge_steps(program, results, Product.ATLAS_A2)
            held = JudgedProgram(program, every, found, judged.truths, DEFINITION, judged.tolerance)
            write(tmp_path / "call.zip", Bundle.of(held, "a finding", client.server_status()), overwrite=True)
        return tmp_path / "call.zip"

    return make


def off_by_half(gradient: np.ndarray) -> np.ndarray:
    return np.asarray(gradient * 1.5)


@pytest.mark.parametrize(("case", "options"), FORMS)
def test_a_right_gradient_passes_with_the_same_bits_and_with_others(
    run: Run, make: Make, case: Any, options: Any
) -> None:
    result = run("call --bundle", make(case, options=options))
    assert result.exit_code == 0, result.output
    verdict, bits, about = result.output.splitlines()
    assert verdict.startswith(f"passed   {case[0]}; error ")
    assert verdict.partition(";")[2].count(" of the limit") == 1
    assert bits == "bits     those of the bundle"
    assert about.startswith("bundle   a finding (910B, aclgrad.testing; 20")
    assert about.endswith("; judged by the definition)")
    if case[2] != "no_columns":
        result = run("call --json --bundle", make(case, options={"change": off_by_half, **options}))
        told = json.loads(result.output)
        assert (result.exit_code, told["verdict"], told["same_bits"]) == (0, "passed", False), told
        assert "elements differ, by up to" in told["difference"]
        assert told["figures"]["error_of_limit"] <= 1


def test_a_gradient_outside_the_tolerance_is_exit_code_1(run: Run, make: Make, tmp_path: Path) -> None:
    """The expected gradient of this bundle is another one, as if the server were wrong."""
    path = make(tolerance=Tolerance(0.0, 1e-3), expected={"grad_input": np.ones((2, 3, 9, 10))})
    output = tmp_path / "gradient.npy"
    result = run("call --bundle", path, "-o", output)
    assert result.exit_code == 1
    assert result.output.startswith("failed   avg_pool2d_backward; error ")
    assert "540 of 540 elements are outside the tolerance" in result.output
    assert "bits     those of the bundle\n" in result.output
    assert np.load(output).shape == (2, 3, 9, 10)
    told = json.loads(run("call --json --bundle", path).output)
    largest = np.abs(np.load(output).astype(np.float64) - 1).max()
    assert told["figures"]["error_of_limit"] == pytest.approx(largest / 1e-3)
    assert (told["same_bits"], told["bundle"]["finding"]) == (True, "a finding")
    assert told["bundle"]["server"]["product"] == "910B"


def test_each_step_of_a_program_is_judged_by_what_it_had_now(run: Run, of_program: Make, tmp_path: Path) -> None:
    """A server that gave other inputs to the second step is no reason to call another one wrong."""
    result = run("call --bundle", of_program())
    assert result.exit_code == 0, result.output
    verdict, bits, _ = result.output.splitlines()
    assert verdict.startswith("passed   program of 2 steps; error ")
    assert verdict.endswith(" of the limit; 2 outputs by their definitions")
    assert bits == "bits     those of the bundle"
    output = tmp_path / "found.npz"
    result = run("call --json --bundle", of_program(off_by_half), "-o", output)
    told = json.loads(result.output)
    assert (result.exit_code, told["steps"], told["verdict"], told["same_bits"]) == (0, 2, "passed", False)
    assert list(told["gradients"]) == ["0.grad_input", "1.grad_input"]


def test_several_gradients_are_written_by_name(run: Run, make: Make, tmp_path: Path) -> None:
    path = make(NORM)
    output = tmp_path / "gradients.safetensors"
    assert run("call --bundle", path, "-o", output).exit_code == 0
    assert sorted(load_file(output)) == ["grad_bias", "grad_input", "grad_weight"]
    assert run("call --force --bundle", path, "-o", output).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--bundle", "{bundle}", "avg_pool2d_backward"), "leave out avg_pool2d_backward, or --bundle"),
        (("--bundle", "{bundle}", "grad_output=1,2"), "leave out grad_output=1,2, or --bundle"),
        (("--bundle", "{bundle}", "--want", "grad_input"), "leave out --want, or --bundle"),
        (("--bundle", "{bundle}", "-o", "{output}"), "exists; give another file, or --force"),
        ((), "give OPERATOR NAME=VALUE..., --program FILE or --bundle FILE"),
        (("--bundle", "{bundle}", "--program", "{output}"), "leave out --program, or --bundle"),
        (("--bundle", "nowhere.zip"), "'nowhere.zip' does not exist"),
        (("--bundle", "{folder}"), "is a directory"),
        (("--bundle", "{output}"), "gradient.npy cannot be read as a bundle: it is no zip file"),
    ],
)
def test_wrong_usage_is_told(run: Run, make: Make, arguments: tuple[str, ...], told: str) -> None:
    path = make()
    words = {"bundle": path, "folder": path.parent, "output": path.with_name("gradient.npy")}
    words["output"].write_text("no bundle")
    result = run("call", *(each.format_map(words) for each in arguments), COLUMNS="200")
    assert (result.exit_code, told in result.output) == (2, True), result.output


@pytest.mark.parametrize(
    ("case", "changes", "told"),
    [
        (POOL, {"operator": "made_up_backward"}, "operator 'made_up_backward' is not known to this client"),
        (POOL, {"attributes": PADDED}, "attributes[padding]"),
        (POOL, {"attributes": {}}, "attributes[kernel_size] is missing"),
        (NORM, {"inputs": {"grad_output": "inputs.safetensors:grad_output"}}, "inputs[input] is missing"),
    ],
)
def test_a_bundle_that_cannot_be_called_is_refused(
    run: Run, testing: TestServer, make: Make, case: Any, changes: dict[str, Any], told: str
) -> None:
    path = make(case)
    members = members_of(path)
    fields = json.loads(members["program.json"])
    fields["steps"][0] |= changes
    pack(path, {**members, "program.json": json.dumps(fields).encode()})
    before = len(testing.calls)
    result = run("call --bundle", path)
    assert (result.exit_code, told in result.output) == (2, True), result.output
    assert len(testing.calls) == before


@pytest.mark.parametrize("expected", [np.ones((2, 3, 9, 11)), np.ones((2, 3, 9, 10), complex)])
def test_a_bundle_that_expects_other_gradients_is_refused(run: Run, make: Make, expected: np.ndarray) -> None:
    result = run("call --bundle", make(expected={"grad_input": expected}))
    assert result.exit_code == 2
    assert "not those that its steps return: grad_input float32[2, 3, 9, 10]" in result.output


def test_a_server_that_fails_is_exit_code_3(run: Run, testing: TestServer, make: Make) -> None:
    path = make()
    testing.fail(aclgrad.ServerFaultError("broken"))
    result = run("call --bundle", path)
    assert (result.exit_code, result.output) == (3, "aclgrad call: broken\n")


def test_a_terminal_gets_nothing_that_it_would_obey(run: Run, testing: TestServer, tmp_path: Path) -> None:
    path = tmp_path / "call.zip"
    with aclgrad.Client(testing.target) as client:
        bundle = bundle_of(client, typed_case(*POOL))
    write(path, replace(bundle, finding="\x1b]0;evil\x07\x1b[2J", server={"product": "\ud800\n", "soc": "\r"}))
    result = run("call --bundle", path)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[2].startswith("bundle   ?]0;evil??[2J (??, ?; 20")


def test_nothing_in_a_bundle_is_run(run: Run, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make()
    pack(path, {**members_of(path), "repeat.py": EXPLODES})
    monkeypatch.chdir(tmp_path)
    assert run("call --bundle", path).exit_code == 0
    assert [each.name for each in tmp_path.iterdir()] == ["call.zip"]


def repeat(path: Path, target: str) -> subprocess.CompletedProcess[str]:
    folder = path.parent / "unpacked"
    with ZipFile(path) as archive:
        archive.extractall(folder)
    # Warnings are errors: nobody should see them.
    command = [sys.executable, "-W", "error", str(folder / "repeat.py"), target]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(("case", "options"), [FORMS[number] for number in (1, 2, 4)])
def test_the_script_repeats_the_call(testing: TestServer, make: Make, case: Any, options: Any) -> None:
    done = repeat(make(case, options=options), testing.target)
    assert (done.returncode, done.stderr) == (0, "")
    names = [each.name for each in OPERATORS[case[0]].outputs]
    told = r": 0 of \d+ elements are outside the tolerance; the same bits as in the bundle\n"
    assert re.fullmatch("".join(each + told for each in options.get("outputs", names)), done.stdout)


def test_the_script_repeats_a_program(testing: TestServer, of_program: Make) -> None:
    done = repeat(of_program(), testing.target)
    told = r"%s.grad_input: 0 of 32 elements are outside the tolerance; the same bits as in the bundle\n"
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(told % 0 + told % 1, done.stdout)
    # The second step is expected to use what the bundle has of the first one.
    done = repeat(of_program(off_by_half), testing.target)
    assert done.returncode == 1
    assert "1.grad_input: 0 of" not in done.stdout


def test_the_script_says_what_is_wrong(testing: TestServer, make: Make) -> None:
    path = make(expected={"grad_input": np.ones((2, 3, 9, 10))}, options={"change": off_by_half})
    done = repeat(path, testing.target)
    told = "grad_input: 540 of 540 elements are outside the tolerance; other bits than in the bundle\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, told, "")


def test_the_script_in_a_bundle_is_the_module_of_the_package(make: Make) -> None:
    source = Path(aclgrad.__file__).parent / "judge/bundles/repeat.py"
    assert members_of(make())["repeat.py"] == source.read_bytes()
