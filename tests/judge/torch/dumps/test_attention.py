"""Attention of torch_npu in dumps: judged by the definition, with planted errors found, and refused by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.judge.torch.recording import Recording
from tests.judge.torch.running import drawn, judge, plant

NAME = "NPU.npu_fusion_attention"
DTYPES = (torch.float32, torch.bfloat16)
TRIANGLE = torch.ones(2048, 2048, dtype=torch.bool).triu(1)
LAYOUTS = ("BNSD", "BSND", "BSH", "SBH")


def laid_out(heads: Tensor, layout: str) -> Tensor:
    found = heads.permute(*map("BNSD".index, layout.replace("H", "ND")))
    return (found.flatten(2) if "H" in layout else found).contiguous()


def heads_of(tensor: Tensor, layout: str, heads: int) -> Tensor:
    split = tensor.unflatten(2, (heads, -1)) if "H" in layout else tensor
    return split.permute(*map(layout.replace("H", "ND").index, "BNSD"))


def card(layout: str, heads: int, shared: int, hidden: Tensor | None, scale: float, bias: Tensor | None = None) -> Any:
    """Returns the function by PyTorch's products and softmax, as a card would record it: the gradients at once."""

    class Fused(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *tensors: Tensor) -> Any:
            ctx.save_for_backward(*tensors)
            wide = [each.double() for each in tensors]
            result, most, sums = attention(*wide)
            ctx.mark_non_differentiable(most, sums)
            return result.to(tensors[0].dtype), most, sums

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Any:
            leaves = [each.detach().double().requires_grad_() for each in ctx.saved_tensors]
            with torch.enable_grad():
                result = attention(*leaves)[0]
            found = torch.autograd.grad(result, leaves, gradients[0].double())
            return tuple(each.to(gradients[0].dtype) for each in found)

    def attention(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        parts = zip((query, key, value), (heads, shared, shared), strict=True)
        q, k, v = (heads_of(each, layout, count) for each, count in parts)
        k, v = (each.repeat_interleave(heads // shared, 1) for each in (k, v))
        scores = (q @ k.mT + (0 if bias is None else bias)) * scale
        if hidden is not None:
            scores = scores.masked_fill(hidden, -torch.inf)
        result = laid_out(scores.softmax(-1) @ v, layout)
        most = scores.amax(-1, keepdim=True)
        sums = (scores - most).exp().sum(-1, keepdim=True)
        return result, *(each.detach().float().expand(*each.shape[:-1], 8).contiguous() for each in (most, sums))

    def call(query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> Any:
        return *Fused.apply(query, key, value), torch.empty(0, dtype=query.dtype), 0, 0, 0

    return call


def add(
    recording: Recording,
    layout: str,
    dtype: torch.dtype,
    *,
    shared: int = 4,
    keys: int = 20,
    hidden: Tensor | None = None,
    bias: Tensor | None = None,
    **options: Any,
) -> None:
    """Records a call of four heads with 20 queries of 16 elements."""
    sizes = (2, 4, 20, 16), (2, shared, keys, 16), (2, shared, keys, 16), (2, 4, 20, 16)
    query, key, value, gradient = (laid_out(drawn(*each), layout).to(dtype) for each in sizes)
    leaves = [each.requires_grad_() for each in (query, key, value)]
    function = card(layout, 4, shared, hidden, 0.25, bias)
    found = recording.call(NAME, *leaves, 4, layout, scale=0.25, function=function, **options)
    found[0].backward(gradient)


def dump(folder: Path, dtype: torch.dtype) -> Path:
    """Records every layout and every mask."""
    recording = Recording(folder)
    for layout in LAYOUTS:
        add(recording, layout, dtype, shared=2, keys=17)
    mask = ~torch.ones(20, 20, dtype=torch.bool).tril()
    padding = (torch.arange(20) > 12).expand(2, 1, 20, 20)
    add(recording, "BNSD", dtype, hidden=mask, atten_mask=mask, next_tockens=0)
    add(recording, "BSH", dtype, hidden=padding, atten_mask=padding.to(torch.uint8), sparse_mode=1)
    add(recording, "BSND", dtype, hidden=mask, atten_mask=TRIANGLE, sparse_mode=2, next_tockens=0)
    late = ~torch.ones(20, 25, dtype=torch.bool).tril(5)
    add(recording, "SBH", dtype, keys=25, hidden=late, atten_mask=TRIANGLE, sparse_mode=3, next_tockens=0)
    bias = drawn(1, 4, 20, 20).to(dtype)
    add(recording, "BNSD", dtype, bias=bias, pse=bias)
    return recording.write()


CALLS = 9


@pytest.mark.parametrize("dtype", DTYPES)
def test_attention_of_torch_npu_is_judged_with_its_gradients(tmp_path: Path, dtype: torch.dtype) -> None:
    found = judge(dump(tmp_path / "dump", dtype), tmp_path / "out", "--require-all")
    assert found.exit_code == 0, found.output
    assert set(found.verdicts.values()) <= ({"passed", "noted"} if dtype == torch.bfloat16 else {"passed"})
    assert len(found.verdicts) == 2 * CALLS
    sides = found.sides("training")
    assert len(sides) == CALLS * (4 + 3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_error_of_one_percent_is_found_in_each_gradient_and_result(tmp_path: Path, dtype: torch.dtype) -> None:
    path = dump(tmp_path / "dump", dtype)
    wrong = set()
    tensors = [f"backward.output.{number}" for number in range(3)] + ["forward.output.0", "forward.output.2"]
    for number, tensor in enumerate(tensors):
        plant(tmp_path / "dump", f"{NAME}.{number}.{tensor}", 1.01)
        wrong.add(f"{NAME}.{number}.{tensor.split('.')[0]}")
    plant(tmp_path / "dump", f"{NAME}.6.backward.output.1", 1.01)
    found = judge(path, tmp_path / "out")
    failed = {name for name, verdict in found.verdicts.items() if verdict == "failed"}
    assert failed == wrong | {f"{NAME}.6.backward"}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "dropout": ({"keep_prob": 0.9}, "keep_prob is 0.9, and a dump does not have what a device drops"),
    "sequences": ({"actual_seq_qlen": [20, 40]}, "its input_layout is TND, and not one of BNSD, BSND, BSH, SBH"),
    "band": ({"sparse_mode": 4, "atten_mask": TRIANGLE}, "sparse_mode 4 shows a band; modes 0 to 3 are judged"),
    "prefixes": ({"sparse_mode": 6, "prefix": [3, 4]}, "sparse_mode 6 shows prefixes; modes 0 to 3 are judged"),
    "mask": ({"sparse_mode": 2, "atten_mask": TRIANGLE.mT.contiguous()}, "its atten_mask is not the triangle of 2048"),
    "tokens": (
        {"pre_tockens": 3, "atten_mask": torch.zeros(20, 20, dtype=torch.bool)},
        "pre_tockens and next_tockens leave out keys that atten_mask shows",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_judged_is_told_by_name(tmp_path: Path, name: str) -> None:
    options, reason = REFUSED[name]
    recording = Recording(tmp_path / "dump")
    query, result = drawn(2, 4, 20, 16, grad=True), drawn(2, 4, 20, 16)
    if name == "sequences":
        query, result = (each.detach().flatten(0, 1)[:, :4].contiguous() for each in (query, result))

    def function(*_: Any, **__: Any) -> Tensor:
        return result

    recording.call(NAME, query, query, query, 4, "TND" if name == "sequences" else "BNSD", function=function, **options)
    (told,) = judge(recording.write(), tmp_path / "out").reasons.values()
    assert told.startswith(reason)


def test_a_gradient_of_pse_is_told_to_be_none_that_a_device_computes(tmp_path: Path) -> None:
    recording, bias = Recording(tmp_path / "dump"), drawn(1, 4, 20, 20)
    add(recording, "BNSD", torch.float32, bias=bias, pse=bias.clone().requires_grad_())
    reasons = set(judge(recording.write(), tmp_path / "out").reasons.values())
    assert reasons == {"pse needs a gradient, which no device computes"}


def test_attention_of_pytorch_with_masks_and_shared_keys_is_judged(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "dump")
    tensors = [drawn(*shape, grad=True) for shape in ((2, 4, 9, 8), (2, 2, 7, 8), (2, 2, 7, 8))]
    options: list[dict[str, Any]] = [
        {"enable_gqa": True},
        {"enable_gqa": True, "attn_mask": torch.rand(2, 1, 9, 7) > 0.3, "scale": 0.5},
        {"enable_gqa": True, "is_causal": True},
        {"enable_gqa": True, "attn_mask": drawn(9, 7)},
    ]
    api = "Functional.scaled_dot_product_attention"
    function: Callable[..., Tensor] = functional.scaled_dot_product_attention
    for each in options:
        recording.call(api, *tensors, function=function, **each).backward(drawn(2, 4, 9, 8))
    found = judge(recording.write(), tmp_path / "out")
    assert set(found.verdicts.values()) == {"passed"}
    plant(tmp_path / "dump", f"{api}.1.backward.output.1", 1.01)
    found = judge(tmp_path / "dump" / "dump.json", tmp_path / "again")
    assert {name for name, verdict in found.verdicts.items() if verdict == "failed"} == {f"{api}.1.backward"}


@pytest.mark.parametrize("is_rounded", [True, False], ids=["autocast", "PyTorch"])
def test_a_wider_mask_may_have_been_rounded_or_not(tmp_path: Path, is_rounded: bool) -> None:
    """A dump has the arguments before autocast."""
    recording = Recording(tmp_path / "dump")
    tensors = [drawn(2, 4, 64, 16, dtype=torch.bfloat16, grad=True) for _ in range(3)]
    mask = 300 - torch.arange(64)[None] * 0.37

    def attention(*given: Tensor, attn_mask: Tensor) -> Tensor:
        mask = attn_mask.bfloat16() if is_rounded else attn_mask
        return functional.scaled_dot_product_attention(*given, attn_mask=mask)

    api = "Functional.scaled_dot_product_attention"
    recording.call(api, *tensors, function=attention, attn_mask=mask).backward(drawn(2, 4, 64, 16).bfloat16())
    assert set(judge(recording.write(), tmp_path / "out").verdicts.values()) == {"passed"}
    plant(tmp_path / "dump", f"{api}.0.backward.output.1", 1.1)
    plant(tmp_path / "dump", f"{api}.0.forward.output.0", 1.1)
    assert set(judge(tmp_path / "dump" / "dump.json", tmp_path / "again").verdicts.values()) == {"failed"}
