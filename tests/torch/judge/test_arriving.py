"""Gradients that a dump has only where they arrive: those of linear layers over three axes."""

from pathlib import Path

import pytest
import torch

from aclgrad.judge.arriving import with_arriving
from aclgrad.judge.judging import Judge
from aclgrad.judge.records import LAST_STEP, CallRow
from aclgrad.judge.source import Source
from aclgrad.judgement.rows import Verdict
from aclgrad.msprobe.dump import find_dumps
from tests.torch.recording import Recording


def recorded(folder: Path, *, is_all_recorded: bool = True, losses: int = 1) -> Path:
    """Records an activation whose result two linear layers use, and perhaps a third one that the dump lacks."""
    torch.manual_seed(0)
    recording = Recording(folder)
    x, w, v = (torch.randn(shape, requires_grad=True) for shape in ((2, 5, 8), (6, 8), (6, 8)))
    b = torch.randn(6, requires_grad=True)
    hidden = recording.call("Functional.silu", x)
    outputs = [recording.call("Functional.linear", hidden, each, b) for each in (w, v)]
    product = recording.call("Tensor.__mul__", *outputs)
    result = sum(recording.call("Tensor.sum", product) for _ in range(losses))
    if not is_all_recorded:
        result = result + hidden[:, 0].square().sum()
    result.backward()
    recording.write()
    return folder


def judged(folder: Path) -> dict[str, CallRow]:
    source = Source.of(find_dumps(folder)[0])
    rows = [row for call in source.calls() if not isinstance(call, CallRow) for row in Judge().rows(call)]
    return {row.name: row for row in with_arriving(source, rows)}


def scale(folder: Path, name: str, factor: float) -> None:
    path = folder / "dump_tensor_data" / f"{name}.pt"
    torch.save(torch.load(path, weights_only=True) * factor, path)


LAYERS = ("Functional.linear.0.backward", "Functional.linear.1.backward")
ARRIVES = "gradient that arrives at Functional.silu.0.backward"


def test_the_sum_over_all_uses_is_judged_where_it_arrives(tmp_path: Path) -> None:
    rows = judged(recorded(tmp_path))
    assert {row.verdict for row in rows.values()} == {Verdict.PASSED}
    for layer in LAYERS:
        assert ARRIVES in [tensor.name for tensor in rows[layer].tensors]
        assert LAST_STEP not in rows[layer].message


@pytest.mark.parametrize("factor", [1.01, 0.999])
def test_a_factor_near_one_has_failed(tmp_path: Path, factor: float) -> None:
    scale(recorded(tmp_path), "Functional.silu.0.backward.input.0", factor)
    rows = judged(tmp_path)
    assert [rows[layer].verdict for layer in LAYERS] == [Verdict.FAILED] * 2
    worst = rows[LAYERS[0]].worst
    assert worst is not None
    assert f"all together are {factor}" in worst[2].message


@pytest.mark.parametrize("factor", [0.0, float("nan")])
def test_what_no_missing_use_explains_has_failed(tmp_path: Path, factor: float) -> None:
    scale(recorded(tmp_path), "Functional.silu.0.backward.input.0", factor)
    rows = judged(tmp_path)
    assert [rows[layer].verdict for layer in LAYERS] == [Verdict.FAILED] * 2


def test_a_factor_is_noted_where_another_backward_pass_may_explain_it(tmp_path: Path) -> None:
    scale(recorded(tmp_path, losses=2), "Functional.silu.0.backward.input.0", 1.01)
    rows = judged(tmp_path)
    assert [rows[layer].verdict for layer in LAYERS] == [Verdict.NOTED] * 2


def test_one_wrong_element_is_noted(tmp_path: Path) -> None:
    path = recorded(tmp_path) / "dump_tensor_data" / "Functional.silu.0.backward.input.0.pt"
    gradient = torch.load(path, weights_only=True)
    gradient[0, 0, 0] += 1
    torch.save(gradient, path)
    rows = judged(tmp_path)
    assert [rows[layer].verdict for layer in LAYERS] == [Verdict.NOTED] * 2


def test_a_use_that_the_dump_lacks_is_noted_and_no_failure(tmp_path: Path) -> None:
    rows = judged(recorded(tmp_path, is_all_recorded=False))
    assert [rows[layer].verdict for layer in LAYERS] == [Verdict.NOTED] * 2
    assert "a use is missing" in rows[LAYERS[0]].message


@pytest.mark.parametrize("seed", range(6))
def test_pytorch_s_own_errors_in_16_bits_are_no_failure(tmp_path: Path, seed: int) -> None:
    torch.manual_seed(seed)
    recording = Recording(tmp_path)
    x, w = (torch.randn(shape).bfloat16().requires_grad_() for shape in ((8, 12), (10, 12)))
    scores = recording.call("Functional.linear", x, w)
    recording.call("Functional.cross_entropy", scores, torch.randint(10, (8,))).backward()
    recording.write()
    assert {row.verdict for row in judged(tmp_path).values()} == {Verdict.PASSED}
    scale(tmp_path, "Functional.linear.0.backward.input.0", 1.05)
    assert judged(tmp_path)["Functional.cross_entropy.0.backward"].verdict is Verdict.FAILED


def test_without_the_call_that_made_the_argument_only_the_last_step_is_judged(tmp_path: Path) -> None:
    torch.manual_seed(0)
    recording = Recording(tmp_path)
    x, w = torch.randn(2, 5, 8, requires_grad=True), torch.randn(6, 8, requires_grad=True)
    recording.call("Functional.linear", x, w, torch.randn(6, requires_grad=True)).sum().backward()
    recording.write()
    row = judged(tmp_path)["Functional.linear.0.backward"]
    assert row.verdict is Verdict.PASSED
    assert row.message == LAST_STEP
