"""Calls that are unlike others: random, in place, recomputed, under autocast, of other layouts or custom functions."""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.judge.torch.recording import Recording
from tests.judge.torch.running import judge

DATA = "dump_tensor_data"


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    torch.manual_seed(7)
    return Recording(tmp_path / "dump")


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, requires_grad=True)


def verdicts(recording: Recording, tmp_path: Path) -> dict[str, str]:
    """Returns the verdicts, or the reasons of those that were not judged."""
    dump = recording.write()
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    found = judge(dump, tmp_path / "out")
    return found.verdicts | found.reasons


@pytest.mark.parametrize(
    ("api", "args", "options"),
    [
        ("Torch.bernoulli", (torch.full((6, 8), 0.5),), {}),
        ("Tensor.multinomial", (torch.rand(6, 8), 3), {}),
        ("Functional.rrelu", (torch.ones(6, 8), 0.1, 0.3, True), {}),
        ("Functional.scaled_dot_product_attention", (torch.ones(2, 3, 4),) * 3, {"dropout_p": 0.5}),
    ],
)
def test_random_calls_are_named(
    recording: Recording, tmp_path: Path, api: str, args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    recording.call(api, *args, **options)
    assert verdicts(recording, tmp_path) == {f"{api}.0.forward": "it draws random numbers"}


def _scaled(result: Tensor) -> Tensor:
    return result * 1.01


def _more_dropped(result: Tensor) -> Tensor:
    return torch.where(torch.arange(result.numel()).reshape(result.shape) % 3 > 0, result, 0.0)


def _tail_dropped(result: Tensor) -> Tensor:
    return torch.cat([result[:-8], torch.zeros_like(result[-8:])])


@pytest.mark.parametrize("wrong", [_scaled, _more_dropped, _tail_dropped])
def test_dropout_is_judged_by_what_it_kept(
    recording: Recording, tmp_path: Path, wrong: Callable[[Tensor], Tensor]
) -> None:
    recording.call("Functional.dropout", drawn(32, 40), 0.3, True).square().sum().backward()
    assert set(verdicts(recording, tmp_path).values()) == {"passed"}
    path = tmp_path / "dump" / DATA / "Functional.dropout.0.forward.output.0.pt"
    torch.save(wrong(torch.load(path, weights_only=True)), path)
    assert verdicts(recording, tmp_path)["Functional.dropout.0.forward"] == "failed"


def packed(kept: Tensor) -> Tensor:
    """Returns a card's mask: a bit for each element, in blocks of 16 bytes."""
    bits = np.packbits(kept.numpy(), bitorder="little")
    return torch.from_numpy(np.pad(bits, (0, -len(bits) % 16)))


class OfCard(torch.autograd.Function):
    """A dropout that keeps these elements, and multiplies them by a factor."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, kept: Tensor, factor: float) -> Tensor:
        ctx.factors = kept * factor
        return (input.float() * ctx.factors).to(input.dtype)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        return (grad_output.float() * ctx.factors).to(grad_output.dtype), None, None


@pytest.mark.parametrize("api", ["Functional.dropout", "Torch.native_dropout", "NPU._npu_dropout"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_cards_may_round_what_dropout_divides_by(
    recording: Recording, tmp_path: Path, api: str, dtype: torch.dtype
) -> None:
    input = torch.randn(32, 40, dtype=dtype)
    kept = torch.rand(32, 40) > 0.1
    mask = packed(kept) if "npu" in api else kept
    scale = 1 / float(torch.tensor(0.9, dtype=dtype))

    options = {} if "npu" in api else {"train": True} if "native" in api else {"training": True}
    for factor in (scale, 1.01 * scale):

        def card(input: Tensor, *_: Any, factor: float = factor, **__: Any) -> Any:
            result = OfCard.apply(input, kept, factor)
            return result if "Functional" in api else (result, mask)

        found = recording.call(api, input.clone().requires_grad_(), 0.1, function=card, **options)
        (found[0] if isinstance(found, tuple) else found).backward(torch.randn(32, 40, dtype=dtype))
    told = verdicts(recording, tmp_path)
    right = {"forward": "passed", "backward": "passed"}
    wrong = dict.fromkeys(right, "failed")
    assert told == {f"{api}.{n}.{each}": verdict for n, of in enumerate((right, wrong)) for each, verdict in of.items()}


KEPT = torch.rand(6, 8, generator=torch.Generator().manual_seed(3)) > 0.3
ROWS = torch.randn(6, 8, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize(
    ("api", "args", "options", "right"),
    [
        ("kl_div_backward", (torch.ones(()), ROWS, ROWS), {"log_target": True}, -ROWS.exp() / 48),
        ("l1_loss_backward", (torch.ones(()), ROWS, ROWS.flip(0), 2), {}, (ROWS - ROWS.flip(0)).sign()),
        (
            "npu_binary_cross_entropy_with_logits_backward",
            (torch.ones(()), ROWS, KEPT.float(), None, torch.tensor(2.0), 1),
            {},
            ((1 + KEPT.float()) * ROWS.sigmoid() - 2 * KEPT.float()) / 48,
        ),
        ("npu_dropout_backward", (ROWS, packed(KEPT), 0.3), {}, ROWS * KEPT / 0.7),
        ("npu_mish", (ROWS,), {}, ROWS * ROWS.exp().log1p().tanh()),
        ("npu_silu", (ROWS,), {}, ROWS * ROWS.sigmoid()),
    ],
)
def test_functions_of_torch_npu_are_judged(
    recording: Recording, tmp_path: Path, api: str, args: tuple[Any, ...], options: dict[str, Any], right: Tensor
) -> None:
    name = f"NPU.{api}"
    for result in (right, right * 1.01):
        recording.call(name, *args, function=lambda *_, result=result, **__: result, **options)
    assert verdicts(recording, tmp_path) == {f"{name}.0.forward": "passed", f"{name}.1.forward": "failed"}


def test_cross_entropy_of_torch_npu_is_judged_with_its_gradient(recording: Recording, tmp_path: Path) -> None:
    """It also returns two empty tensors."""

    def card(logits: Tensor, *args: Any, **options: Any) -> Any:
        loss = functional.cross_entropy(logits, *args, **options)
        return loss, torch.log_softmax(logits.detach(), -1), torch.empty(0), torch.empty(0)

    name = "NPU.npu_cross_entropy_loss"
    target = torch.tensor([1, 7, 0, 2, 3, -100])
    recording.call(name, ROWS.clone().requires_grad_(), target, function=card, label_smoothing=0.1)[0].backward()
    found = verdicts(recording, tmp_path)
    assert found[f"{name}.0.backward"] == "passed"
    assert "output.2 is not judged" in found[f"{name}.0.forward"] or found[f"{name}.0.forward"] == "noted"


def test_an_input_that_was_recorded_late_is_no_failure(recording: Recording, tmp_path: Path) -> None:
    recording.call("Tensor.add_", drawn(6, 8).clone(), drawn(6, 8)).sum().backward()
    assert set(verdicts(recording, tmp_path).values()) == {"passed"}
    data = tmp_path / "dump" / DATA
    name = "Tensor.add_.0.forward"
    shutil.copy(data / f"{name}.output.0.pt", data / f"{name}.input.0.pt")
    assert "recorded after the call had changed it" in verdicts(recording, tmp_path)[name]


def test_a_call_that_returns_its_input_has_the_gradients_of_the_call_before(
    recording: Recording, tmp_path: Path
) -> None:
    product = recording.call("Torch.mm", drawn(6, 8), drawn(8, 5))
    same = recording.call("Functional.dropout", product, 0.3, False)
    assert same is product
    same.sum().backward()
    found = verdicts(recording, tmp_path)
    assert "returns its argument as it is" in found.pop("Functional.dropout.0.backward")
    assert set(found.values()) == {"passed"}
    assert len(found) == 3


def test_a_call_that_returns_nothing_is_named(recording: Recording, tmp_path: Path) -> None:
    recording.call("Tensor.__setitem__", torch.zeros(6, 8), (..., slice(2, 4)), torch.ones(6, 2))
    (reason,) = verdicts(recording, tmp_path).values()
    assert "returns no tensor" in reason


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_recomputed_calls_are_judged_as_far_as_they_went(
    recording: Recording, tmp_path: Path, use_reentrant: bool
) -> None:
    def layer(x: Tensor) -> Tensor:
        hidden: Tensor = recording.call("Functional.silu", x)
        result: Tensor = recording.call("Torch.exp", hidden)
        return result

    checkpoint(layer, drawn(6, 8), use_reentrant=use_reentrant).sum().backward()
    found = verdicts(recording, tmp_path)
    # Recomputation stops as soon as it has all that the backward pass needs.
    if not use_reentrant:
        assert "it was computed again" in found.pop("Torch.exp.1.forward")
    assert set(found.values()) == {"passed"}
    assert sum(name.endswith(".backward") for name in found) == 2


def test_calls_inside_of_custom_functions_are_judged(recording: Recording, tmp_path: Path) -> None:
    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            result: Tensor = recording.call("Torch.sin", x)
            return result

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Tensor:
            return gradients[0] * recording.call("Torch.cos", ctx.saved_tensors[0])

    x = recording.call("Functional.silu", drawn(6, 8))
    Sine.apply(x).sum().backward()
    found = verdicts(recording, tmp_path)
    assert set(found.values()) == {"passed"}
    assert sum(name.endswith(".backward") for name in found) == 1


def test_autocast_is_seen_in_the_dtypes(recording: Recording, tmp_path: Path) -> None:
    image, kernel, offset = drawn(2, 3, 8, 8), drawn(4, 3, 3, 3), drawn(4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = recording.call("Functional.conv2d", image, kernel, offset)
        hidden = recording.call("Functional.relu", hidden, inplace=True)
        hidden = recording.call("Functional.conv2d", hidden, drawn(5, 4, 3, 3), None, 1, 1)
        rows = hidden.flatten(2).mean(-1)
        scores = recording.call("Functional.linear", rows, drawn(7, 5), drawn(7))
        loss = recording.call("Functional.cross_entropy", scores, torch.tensor([3, 6]))
    loss.backward()
    found = verdicts(recording, tmp_path)
    assert set(found.values()) == {"passed"}
    assert len(found) == 10


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_linear_layer_of_a_transposed_input_rounds_before_its_bias(
    recording: Recording, tmp_path: Path, dtype: torch.dtype
) -> None:
    x, w, b = (drawn(*shape).to(dtype) for shape in ((9, 3, 16), (12, 16), (12,)))
    recording.call("Functional.linear", x.transpose(0, 1), w, b).square().sum().backward()
    assert set(verdicts(recording, tmp_path).values()) == {"passed"}


@pytest.mark.filterwarnings("ignore:_aminmax is deprecated")
@pytest.mark.parametrize(
    ("api", "call"),
    [
        ("Functional.logsigmoid", lambda call: call(drawn(6, 8))),
        ("Tensor.new_zeros", lambda call: call(drawn(6, 8), (2, 3))),
        ("Tensor.new_ones", lambda call: call(drawn(6, 8), (2, 3), dtype=torch.int64)),
        ("Tensor.new_full", lambda call: call(drawn(6, 8), (2, 3), 0.5)),
        ("Torch._aminmax", lambda call: call(torch.randn(6, 8))),
        (
            "Torch._convolution",
            lambda call: call(
                *(drawn(*shape) for shape in ((2, 3, 8, 8), (4, 3, 3, 3), (4,))),
                *([1, 1], [1, 1], [1, 1], False, [0, 0], 1, False, False, True, True),
            ),
        ),
        (
            "Torch._batch_norm_impl_index",
            lambda call: call(
                *(drawn(*shape) for shape in ((6, 8, 4), (8,), (8,))),
                *(torch.zeros(8), torch.ones(8), True, 0.1, 1e-5, False),
            ),
        ),
    ],
)
def test_calls_below_public_functions_are_judged(
    recording: Recording, tmp_path: Path, api: str, call: Callable[[Callable[..., Any]], Any]
) -> None:
    result = call(partial(recording.call, api))
    first = result[0] if isinstance(result, tuple) else result
    if first.requires_grad:
        first.square().sum().backward()
    found = verdicts(recording, tmp_path)
    assert found == dict.fromkeys(found, "passed")
    assert len(found) == 1 + first.requires_grad


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda output: [None, output[1]], "the dump lacks gradient.0, of shape 6x8"),
        (lambda output: [output[0], None], "the dump lacks gradient.1, of shape 8x5"),
        (lambda output: output[1:], "it lacks a gradient of shape 6x8"),
        (lambda output: [*output, output[0]], "it has one of shape 6x8 more"),
        (lambda output: output[::-1], "gradient.0 has shape 8x5 instead of 6x8"),
    ],
)
def test_gradients_that_do_not_fit_are_named(
    recording: Recording, tmp_path: Path, change: Callable[[list[Any]], list[Any]], reason: str
) -> None:
    recording.call("Torch.mm", drawn(6, 8), drawn(8, 5)).square().sum().backward()
    path = recording.write()
    dump = json.loads(path.read_text())
    entry = dump["data"]["Torch.mm.0.backward"]
    entry["output"] = change(entry["output"])
    path.write_text(json.dumps(dump))
    assert reason in judge(path, tmp_path / "out").reasons["Torch.mm.0.backward"]
