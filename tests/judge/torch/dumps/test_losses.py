"""Losses whose recorded gradients are wrong as kernels of losses are: in their reduction, a row, an element."""

from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from torch import Tensor

from tests.judge.torch.dumps.test_unusual_calls import DATA
from tests.judge.torch.recording import Recording
from tests.judge.torch.running import judge

DTYPES: Final = (torch.float32, torch.float16, torch.bfloat16)
TARGET: Final = torch.tensor([3, -100, 0, 6, 2, 1, -100, 4])
IGNORED: Final = 1


def drawn(*shape: int, seed: int = 5) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


WORDS: Final = torch.tensor([[1, 2, 2], [3, 4, 0]]), [9, 8], [3, 2]
PIXELS: Final = drawn(2, 3, 4, 5).argmax(1)
CALLS: Final[dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]]] = {
    "classes": ("cross_entropy", (drawn(8, 7), TARGET), {}),
    "weighted classes": ("cross_entropy", (drawn(8, 7), TARGET, drawn(7).exp()), {}),
    "likelihoods": ("nll_loss", (drawn(8, 7).log_softmax(1), TARGET), {}),
    "pixels": ("nll_loss", (drawn(2, 3, 4, 5), PIXELS), {}),
    "squares": ("mse_loss", (drawn(8, 7), drawn(8, 7, seed=6)), {}),
    "sizes": ("l1_loss", (drawn(8, 7), drawn(8, 7, seed=6)), {}),
    "smooth sizes": ("smooth_l1_loss", (drawn(8, 7), drawn(8, 7, seed=6)), {"beta": 0.5}),
    "probabilities": ("binary_cross_entropy", (drawn(8, 7).sigmoid(), drawn(8, 7, seed=6).sigmoid()), {}),
    "logits": ("binary_cross_entropy_with_logits", (drawn(8, 7), drawn(8, 7, seed=6).sigmoid()), {}),
    "divergence": ("kl_div", (drawn(8, 7), drawn(8, 7, seed=6).softmax(1)), {"reduction": "sum"}),
    "sequences": ("ctc_loss", (drawn(9, 2, 5).log_softmax(2), *WORDS), {"reduction": "none"}),
}


def _one_percent(gradient: Tensor) -> Tensor:
    return gradient * 1.01


def _one_element(gradient: Tensor) -> Tensor:
    """Of bfloat16 by more than a unit in the last place."""
    wrong = gradient.clone().reshape(-1)
    wrong[wrong.abs().argmax()] *= 1.03 if gradient.dtype == torch.bfloat16 else 1.01
    return wrong.reshape(gradient.shape)


def _reduction(gradient: Tensor) -> Tensor:
    return gradient * gradient.shape[0]


def _ignored_row(gradient: Tensor) -> Tensor:
    wrong = gradient.clone()
    wrong[IGNORED] = gradient[IGNORED - 1]
    return wrong


FAULTS: Final = (_one_percent, _one_element, _reduction, _ignored_row)


@pytest.mark.filterwarnings("ignore:reduction:UserWarning")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sound_gradients_pass_and_wrong_ones_are_found(tmp_path: Path, dtype: torch.dtype) -> None:
    recording, expected = Recording(tmp_path / "dump"), {}
    numbers: Counter[str] = Counter()
    planted = []
    for name, (input, *rest), options in CALLS.values():
        if name == "ctc_loss" and dtype != torch.float32:
            continue
        args = [each.to(dtype) if isinstance(each, Tensor) and each.is_floating_point() else each for each in rest]
        for fault in (None, *FAULTS):
            call = f"Functional.{name}.{numbers[name]}"
            numbers[name] += 1
            leaf = input.to(dtype, copy=True).requires_grad_()
            recording.call(f"Functional.{name}", leaf, *args, **options).sum().backward()
            expected |= {f"{call}.forward": "passed", f"{call}.backward": "passed"}
            if fault:
                planted.append((call, fault))
    dump = recording.write()
    for call, fault in planted:
        path = tmp_path / "dump" / DATA / f"{call}.backward.output.0.pt"
        gradient = torch.load(path, weights_only=True)
        # The last step of some losses is a mean, whose rows are alike.
        if not torch.equal(wrong := fault(gradient), gradient):
            torch.save(wrong, path)
            expected[f"{call}.backward"] = "failed"
    assert judge(dump, tmp_path / "out").verdicts == expected
