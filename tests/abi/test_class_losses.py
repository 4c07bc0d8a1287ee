"""Gradients of losses of classes: targets that are no class, special values, and parts of large tensors."""

import numpy as np
import pytest

from aclgrad.operators.families.losses.spec import MEAN, NONE, SUM
from tools.abi.acl import Library

from .table_gradients import FILL, call, gradient_of

torch = pytest.importorskip("torch")

NAN, INF = np.nan, np.inf
ATEN = torch.ops.aten
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])


def nll(acl: Library, dtype: str, target: np.ndarray, classes: int, **given: object) -> tuple[np.ndarray, np.ndarray]:
    """Returns the gradient and PyTorch's in float64."""
    attributes = {"reduction": given.pop("reduction", NONE), "ignore_index": given.pop("ignored", -100)}
    generator = np.random.default_rng(1)
    grad = given.pop("grad", generator.standard_normal(target.shape if attributes["reduction"] == NONE else ()))
    weight, total = given.pop("weight", generator.standard_normal(classes)), given.pop("total", 2.5)
    assert not given
    shape = (*target.shape[:1], classes, *target.shape[1:])
    name = "nll_loss2d_backward" if len(shape) == 4 else "nll_loss_backward"
    shapes = {"grad_output": np.shape(grad), "self": shape, "target": target.shape, "weight": (classes,)}
    typed = call(name, dtype, fixed={"target": target.dtype.name}, **shapes, total_weight=(), **attributes)
    kind = typed.arrays()["self"].dtype
    arrays = {"grad_output": np.asarray(grad), "weight": np.asarray(weight), "total_weight": np.asarray(total)}
    arrays = {each: values.astype(kind) for each, values in arrays.items()}
    found = gradient_of(acl, typed, **arrays, self=np.zeros(shape, kind), target=target)
    wide = {each: torch.from_numpy(values.astype(np.float64)) for each, values in arrays.items()}
    inputs = wide["grad_output"], torch.zeros(shape, dtype=torch.float64), torch.from_numpy(target.astype(np.int64))
    truth = getattr(ATEN, name)(*inputs, wide["weight"], *attributes.values(), wide["total_weight"])
    return found.astype(np.float64), truth.numpy()


@DTYPES
@pytest.mark.parametrize("reduction", [NONE, MEAN, SUM])
@pytest.mark.parametrize(
    "shape", [(3, 50_000), (40_000, 3), (2, 3, 300, 250), (1, 150, 90, 70), (70, 5, 2, 3), (2, 40_000, 1, 3)], ids=str
)
def test_parts_of_large_tensors(acl: Library, shape: tuple[int, ...], reduction: int, dtype: str) -> None:
    samples, classes, *size = shape
    target = np.random.default_rng(2).integers(0, classes, (samples, *size))
    found, truth = nll(acl, dtype, target, classes, reduction=reduction, ignored=1)
    np.testing.assert_allclose(
        found, truth, rtol={"float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3}[dtype], atol=6e-8
    )


@pytest.mark.parametrize("size", [(), (1, 2)])
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_a_target_that_is_no_class_has_no_gradient(acl: Library, dtype: str, size: tuple[int, ...]) -> None:
    wrong = [5, 255] if dtype == "uint8" else [5, -1, -101, np.iinfo(dtype).max, np.iinfo(dtype).min, 2**31 - 1]
    target = np.array([4, *wrong, 0], dtype).reshape(-1, *(1,) * len(size)) + np.zeros(size, dtype)
    shapes = {"grad_output": target.shape, "self": (len(target), 5, *size), "weight": (5,), "total_weight": ()}
    name = "nll_loss2d_backward" if size else "nll_loss_backward"
    typed = call(name, fixed={"target": dtype}, **shapes, target=target.shape, reduction=NONE)
    arrays = {each: np.ones(shape, np.float32) for each, shape in shapes.items()}
    found = gradient_of(acl, typed, **arrays, target=target)
    assert not found[1:-1].any()
    assert (found[0, 4] == -1).all()
    assert (found[-1, 0] == -1).all()
    assert np.count_nonzero(found) == 2 * int(np.prod(size))


def test_special_weights_and_gradients(acl: Library) -> None:
    weight = [NAN, 0.0, -2.0, INF, 1.0]
    for reduction in (NONE, MEAN, SUM):
        for grad in (0.5, 0.0, INF, NAN):
            for total in (2.0, 0.0, NAN):
                target = np.array([0, 1, 2, 3, 4, 1, -100])
                given = np.full(7, grad) if reduction == NONE else grad
                found, truth = nll(
                    acl, "float32", target, 5, reduction=reduction, grad=given, weight=weight, total=total
                )
                np.testing.assert_array_equal(found, truth)


@pytest.mark.parametrize("reduction", [NONE, MEAN, SUM])
def test_targets_that_are_all_ignored(acl: Library, reduction: int) -> None:
    found, _ = nll(acl, "float32", np.full((3, 2, 4), 2), 4, reduction=reduction, ignored=2, total=0.0)
    assert not found.any()


def cross_entropy(
    acl: Library, logarithms: np.ndarray, target: np.ndarray, weight: np.ndarray | None, **attributes: object
) -> np.ndarray:
    """With a gradient of 1, of each row or of all."""
    rows = logarithms.shape[0]
    given = {"grad_output": (rows,) if attributes["reduction"] == "none" else ()}
    given |= {} if weight is None else {"weight": weight.shape}
    fixed = {"target": "int64", "weight": "float32"}
    name = "cross_entropy_loss_grad"
    typed = call(name, fixed=fixed, log_prob=logarithms.shape, target=(rows,), **given, **attributes)
    arrays = {"grad_output": np.ones(given["grad_output"], np.float32), "log_prob": logarithms, "target": target}
    return gradient_of(acl, typed, **arrays, **({} if weight is None else {"weight": weight}))


def test_the_mean_of_many_rows(acl: Library) -> None:
    """Their weights are added up in parts, and rows of many classes are divided."""
    generator = np.random.default_rng(3)
    for rows, classes in ((50_000, 3), (2, 40_000)):
        logits = generator.standard_normal((rows, classes))
        weight = generator.uniform(0, 2, classes).astype(np.float32)
        target = generator.integers(0, classes, rows)
        wide = torch.from_numpy(logits).requires_grad_()
        options = {"ignore_index": 1, "label_smoothing": 0.125}
        loss = torch.nn.functional.cross_entropy(
            wide, torch.from_numpy(target), torch.from_numpy(weight).double(), **options
        )
        loss.backward()
        logarithms = torch.log_softmax(wide, 1).detach().numpy().astype(np.float32)
        found = cross_entropy(acl, logarithms, target, weight, reduction="mean", **options)
        np.testing.assert_allclose(found, wide.grad.numpy(), rtol=1e-5, atol=1e-6 / rows)


@pytest.mark.parametrize("smoothing", [0.0, 0.25])
def test_what_is_not_finite_stays_in_its_row(acl: Library, smoothing: float) -> None:
    logarithms = np.log(np.full((5, 4), 0.25, np.float32))
    logarithms[0, 1], logarithms[1, 2], logarithms[2, 0] = NAN, -INF, NAN
    target = np.array([0, 1, -100, 3, 2])
    found = cross_entropy(acl, logarithms, target, None, reduction="sum", label_smoothing=smoothing)
    assert np.argwhere(~np.isfinite(found)).tolist() == [[0, 1]]
    assert not found[2].any()
    np.testing.assert_allclose(found[1, 2], -smoothing / 4)


def test_a_row_without_a_class_has_no_gradient(acl: Library) -> None:
    logarithms = np.log(np.full((6, 4), 0.25, np.float32))
    target = np.array([4, 1, -1, 2**40, -(2**63), 3])
    found = cross_entropy(acl, logarithms, target, np.ones(4, np.float32), reduction="mean", label_smoothing=0.0)
    np.testing.assert_allclose(found[1], np.array([0.25, -0.75, 0.25, 0.25]) / 2, rtol=1e-6)
    assert not found[[0, 2, 3, 4]].any()


def test_a_gradient_for_all_pixels_at_once(acl: Library) -> None:
    """An expanded gradient of one number, and a transposed output."""
    target = np.arange(6).reshape(1, 2, 3) % 4
    one, storage = np.full(1, 2, np.float32), np.full((1, 3, 2, 4), FILL, np.float32)
    self, weight = np.zeros((1, 4, 2, 3), np.float32), np.array([1, 2, 3, 4], np.float32)
    with (
        acl.tensor(one, np.broadcast_to(one, (1, 2, 3))) as grad,
        acl.tensor(self) as input,
        acl.tensor(target) as targets,
        acl.tensor(weight) as weights,
        acl.tensor(one) as total,
        acl.tensor(storage, storage.transpose(0, 3, 2, 1)) as out,
    ):
        handles = grad.handle, input.handle, targets.handle, weights.handle
        acl.run("aclnnNLLLoss2dBackward", *handles, NONE, -100, total.handle, out.handle)
        found = out.read_storage().transpose(0, 3, 2, 1)
    places = (np.arange(4)[None, :, None, None] == target[:, None]) * weight[None, :, None, None]
    np.testing.assert_array_equal(found, -2 * places)
