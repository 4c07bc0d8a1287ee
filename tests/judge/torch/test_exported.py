"""The exported dump against PyTorch: its calls have the gradients of the cases that they were made of."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from aclgrad import reference
from aclgrad.judge.check.exports import Exported, exported, write_dump
from aclgrad.operators.cases import TypedCase, arrays_of, typed_cases
from aclgrad.operators.parts import samples_of
from aclgrad.products import Product
from tests.judge.torch.recording import function_of

# The 910A alone computes average pooling as a convolution, the 950 alone has dilation.
PRODUCTS = (Product.ATLAS_A2, Product.ATLAS_TRAINING, Product.ASCEND_950)


def argument(entry: Any, data: Path) -> Any:
    """Returns what acc_check makes of an entry of the dump, but with floating-point numbers widened to float64."""
    if entry is None or isinstance(entry, list):
        return entry and [argument(each, data) for each in entry]
    if entry["type"] != "torch.Tensor":
        return entry["value"]
    file = data / entry["data_name"]
    tensor = torch.load(file, weights_only=True) if file.suffix == ".pt" else torch.from_numpy(np.load(file))
    assert (str(tensor.dtype), list(tensor.shape)) == (entry["dtype"], entry["shape"])
    wide = tensor.double() if tensor.is_floating_point() else tensor
    return wide.requires_grad_() if entry["requires_grad"] else wide


def gradients(dump: dict[str, Any], name: str, data: Path) -> list[np.ndarray | None]:
    """Returns the gradient of each tensor among the arguments, None if it needs none."""
    call = dump[f"{name}.forward"]
    arguments = [argument(each, data) for each in call["input_args"]]
    keywords = {key: argument(each, data) for key, each in call["input_kwargs"].items()}
    output = function_of(name.rpartition(".")[0])(*arguments, **keywords)
    (grad_output,) = dump[f"{name}.backward"]["input"]
    assert (call["output"][0]["shape"], call["output"][0]["dtype"]) == (grad_output["shape"], grad_output["dtype"])
    output.backward(argument(grad_output, data))
    tensors = [each for each in arguments if isinstance(each, torch.Tensor)]
    return [None if each.grad is None else each.grad.numpy() for each in tensors]


def _key(typed: TypedCase) -> tuple[str, str]:
    return typed.spec.name, str(typed)


@pytest.fixture(scope="module", params=PRODUCTS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Exported]]:
    """A dump of all cases of the first product, or of those that another one adds."""
    folder = tmp_path_factory.mktemp("dump")
    first = set() if request.param is PRODUCTS[0] else {_key(each) for each in typed_cases(PRODUCTS[0])}
    cases = list(exported(each for each in typed_cases(request.param) if _key(each) not in first))
    calls, left_out = write_dump(folder, cases)
    assert (calls, left_out) == (sum(not case.refusal for case in cases), 0)
    return folder, [case for case in cases if not case.refusal]


@pytest.mark.filterwarnings("ignore:reduction:UserWarning")
def test_every_call_has_the_gradients_of_its_case(written: tuple[Path, list[Exported]]) -> None:
    folder, cases = written
    dump = json.loads((folder / "dump.json").read_text())["data"]
    assert list(dump) == [f"{case.name}.{which}" for case in cases for which in ("forward", "backward")]
    wrong = []
    for case in cases:
        spec, arrays = case.typed.spec, case.typed.arrays()
        truths = arrays_of(reference.define(spec.name, arrays, case.typed.case.attributes))
        expected = dict(zip(case.typed.outputs, truths, strict=True))
        # In float64 the gradients differ only by the rounding of the statistics, or of the result, that a case has.
        saved = next((arrays[name] for name in ("rstd", "attention_in") if name in arrays), None)
        rounded = "float32" if saved is None else saved.dtype.name
        found = gradients(dump, case.name, folder / "dump_tensor_data")
        names = [each.gradient for each in case.call().tensors]
        # The operator is not given the bias, which PyTorch takes with the weight.
        has_bias = "weight" in arrays and ("save_mean" in arrays or "groups" in case.typed.attributes)
        differentiated = {*arrays, "bias"} if has_bias else arrays.keys()
        assert {each.name for each in spec.outputs if each.of in differentiated} <= set(names)
        assert [each is None for each in found] == [each is None for each in names]
        for tensor, gradient in zip(case.call().tensors, found, strict=True):
            if tensor.gradient is not None and gradient is not None:
                truth = expected[tensor.gradient]
                assert gradient.shape == truth.shape == tensor.values.shape
                # Sums of products of both signs are judged by the largest.
                scale = np.abs(truth).max() if samples_of(spec.name).has_signed_weights else truth
                tolerance = spec.tolerance(case.typed.arguments, Product.ATLAS_A2, rounded)
                limits = tolerance.of(tensor.gradient).limit(scale)
                if not (np.abs(gradient - truth) <= limits).all():
                    wrong.append((case.name, str(case.typed), tensor.gradient))
    assert wrong == []
