"""aclnnCtcLossBackward: probabilities far below the least number, impossible targets, and labels that are no class."""

import numpy as np
import pytest

from tools.abi.acl import DATA_TYPES, DataType, Library

from .table_gradients import call, gradient_of

torch = pytest.importorskip("torch")

NAME = "ctc_loss_backward"
ATEN = torch.ops.aten
INF = np.inf


def forward(steps: int, classes: int, lengths: list[int], sharpness: float = 1.0, **given: object) -> dict[str, object]:
    """Returns the arrays and attributes of a call, in float64, with labels that are no blank."""
    generator = np.random.default_rng(4)
    logarithms = torch.log_softmax(
        torch.from_numpy(generator.standard_normal((steps, len(lengths), classes)) * sharpness), 2
    )
    blank = given.get("blank", 0)
    used = list(given.get("input_lengths", [steps] * len(lengths)))
    labels = given.get("labels", classes)
    target = torch.from_numpy((generator.integers(1, labels, (len(lengths), max(lengths))) + blank) % classes)
    loss, alpha = ATEN._ctc_loss(logarithms, target, used, lengths, blank, False)  # noqa: SLF001
    grad = torch.from_numpy(generator.standard_normal(len(lengths)))
    return {
        "grad_output": grad, "log_probs": logarithms, "targets": target, "neg_log_likelihood": loss,
        "log_alpha": alpha, "input_lengths": tuple(used), "target_lengths": tuple(lengths), "blank": blank,
        "zero_infinity": given.get("zero_infinity", False),
    }  # fmt: skip


def truth_of(given: dict[str, object]) -> np.ndarray:
    order = ("grad_output", "log_probs", "targets", "input_lengths", "target_lengths", "neg_log_likelihood",
             "log_alpha", "blank", "zero_infinity")  # fmt: skip
    values = [list(given[name]) if isinstance(given[name], tuple) else given[name] for name in order]
    return ATEN._ctc_loss_backward(*values).numpy()  # noqa: SLF001


def gradient(acl: Library, given: dict[str, object], dtype: str = "float64") -> np.ndarray:
    arrays = {name: value.numpy() for name, value in given.items() if isinstance(value, torch.Tensor)}
    arrays |= {name: array.astype(dtype) for name, array in arrays.items() if name != "targets"}
    attributes = {name: value for name, value in given.items() if name not in arrays}
    shapes = {name: array.shape for name, array in arrays.items()}
    typed = call(NAME, dtype, fixed={"targets": arrays["targets"].dtype.name}, **shapes, **attributes)
    return gradient_of(acl, typed, **arrays)


@pytest.mark.parametrize("sharpness", [1.0, 30.0, 300.0])
def test_probabilities_of_any_size(acl: Library, sharpness: float) -> None:
    """Paths of 150 steps, whose probabilities are down to exp(-40000)."""
    given = forward(150, 20, [60, 1, 0, 40], sharpness, blank=19, input_lengths=[150, 100, 120, 90])
    np.testing.assert_allclose(gradient(acl, given), truth_of(given), rtol=1e-8, atol=1e-10)


def test_labels_that_follow_each_other(acl: Library) -> None:
    """With two classes, all labels are the same, and each needs a blank behind it."""
    given = forward(30, 2, [15, 14, 3])
    np.testing.assert_allclose(gradient(acl, given), truth_of(given), rtol=1e-9, atol=1e-12)


def test_float32(acl: Library) -> None:
    given = forward(200, 50, [80] * 4, 3.0)
    rounded = given | {
        name: each.float() for name, each in given.items() if name != "targets" and torch.is_tensor(each)
    }
    wide = rounded | {
        name: each.double() for name, each in rounded.items() if name != "targets" and torch.is_tensor(each)
    }
    np.testing.assert_allclose(gradient(acl, rounded, "float32"), truth_of(wide), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_impossible_targets(acl: Library, zero_infinity: bool) -> None:
    """Four labels take four steps; of two equal labels in a row, one more."""
    given = forward(3, 5, [4, 2], zero_infinity=zero_infinity)
    assert given["neg_log_likelihood"][0] == INF
    found = gradient(acl, given)
    assert (found[:, 0] == 0).all() if zero_infinity else np.isnan(found[:, 0]).all()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(truth_of(given)))
    np.testing.assert_allclose(found[:, 1], truth_of(given)[:, 1], rtol=1e-10)


def test_impossible_classes(acl: Library) -> None:
    """A class that is no label has no number, as in PyTorch."""
    given = forward(6, 5, [2], labels=3)
    given["log_probs"][2, 0, 4] = -INF
    found, truth = gradient(acl, given), truth_of(given)
    assert np.argwhere(np.isnan(found)).tolist() == [[2, 0, 4]]
    np.testing.assert_allclose(found, truth, rtol=1e-10)


@pytest.mark.parametrize("label", [-1, 5, 2**40, -(2**63)])
def test_a_label_that_is_no_class_leaves_its_sample_without_a_gradient(acl: Library, label: int) -> None:
    given = forward(8, 5, [3, 2])
    truth = truth_of(given)
    given["targets"][0, 1] = label
    found = gradient(acl, given)
    assert not found[:, 0].any()
    np.testing.assert_allclose(found[:, 1], truth[:, 1], rtol=1e-10)


@pytest.mark.parametrize("kind", [np.int32, np.float32, np.float16, np.bool_])
def test_labels_of_other_types(acl: Library, kind: type) -> None:
    given = forward(8, 5, [3, 2], labels=2)
    truth = truth_of(given)
    arrays = [given[name].numpy() for name in ("grad_output", "log_probs", "neg_log_likelihood", "log_alpha")]
    labels, out = given["targets"].numpy().astype(kind), np.full(truth.shape, 7.0)
    with (
        acl.tensor(arrays[0]) as grad,
        acl.tensor(arrays[1]) as logarithms,
        acl.tensor(labels) as targets,
        acl.int_array(given["input_lengths"]) as steps,
        acl.int_array(given["target_lengths"]) as lengths,
        acl.tensor(arrays[2]) as losses,
        acl.tensor(arrays[3]) as alpha,
        acl.tensor(out) as made,
    ):
        assert DATA_TYPES[labels.dtype] is not DataType.INT64
        inputs = grad.handle, logarithms.handle, targets.handle, steps, lengths, losses.handle, alpha.handle
        acl.run("aclnnCtcLossBackward", *inputs, 0, False, made.handle)
        np.testing.assert_allclose(made.read_storage(), truth, rtol=1e-10)
