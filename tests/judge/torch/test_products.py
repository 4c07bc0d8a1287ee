"""Products that a server differentiates by several operators: limits by their terms, and errors that are planted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

from aclgrad.bridges.products import COMPOSITES
from aclgrad.commands import program
from aclgrad.judge.bundles import read
from aclgrad.judge.replay.sent import judged_program, limit_of
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Arguments, Tolerance
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType
from aclgrad.torch import compare_backward
from aclgrad.torch.calls import SentCall
from tests.judge.torch.recording import Recording
from tests.judge.torch.running import drawn, replay
from tests.torch.conftest import RecordingClient
from tests.wrong_servers import changed, of_gradients
from tools.serving import Server, write_host_config

GENERATOR = np.random.default_rng(9)


def sent(operator: str, shapes: dict[str, tuple[int, ...]], **attributes: Any) -> SentCall:
    """Returns a call with right gradients."""
    inputs = {name: GENERATOR.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    composite = COMPOSITES[operator]
    torch_of = {name: torch.from_numpy(each).requires_grad_(name != "grad_output") for name, each in inputs.items()}
    one, two = (torch_of[each] for each in composite.mats)
    addend = torch.zeros(attributes.get("shape", two.shape[:1] if "linear" in operator else ()), requires_grad=True)
    output = one @ (two.T if "linear" in operator else two) + (0 if "matmul" in operator else addend)
    output.backward(torch_of["grad_output"])
    found = dict(zip(composite.gradients, (one.grad, two.grad, addend.grad), strict=False))
    return SentCall(operator, inputs, attributes, {name: each.numpy() for name, each in found.items()})


LINEAR = sent("linear_backward", {"grad_output": (6, 16), "input": (6, 4), "weight": (16, 4)})
BATCHES = sent("matmul_backward", {"grad_output": (3, 2, 5, 7), "input": (2, 5, 4), "other": (3, 1, 4, 7)})
ADDED = sent("addmm_backward", {"grad_output": (6, 8), "mat1": (6, 4), "mat2": (4, 8)}, shape=(8,), beta=1.0, alpha=1.0)


@pytest.mark.parametrize(
    ("calls", "name", "terms"),
    [
        ([LINEAR], "grad_input", 16),
        ([LINEAR], "grad_weight", 6),
        ([LINEAR], "grad_bias", 6),
        ([BATCHES], "grad_input", 3 * 7),
        ([BATCHES], "grad_other", 2 * 5),
        ([ADDED], "grad_input", 6),
        ([ADDED], "grad_mat1", 8),
        ([LINEAR, BATCHES], "grad_weight", 6),
    ],
)
@pytest.mark.parametrize("product", [Product.ATLAS_A2, Product.ATLAS_INFERENCE])
def test_a_gradient_is_judged_by_the_terms_of_its_sums(
    calls: list[SentCall], name: str, terms: int, product: Product
) -> None:
    spec, dtype = OPERATORS["mm"], DTYPES["float32"]
    types = {"self": TensorType(dtype, (1, terms)), "mat2": TensorType(dtype, (terms, 1))}
    gradient = next(each.gradients[name] for each in calls if name in each.gradients)
    limit = limit_of(calls, "0", gradient, product)
    assert limit.tolerance == spec.tolerance(Arguments(types, spec.defaults), product, "float32")
    assert limit.excess == ""


@pytest.mark.parametrize("call", [LINEAR, BATCHES, ADDED], ids=lambda each: each.operator)
def test_what_was_sent_is_a_program_with_right_gradients(call: SentCall) -> None:
    judged = judged_program([call], Tolerance(1e-5, 1e-5))
    assert judged.gradients.keys() == judged.expected.keys() == {f"{name}.out" for name in call.gradients}
    for label, truth in judged.expected.items():
        np.testing.assert_allclose(judged.gradients[label], truth, rtol=1e-4, atol=1e-5)


def of_shape(shape: tuple[int, ...], factor: float) -> Callable[[np.ndarray], np.ndarray]:
    """Returns the change of an element of the results of this shape, by a share of the largest."""

    def change(array: np.ndarray) -> np.ndarray:
        if array.shape == shape:
            array = array.copy()
            array[(-1,) * array.ndim] += factor * np.abs(array).max()
        return array

    return change


@pytest.mark.parametrize(("dtype", "factor"), [(torch.float32, 0.001), (torch.bfloat16, 0.1)])
def test_a_planted_error_of_a_weight_is_found_and_bundled(
    server: Server, tmp_path: Path, dtype: torch.dtype, factor: float
) -> None:
    bundle, dump = tmp_path / "wrong.zip", Recording(tmp_path / "dump")
    rows, weight, bias = (drawn(*each, dtype=dtype, grad=True) for each in ((2, 8, 24), (12, 24), (12,)))
    dump.differentiate(drawn(2, 8, 12, dtype=dtype) * 1e-4, "Functional.linear", rows, weight, bias)
    right = replay(dump.write(), server, tmp_path / "right")
    assert set(right.sides("server").values()) == {"passed"}, right.output
    with changed(server.address, of_gradients("mm", of_shape((12, 24), factor))) as wrong:
        found = replay(tmp_path / "dump", wrong, tmp_path / "out", "--bundle", str(bundle))
    assert found.gradients("server") == {
        "linear.0 gradient of input": "passed",
        "linear.0 gradient of weight": "failed",
        "linear.0 gradient of bias": "passed",
    }
    judged = read(bundle).judged
    assert [step.name for step in judged.program.steps] == ["grad_input", "grad_weight", "grad_bias"]
    again = CliRunner().invoke(program, ["call", "--bundle", str(bundle), "--target", server.address])
    assert again.exit_code == 0, again.output
    assert "not those of the bundle" in again.output


def test_of_two_products_the_wrong_one_is_bundled(server: Server, tmp_path: Path) -> None:
    bundle, dump = tmp_path / "wrong.zip", Recording(tmp_path / "dump")
    shapes = ((6, 3), (6, 4), (5, 3, 4), (5,))
    dump.differentiate(drawn(6, 5), "Functional.bilinear", *(drawn(*each, grad=True) for each in shapes))
    with changed(server.address, of_gradients("matmul", of_shape((6, 3, 1), 0.01))) as wrong:
        found = replay(dump.write(), wrong, tmp_path / "out", "--bundle", str(bundle))
    sides = found.sides("server")
    assert [name for name, verdict in sides.items() if verdict == "failed"] == ["bilinear.0 gradient of input1"]
    assert {step.operator for step in read(bundle).judged.program.steps} == {"matmul"}


def test_values_beyond_the_products_route_are_noted(tmp_path: Path) -> None:
    """The 310P multiplies float32 in FLOAT16, whose largest number is 65504."""
    dump = Recording(tmp_path / "dump")
    for scale in (1.0, 1e5):
        dump.differentiate(drawn(3, 5) * scale, "Torch.mm", drawn(3, 4, grad=True), drawn(4, 5, grad=True))
    config = write_host_config(tmp_path, product="310P", host_pointers=False)
    infinite = of_gradients("mm", lambda each: np.full_like(each, np.inf))
    with Server("--backend", "host", "--acl-config", config) as own, changed(own.address, infinite) as wrong:
        found = replay(dump.write(), wrong, tmp_path / "out")
    verdicts = [row["verdict"] for row in found.rows if row["name"].endswith(".backward")]
    assert verdicts == ["failed", "noted"]
    assert "values above 65504, and product 310P computes in FLOAT16" in (found.folder / "rows.jsonl").read_text()


def test_gradients_are_told_by_the_names_of_operands(server: Server, tmp_path: Path) -> None:
    dump, pair = Recording(tmp_path / "dump"), [drawn(4, 4, grad=True), drawn(4, 4, grad=True)]
    for api in ("Tensor.__matmul__", "Torch.mm", "Tensor.addmm_"):
        addend = [drawn(4, 4, grad=True)] if "addmm" in api else []
        dump.differentiate(drawn(4, 4), api, *addend, *pair)
    dump.differentiate(drawn(4, 4), "Torch.einsum", "ij,jk", *pair)
    names = [
        each.partition(" gradient of ")[::2]
        for each in replay(dump.write(), server, tmp_path / "out").gradients("server")
    ]
    assert names == [
        ("__matmul__.0", "input"), ("__matmul__.0", "other"),
        ("mm.0", "input"), ("mm.0", "mat2"),
        ("addmm_.0", "input"), ("addmm_.0", "mat1"), ("addmm_.0", "mat2"),
        ("einsum.0", "operands[0]"), ("einsum.0", "operands[1]"),
    ]  # fmt: skip


def test_every_product_of_a_step_is_compared(client: RecordingClient, server: Server) -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
    rows = drawn(3, 5, 16, grad=True)

    def step(found: compare_backward) -> compare_backward:
        with found:
            (layer(rows) ** 2).sum().backward()
        return found

    right = step(compare_backward(client))
    assert not right.failed, str(right)
    products = [site for site in right.calls() if site.function in ("linear", "bmm", "matmul", "baddbmm")]
    assert products
    assert {site.because for site in products} == {None}
    change = of_gradients("mm", of_shape((32, 16), 0.01))
    with changed(server.address, change) as address, RecordingClient(address) as wrong:
        found = step(compare_backward(wrong))
    assert {(row.operator, row.case) for row in found.failed} == {
        ("linear", "TransformerEncoderLayer.linear1 weight"),
    }
