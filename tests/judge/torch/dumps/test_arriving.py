"""Gradients that a dump has only where they arrive: those of linear layers over three axes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from aclgrad.judge.dumps.arriving import with_arriving
from aclgrad.judge.dumps.judging import Judge
from aclgrad.judge.dumps.recorded import Source
from aclgrad.judge.dumps.records import LAST_STEP, CallRow
from aclgrad.judge.findings.rows import Verdict
from aclgrad.judge.msprobe.dump import find_dumps
from tests.judge.torch.recording import Recording


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


def changed(folder: Path, name: str, change: Callable[[Tensor], Tensor]) -> None:
    path = folder / "dump_tensor_data" / f"{name}.pt"
    torch.save(change(torch.load(path, weights_only=True)), path)


LAYERS = ("Functional.linear.0.backward", "Functional.linear.1.backward")
ARRIVES = "gradient that arrives at Functional.silu.0.backward"


def test_the_sum_over_all_uses_is_judged_where_it_arrives(tmp_path: Path) -> None:
    rows = judged(recorded(tmp_path))
    assert {row.verdict for row in rows.values()} == {Verdict.PASSED}
    for layer in LAYERS:
        assert ARRIVES in [tensor.name for tensor in rows[layer].tensors]
        assert LAST_STEP not in rows[layer].message


def one_more(gradient: Tensor) -> Tensor:
    gradient[0, 0, 0] += 1
    return gradient


@pytest.mark.parametrize(
    ("change", "options", "verdict", "message"),
    [
        (lambda each: each * 1.01, {}, Verdict.FAILED, "all together are 1.01"),
        (lambda each: each * 0.999, {}, Verdict.FAILED, "all together are 0.999"),
        (lambda each: each * 0.0, {}, Verdict.FAILED, ""),
        (lambda each: each * torch.nan, {}, Verdict.FAILED, ""),
        # Another backward pass may explain it.
        (lambda each: each * 1.01, {"losses": 2}, Verdict.NOTED, ""),
        (one_more, {}, Verdict.NOTED, ""),
        (lambda each: each, {"is_all_recorded": False}, Verdict.NOTED, "a use is missing"),
    ],
)
def test_another_gradient_fails_if_no_missing_use_explains_it(
    tmp_path: Path, change: Callable[[Tensor], Tensor], options: dict[str, Any], verdict: Verdict, message: str
) -> None:
    changed(recorded(tmp_path, **options), "Functional.silu.0.backward.input.0", change)
    rows = judged(tmp_path)
    assert [rows[layer].verdict for layer in LAYERS] == [verdict] * 2
    assert rows[LAYERS[0]].worst is not None
    assert message in rows[LAYERS[0]].worst[2].message + rows[LAYERS[0]].message


@pytest.mark.parametrize("seed", range(3))
def test_pytorch_s_own_errors_in_16_bits_are_no_failure(tmp_path: Path, seed: int) -> None:
    torch.manual_seed(seed)
    recording = Recording(tmp_path)
    x, w = (torch.randn(shape).bfloat16().requires_grad_() for shape in ((8, 12), (10, 12)))
    scores = recording.call("Functional.linear", x, w)
    recording.call("Functional.cross_entropy", scores, torch.randint(10, (8,))).backward()
    recording.write()
    assert {row.verdict for row in judged(tmp_path).values()} == {Verdict.PASSED}
    changed(tmp_path, "Functional.linear.0.backward.input.0", lambda each: each * 1.05)
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
