"""The dump of the sample cases, without PyTorch: names, files, and what is refused and why."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aclgrad.judge.check import exports as module
from aclgrad.judge.check.exports import Exported, exported, write_dump
from aclgrad.operators.cases import typed_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import OperatorKind
from aclgrad.products import Product

PRODUCTS = [product for product in Product if any(product in spec.products for spec in OPERATORS.values())]


@pytest.fixture
def without_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "torch", None)


def dumped(folder: Path, cases: list[Exported]) -> tuple[dict[str, Any], tuple[int, int]]:
    counts = write_dump(folder, cases)
    return json.loads((folder / "dump.json").read_text()), counts


def files_of(entries: Any) -> list[dict[str, Any]]:
    """Returns the tensors of the entries, which may be nested."""
    if isinstance(entries, list):
        return [each for entry in entries for each in files_of(entry)]
    return [entries] if isinstance(entries, dict) and "data_name" in entries else []


@pytest.mark.parametrize("product", PRODUCTS)
def test_every_operator_is_exported_or_refused_for_a_reason(product: Product) -> None:
    """An operator that has no row fails here."""
    reasons: dict[str, set[str]] = {}
    for case in exported(typed_cases(product)):
        reasons.setdefault(case.typed.spec.name, set()).add(case.refusal)
    assert set(reasons) == {name for name, spec in OPERATORS.items() if product in spec.products}
    never = {name for name, told in reasons.items() if "" not in told}
    others = {"rms_norm_grad", "roi_align_v2_backward", "rotary_position_embedding_grad", "swi_glu_grad"}
    assert never <= others | {name for name, spec in OPERATORS.items() if spec.kind is OperatorKind.VALUE}


def test_names_are_those_of_msprobe_and_counted_for_each_function() -> None:
    names = [case.name for case in exported(typed_cases(Product.ATLAS_A2))]
    apis = Counter(name.rpartition(".")[0] for name in names)
    for api, count in apis.items():
        own = [name for name in names if name.rpartition(".")[0] == api]
        assert own == [f"{api}.{number}" for number in range(count)]
    # One operator is the gradient of several functions.
    assert {api for api in apis if api.startswith("Functional.conv")} == {
        f"Functional.{name}{axes}d" for name in ("conv", "conv_transpose") for axes in (1, 2, 3)
    }
    # Two operators are the gradients of max pooling.
    assert apis["Functional.max_pool2d"] == sum(
        typed.spec.name.startswith("max_pool2d") and typed.spec.kind is OperatorKind.GRADIENT
        for typed in typed_cases(Product.ATLAS_A2)
    )
    # msprobe reads names of six or seven parts: ".backward.output.0" has three.
    assert {len(name.split(".")) for name in names} <= {3, 4}


def test_the_dump_names_types_shapes_and_files_of_each_call_but_those_of_bfloat16_without_pytorch(
    tmp_path: Path, without_pytorch: None
) -> None:
    few = ("batch_norm_backward", "layer_norm_backward", "max_pool2d_with_mask_backward", "max_unpool2d_backward")
    cases = [case for case in exported(typed_cases(Product.ATLAS_A2)) if case.typed.spec.name in few]
    dump, (calls, left_out) = dumped(tmp_path, cases)
    sound = [case for case in cases if not case.refusal]
    halves = {case.name for case in sound if case.typed.dtype == "bfloat16"}
    assert left_out == len(halves) > 0
    assert calls == len(sound) - left_out
    forward = {name.removesuffix(".forward") for name in dump["data"] if name.endswith(".forward")}
    assert forward == {case.name for case in sound} - halves
    assert (dump["task"], dump["level"], dump["framework"]) == ("tensor", "L1", "pytorch")
    files = []
    for entry in dump["data"].values():
        for tensor in files_of(entry.get("input_args", []) + entry.get("input", [])):
            array = np.load(tmp_path / dump["dump_data_dir"] / tensor["data_name"], allow_pickle=False)
            assert (f"torch.{array.dtype}", list(array.shape)) == (tensor["dtype"], tensor["shape"])
            files.append(tensor["data_name"])
    assert sorted(files) == sorted(path.name for path in (tmp_path / "dump_tensor_data").iterdir())
    first = next(case for case in cases if str(case.typed) == "max_pool2d_with_mask_backward-ceil_mode_int64-float32")
    entry = dump["data"][f"{first.name}.forward"]
    numbers = [3, 3], [2, 2], [1, 0], [1, 1]
    assert entry["input_args"][1:] == [
        *([{"type": "int", "value": each} for each in pair] for pair in numbers),
        {"type": "bool", "value": True},
    ]
    assert entry["input_args"][0]["requires_grad"] is True
    assert dump["data"][f"{first.name}.backward"]["input"][0]["requires_grad"] is False


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("roi_align_v2_backward-one_bin-float32", "without computing it"),
        ("swi_glu_grad-rows-float32", "one of torch_npu"),
        ("tanh_backward-row-float16", "that 16 bits do not hold"),
        ("reflection_pad1d_backward-two_around-complex64", "no complex"),
        ("max_unpool2d_backward-doubled-int8", "no gradients of integers"),
        ("avg_pool2d_backward-empty_batch-float32", "no empty tensors"),
        ("convolution_backward-hfloat32-float32", "multiplies float32 in full"),
        ("dropout_do_mask-planes-float32", "draw other elements"),
        ("elu_backward-of_the_result-float32", "no input for the saved result"),
        ("cross_entropy_loss_grad-rows-float16", "that 16 bits do not hold"),
        ("nll_loss_backward-rows-bfloat16", "16 bits do not hold their sum"),
        ("mse_loss_backward-rows_of_gradients-float32", "one number here"),
    ],
)
def test_what_acc_check_cannot_check_is_refused_with_the_reason(case: str, told: str, tmp_path: Path) -> None:
    (found,) = (each for each in exported(typed_cases(Product.ATLAS_A2)) if str(each.typed) == case)
    assert told in found.refusal
    assert write_dump(tmp_path, [found]) == (0, 0)
    assert json.loads((tmp_path / "dump.json").read_text())["data"] == {}
