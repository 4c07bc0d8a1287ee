"""The gradients of losses of each element by itself."""

from aclgrad.products import Product
from tools.abi.acl import DataType, Format

from ..phase_one import NULL, Changes, Order, Refused, changed, shapes

FLOAT, FLOAT16, BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16
SHAPE = (2, 3, 4, 5)
HUGE = 2**62


def order(
    grad: str = "gradOutput",
    output: str = "out",
    *,
    most: int = 2,
    to_self: bool = False,
    refused: tuple[Refused, ...] = (),
    accepted: dict[str, Changes] | None = None,
    empty: dict[str, Changes] | None = None,
) -> Order:
    """Returns the rows of an operator whose reductions go up to `most`, and which broadcasts, perhaps only `to_self`.

    `empty` has accepted calls whose other tensors have other shapes.
    """
    tensors = (grad, "self", "target", output)

    def shaped(*given: tuple[int, ...]) -> Changes:
        return shapes(**dict(zip(tensors, given, strict=True)))

    repeated = shaped((), (3, 1), (1, 5), (3, 5))
    without_bf16 = changed(*tensors, data_type=BF16)
    return Order(
        accepted={
            "a gradient for each": shaped(SHAPE, SHAPE, SHAPE, SHAPE),
            "a row of gradients": shaped((5,), SHAPE, SHAPE, SHAPE),
            "nothing": shaped((), (0, 3), (0, 3), (0, 3)),
            "BF16": without_bf16,
            **({} if to_self else {"both repeated": repeated}),
            **{f"reduction {each}": {"reduction": each} for each in range(most + 1)},
            **(accepted or {}),
            **(empty or {}),
        },
        refused=(
            *((Refused(repeated, ""),) if to_self else ()),
            *(Refused({"reduction": each}, "reduction: expected a value") for each in (-1, most + 1, 2**40)),
            Refused(changed(*tensors, shape=(0, 3)) | {"reduction": -1}, "reduction: expected a value"),
            Refused(changed(output, data_type=DataType.BOOL), f"{output}: expected data type"),
            Refused(shaped((2, 2, 1, 5), SHAPE, SHAPE, SHAPE), f"{grad}: expected a shape"),
            Refused(shaped((), SHAPE, SHAPE, (5,)), f"{output}: expected the shape"),
            Refused(shaped((), (0, 3), (0, 3), (2, 3)), ""),
            Refused(changed(*tensors[1:], shape=(1,) * 9), "self: expected a rank of at most 8"),
            Refused(changed(*tensors[1:], shape=(HUGE, 4)), ""),
            *refused,
        ),
        otherwise={
            product: {"BF16": Refused(without_bf16, f"{grad}: expected data type")}
            for product in (Product.ATLAS_TRAINING, Product.ATLAS_INFERENCE)
        },
    )


def _betas(*values: float) -> tuple[Refused, ...]:
    return tuple(Refused({"beta": each}, "beta: expected at least 1e-6") for each in values)


_EMPTY = shapes(self=(0, 3), out=(0, 3), target=(2, 5))
ORDERS = {
    "binary_cross_entropy_backward": order(
        to_self=True,
        refused=(
            Refused(changed("target", format_=Format.NCHW), "target: expected the format of self"),
            Refused({"target": None, "out": None}, "target must not", NULL),
        ),
        accepted={"a row of targets": shapes(target=(5,))},
        empty={"shapes beside nothing": _EMPTY},
    ),
    "binary_cross_entropy_with_logits_backward": order(
        to_self=True,
        refused=(
            Refused(shapes(target=(5,)), "target: expected the shape of self"),
            Refused(changed("out", format_=Format.NCHW), "out: expected the format of self"),
        ),
        accepted={"types of self and of the target": changed("target", "out", data_type=FLOAT16)},
        empty={"shapes beside nothing": _EMPTY},
    ),
    "kl_div_backward": order(most=3, to_self=True),
    "l1_loss_backward": order(
        output="gradInput",
        refused=(
            Refused(changed("self", data_type=DataType.BOOL) | {"reduction": 9}, "reduction: expected"),
            Refused({"reduction": 9, "gradInput": None}, "gradInput must not", NULL),
        ),
    ),
    "mse_loss_backward": order(
        refused=(
            Refused(changed("target", data_type=FLOAT16), "target: expected the data type of gradOutput"),
            Refused(changed("self", data_type=DataType.BOOL) | {"reduction": 9}, "self: expected data type"),
            Refused(changed("self", shape=(1,) * 9) | {"reduction": 9}, "reduction: expected"),
        ),
        accepted={"another type": changed("out", data_type=FLOAT16)},
    ),
    "smooth_l1_loss_backward": order(
        "gradOut",
        "gradInput",
        refused=(
            *_betas(0.0, -1.0, 9e-7, float("nan")),
            Refused({"reduction": 9, "beta": -1.0}, "reduction: expected"),
            Refused({"beta": -1.0} | shapes(target=(7,)), "beta: expected"),
        ),
        accepted={"the least beta": {"beta": 1e-6}, "a beta beyond all": {"beta": float("inf")}},
    ),
}
