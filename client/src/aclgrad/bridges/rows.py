"""One row for each function that a framework computes locally and a server differentiates.

`aclgrad.torch` makes an autograd function from a row, `aclgrad.jax` a custom_vjp.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aclgrad.bridges import folding
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import OperatorSpec

Known = Mapping[str, Any]
Cast = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class Row:
    """A function whose gradients are the operator's outputs.

    The operator's inputs and attributes are taken by name from the function's arguments and from `more`, which derives
    values from arguments and output (an array, or a tuple whose first one is differentiable); the others have their
    defaults. `unused` names inputs that are not sent. `dtypes` has the dtypes of inputs that the operator takes in
    another one than the function's; "input" stands for the dtype of its input. A linear function is the backward pass
    of its own backward pass. `fold` folds the calls of vmap into one. `function` is the name that a user calls, and
    `parameters` has the function's names for attributes.
    """

    name: str
    operator: str
    more: Callable[[Known, Any], Known] = lambda arguments, output: {}
    unused: Callable[[Known], tuple[str, ...]] = lambda known: ()
    dtypes: Mapping[str, str] = field(default_factory=dict)
    is_linear: bool = True
    fold: folding.Fold = folding.fold_into_batch
    function: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    spec: OperatorSpec = field(init=False)
    targets: tuple[str, ...] = field(init=False)
    """The arguments whose gradients are the operator's outputs."""
    ranks: tuple[int, ...] = field(init=False)
    """The ranks of the function's input."""
    known: Callable[[Known, Any], dict[str, Any]] = field(init=False)
    """Returns arguments, derived values and defaults by name, from the arguments of a call and its output."""
    sent: Callable[[Known, Cast], dict[str, Any]] = field(init=False)
    """Returns the operator's inputs and attributes from these values; the last argument casts an array to a dtype."""

    def __post_init__(self) -> None:
        spec = OPERATORS[self.operator]
        targets = tuple("input" if each.of == "self" else each.of for each in spec.outputs)
        inputs = {each.python_name: each for each in spec.inputs}
        derived = {
            "function": self.function or self.name,
            "spec": spec,
            "targets": targets,
            "ranks": inputs.get(targets[0], spec.leading_input).ranks,
        }
        for name, value in {**derived, "known": _known(spec, self.more), "sent": _sent(self)}.items():
            object.__setattr__(self, name, value)


def _known(spec: OperatorSpec, more: Callable[[Known, Any], Known]) -> Callable[[Known, Any], dict[str, Any]]:
    # Without the row, because torch.compile cannot trace a function that holds one.
    defaults = spec.defaults
    return lambda arguments, output: {**defaults, **arguments, **more(arguments, output)}


def _sent(row: Row) -> Callable[[Known, Cast], dict[str, Any]]:
    unused, dtypes = row.unused, dict(row.dtypes)

    def sent(known: Known, cast: Cast) -> dict[str, Any]:
        taken = {**known, **dict.fromkeys(unused(known))}
        for name, dtype in dtypes.items():
            if taken.get(name) is not None:
                taken[name] = cast(taken[name], known["input"].dtype if dtype == "input" else dtype)
        return taken

    return sent


def _linear(name: str, operator: str = "", **options: Any) -> Row:
    return Row(name, operator or f"{name}_backward", **options)


def _elementwise(name: str, operator: str = "", **options: Any) -> Row:
    return Row(name, operator or f"{name}_backward", is_linear=False, **{"fold": folding.fold_elements, **options})


def _exponential(name: str, factors: Callable[[Known], Known] = lambda arguments: {}) -> Row:
    """Returns the row of a form of ELU, with constant factors."""
    return _elementwise(
        name, "elu_backward", more=lambda arguments, _: {"self_or_result": arguments["input"], **factors(arguments)}
    )


def _loss(name: str, **options: Any) -> Row:
    return Row(name, f"{name}_backward", is_linear=False, **{"fold": folding.fold_losses, **options})


def _of_classes(name: str) -> Row:
    """Returns the row of a form of the negative log likelihood."""
    return _linear(
        name,
        more=lambda _, output: {"total_weight": output[1]},
        dtypes=dict.fromkeys(("weight", "total_weight"), "input"),
        fold=folding.fold_classes,
        function="nll_loss",
    )


def _of_output(arguments: Known, output: Any) -> Known:
    return {"output": output}


def _of_statistics(arguments: Known, output: Any) -> Known:
    return {"mean": output[1], "rstd": output[2]}


def _of_groups(arguments: Known, output: Any) -> Known:
    shape = arguments["input"].shape
    sizes = {"n": shape[0], "c": shape[1], "hxw": math.prod(shape[2:]), "group": arguments["num_groups"]}
    return {**_of_statistics(arguments, output), **sizes}


def _convolution(name: str, *, transposed: bool) -> Row:
    def derived(arguments: Known, _: Any) -> Known:
        bias = arguments["bias"]
        return {"bias_sizes": None if bias is None else tuple(bias.shape), "transposed": transposed}

    return Row(name, "convolution_backward", derived, is_linear=False, fold=folding.fold_convolution)


_SELU_ALPHA: Final = 1.6732632423543772848170429916717
_SELU_SCALE: Final = 1.0507009873554804934193349852946
_RUNNING: Final = ("running_mean", "running_var")
_OF_THE_BATCH: Final = ("save_mean", "save_invstd")
_POOLED: Final = dict.fromkeys(("pooled_height", "pooled_width"), "output_size")
_ROWS: Final = (
    *(_linear(f"adaptive_avg_pool{axes}d") for axes in (2, 3)),
    _linear("avg_pool2d"),
    *(_convolution(f"conv{axes}d", transposed=False) for axes in (1, 2, 3)),
    *(_convolution(f"conv_transpose{axes}d", transposed=True) for axes in (1, 2, 3)),
    Row("max_pool2d", "max_pool2d_with_mask_backward", lambda _, output: {"indices": output[1]}),
    *(_linear(f"max_unpool{axes}d") for axes in (2, 3)),
    *(
        _linear(f"{rule}_pad{axes}d", function="pad", parameters={"padding": "pad"})
        for rule in ("replication", "reflection")
        for axes in (1, 2, 3)
    ),
    _linear(
        "upsample_nearest2d",
        more=lambda arguments, _: {"input_size": arguments["input"].shape},
        function="interpolate",
        parameters={"output_size": "size"},
    ),
    _linear(
        "upsample_bilinear2d",
        operator="upsample_bilinear2d_backward_v2",
        more=lambda arguments, _: {"input_size": arguments["input"].shape},
        function="interpolate",
        parameters={"output_size": "size"},
    ),
    Row(
        "roi_align",
        "roi_align_v2_backward",
        lambda arguments, _: {"input_shape": arguments["input"].shape},
        parameters=_POOLED,
    ),
    *(
        Row(f"grid_sampler_{axes}d", f"grid_sampler{axes}d_backward", is_linear=False, function="grid_sample")
        for axes in (2, 3)
    ),
    Row(
        "embedding",
        "embedding_dense_backward",
        lambda arguments, _: {"num_weights": arguments["input"].shape[0]},
        is_linear=False,
        fold=folding.call_each,
    ),
    Row("layer_norm", "layer_norm_backward", _of_statistics, is_linear=False, fold=folding.fold_into_rows),
    Row(
        "rms_norm", "rms_norm_grad", lambda _, output: {"rstd": output[1]}, is_linear=False, fold=folding.fold_into_rows
    ),
    Row(
        "group_norm",
        "group_norm_backward",
        _of_groups,
        dtypes=dict.fromkeys(("mean", "rstd", "gamma"), "input"),
        is_linear=False,
        fold=folding.call_each,
    ),
    Row(
        "batch_norm",
        "batch_norm_backward",
        lambda _, output: {"save_mean": output[1], "save_invstd": output[2]},
        unused=lambda known: _RUNNING if known["training"] else _OF_THE_BATCH,
        dtypes=dict.fromkeys(("weight", *_RUNNING, *_OF_THE_BATCH), "float32"),
        is_linear=False,
        fold=folding.fold_into_channels,
    ),
    Row(
        "dropout",
        "dropout_do_mask",
        lambda arguments, _: {"prob": arguments["p"]},
        is_linear=False,
        fold=folding.call_each,
    ),
    *(_of_classes(name) for name in ("nll_loss", "nll_loss2d")),
    *(
        _loss(name)
        for name in (
            "binary_cross_entropy",
            "binary_cross_entropy_with_logits",
            "kl_div",
            "l1_loss",
            "mse_loss",
            "smooth_l1_loss",
        )
    ),
    _loss(
        "ctc_loss",
        more=lambda _, output: {"neg_log_likelihood": output[0], "log_alpha": output[1]},
        fold=folding.call_each,
    ),
    _exponential("celu", lambda arguments: {"input_scale": 1 / arguments["alpha"]}),
    _exponential("elu"),
    _elementwise("gelu", "gelu_backward_v2"),
    # The axis counts from the last, also below.
    _elementwise("glu", fold=folding.fold_into_leading_axes),
    *(_elementwise(name) for name in ("hardshrink", "hardsigmoid", "hardswish", "hardtanh")),
    _elementwise("leaky_relu"),
    _elementwise(
        "logsigmoid",
        "log_sigmoid_backward",
        more=lambda arguments, output: {"buffer": output[1] if isinstance(output, tuple) else arguments["input"]},
    ),
    _elementwise("mish"),
    _elementwise("prelu", fold=folding.fold_into_batch_with_parameters),
    # Like PyTorch, keeps only the result.
    _elementwise("relu", "threshold_backward", more=lambda _, output: {"input": output, "threshold": 0.0}),
    _elementwise("relu6", "hardtanh_backward", more=lambda *_: {"min": 0.0, "max": 6.0}),
    _exponential("selu", lambda _: {"alpha": _SELU_ALPHA, "scale": _SELU_SCALE}),
    _elementwise("sigmoid", more=_of_output),
    _elementwise("silu"),
    _elementwise("softplus"),
    _elementwise("softshrink"),
    _elementwise("swiglu", "swi_glu_grad"),
    _elementwise("tanh", more=_of_output),
    _elementwise("threshold"),
    # The axis counts from the last, so that vmap's axes in front change nothing.
    *(_elementwise(name, more=_of_output, fold=folding.fold_into_leading_axes) for name in ("softmax", "log_softmax")),
    # 0 in rows of minus infinity.
    _elementwise(
        "safe_softmax", "softmax_backward", more=_of_output, fold=folding.fold_into_leading_axes, function="softmax"
    ),
)
ROWS: Final[Mapping[str, Row]] = {row.name: row for row in _ROWS}
