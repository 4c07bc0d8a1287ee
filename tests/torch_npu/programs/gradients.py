"""Gradients of every operator through torch_npu, compared with PyTorch's own on the CPU; prints a line of JSON."""

import functools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch_npu
from torch.nn import functional
from torch.utils.cpp_extension import load

from gradient_case import Case, uniform  # isort: skip
from small_operators import activations, class_losses, dropout, losses  # isort: skip

PRODUCT, CANN, BUILT = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
HERE = Path(__file__).parent
NPU = Path(torch_npu.__file__).parent
HAS_MASKS = PRODUCT != "950"
aten = torch.ops.aten
own = load(
    "aclgrad_torch_npu_operators",
    [str(HERE / "operators.cpp")],
    # torch_npu's headers of CANN come first: they are those that its own are written for.
    extra_include_paths=[str(NPU / "include"), str(HERE.parents[2] / "native/include")],
    extra_cflags=["-O1"],
    extra_ldflags=[f"-L{NPU / 'lib'}", "-ltorch_npu", f"-L{CANN}", "-lopapi", "-lascendcl"],
    build_directory=str(BUILT),
)
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda x: x.npu(),
    "transposed": lambda x: x.mT.contiguous().npu().mT if x.dim() > 1 else x.npu(),
    "offset": lambda x: torch.cat([torch.full((3,), 9.0, dtype=x.dtype), x.reshape(-1)]).npu()[3:].view(x.shape),
}


def cases(n: int, c: int, h: int, w: int) -> Iterator[Case]:
    plane, volume = uniform(n, c, h, w), uniform(n, c, 4, h, w)
    yield Case(
        "adaptive_avg_pool2d_backward",
        lambda x: functional.adaptive_avg_pool2d(x, (3, 2)),
        plane,
        aten._adaptive_avg_pool2d_backward,  # noqa: SLF001 - its only name
    )
    yield Case(
        "adaptive_avg_pool3d_backward",
        lambda x: functional.adaptive_avg_pool3d(x, (2, 3, 2)),
        volume,
        aten._adaptive_avg_pool3d_backward,  # noqa: SLF001
    )
    yield Case(
        "avg_pool2d_backward",
        lambda x: functional.avg_pool2d(x, 3, 2, 1, False, False),
        plane,
        lambda g, x: aten.avg_pool2d_backward(g, x, [3, 3], [2, 2], [1, 1], False, False, None),
    )
    yield max_pool(plane)
    for size in (1, 2, 3):
        x = volume if size == 3 else plane if size == 2 else plane[0]
        pads = [1, 2, 2, 1, 1, 1][: 2 * size]
        for kind, mode in (("replication", "replicate"), ("reflection", "reflect")):
            backward = getattr(aten, f"{kind}_pad{size}d_backward")
            yield Case(
                f"{kind}_pad{size}d_backward",
                lambda x, pads=pads, mode=mode: functional.pad(x, pads, mode),
                x,
                lambda g, x, pads=pads, backward=backward: backward(g, x, pads),
            )
    yield Case(
        "upsample_nearest2d_backward",
        lambda x: functional.interpolate(x, (2 * h, w + 3)),
        plane,
        lambda g, x: aten.upsample_nearest2d_backward(g, [2 * h, w + 3], list(x.shape), None, None),
    )
    yield max_unpool(2, plane)
    yield max_unpool(3, volume)
    yield roi_align(plane)
    # Of two axes: of more, torch_npu copies a transposed input by a compiler of operators, which no host has.
    yield from of_function("linear", functional.linear, uniform(c, h), uniform(w, h), uniform(w))
    yield from of_function("matmul", torch.matmul, uniform(n, 1, c, h), uniform(w, h, 4))
    yield from of_function("bmm", torch.bmm, uniform(n, c, h), uniform(n, h, w))
    yield from of_function("addmm", torch.addmm, uniform(w), uniform(c, h), uniform(h, w))
    yield from of_function("mm", torch.mm, uniform(c, h), uniform(h, w))
    yield from of_convolution(plane[:, :, 0].contiguous(), uniform(4, c, 3), False, 1, 1, 1, 0, 1)
    yield from of_convolution(uniform(n, 4, h, w), uniform(6, 2, 3, 2), False, 2, 1, 1, 0, 2)
    yield from of_convolution(volume, uniform(c, 1, 2, 3, 3), False, 1, 2, 2, 0, c)
    yield from of_convolution(uniform(n, 4, h, w), uniform(4, 3, 3, 2), True, 2, 1, 1, 1, 2)
    yield from of_convolution(volume, uniform(c, 2, 2, 3, 2), True, 1, 0, 1, 0, 1)
    yield from activations(plane)
    yield from losses(plane)
    yield from class_losses(plane.log_softmax(1), torch.randint(0, c, (n, h, w)))
    yield Case(
        "upsample_bilinear2d_backward_v2",
        lambda x: functional.interpolate(x, (2 * h, w + 3), mode="bilinear"),
        plane,
        lambda g, x: aten.upsample_bilinear2d_backward(g, [2 * h, w + 3], list(x.shape), False, None, None),
    )
    yield dropout(plane)


def of_convolution(input: torch.Tensor, weight: torch.Tensor, transposed: bool, *lists: int) -> Iterator[Case]:
    """Yields each gradient, and all together, whose bias is compared. The device has no forward pass."""
    stride, padding, dilation, more, groups = lists
    axes = input.dim() - 2
    function = getattr(functional, f"conv{'_transpose' if transposed else ''}{axes}d")
    bias = uniform(weight.shape[1] * groups if transposed else weight.shape[0])
    operands = (input, weight, bias)
    name = f"convolution{axes}d{'_transposed' if transposed else ''}"
    for index, operand in enumerate(operands):

        def forward(own: torch.Tensor, index: int = index) -> torch.Tensor:
            x, w, b = (own if at == index else each for at, each in enumerate(operands))
            if transposed:
                return function(x, w, b, stride, padding, more, groups, dilation)
            return function(x, w, b, stride, padding, dilation, groups)

        def backward(gradient: torch.Tensor, own: torch.Tensor, index: int = index, *, is_alone: bool = True) -> Any:
            x, w, _ = (own if at == index else each.npu() for at, each in enumerate(operands))
            mask = [at == index or not is_alone for at in range(3)]
            spread = ([each] * axes for each in (stride, padding, dilation))
            return aten.convolution_backward(
                gradient, x, w, list(bias.shape), *spread, transposed, [more] * axes, groups, mask
            )[index]

        yield Case(f"{name}.{index}", forward, operand, backward)
        together = functools.partial(backward, is_alone=False)
        yield Case(f"{name}.{index}_together", forward, operand, together)


def of_function(name: str, function: Callable[..., torch.Tensor], *operands: torch.Tensor) -> Iterator[Case]:
    """Yields the gradient of each operand, by the autograd of the device: forward and backward pass."""
    for index, operand in enumerate(operands):

        def forward(own: torch.Tensor, index: int = index) -> torch.Tensor:
            return function(*(each.to(own.device) if at != index else own for at, each in enumerate(operands)))

        def backward(gradient: torch.Tensor, own: torch.Tensor, forward: Callable[..., torch.Tensor] = forward) -> Any:
            own = own.detach().requires_grad_()
            return torch.autograd.grad(forward(own), own, gradient)[0]

        yield Case(f"{name}.{index}", forward, operand, backward)


def max_pool(plane: torch.Tensor) -> Case:
    """The mask of 910B and 910_93 begins with the indices as INT32; the 950 takes indices."""
    n, c = plane.shape[:2]
    output, indices = functional.max_pool2d(plane, 3, 2, 1, return_indices=True)
    given = indices.to(torch.int32)
    if HAS_MASKS:
        cells = (output.shape[2] * output.shape[3] + 15) // 16 + 1
        buffer = torch.zeros(n * c * 9 * cells * 32, dtype=torch.int8)
        head = given.reshape(-1).view(torch.int8)
        buffer[: head.numel()] = head
        given = buffer.view(n, c, 9, cells * 32)
    return Case(
        "max_pool2d_with_mask_backward" if HAS_MASKS else "max_pool2d_with_indices_backward",
        lambda x: functional.max_pool2d(x, 3, 2, 1),
        plane,
        lambda g, x: aten.max_pool2d_with_indices_backward(g, x, [3, 3], [2, 2], [1, 1], [1, 1], False, given.npu()),
    )


def max_unpool(size: int, input: torch.Tensor) -> Case:
    output = [2 * each for each in input.shape[-size:]]
    cells = torch.Size(output).numel()
    count = torch.Size(input.shape[-size:]).numel()
    indices = torch.stack([torch.randperm(cells)[:count] for _ in range(input.shape[0] * input.shape[1])]).view(
        input.shape
    )
    unpool = aten.max_unpool2d if size == 2 else lambda x, i, o: aten.max_unpool3d(x, i, o, [2, 2, 2], [0, 0, 0])
    if size == 2:
        backward = lambda g, x: own.max_unpool2d_backward(g, x, indices.npu(), output)  # noqa: E731
    else:
        backward = lambda g, x: own.max_unpool3d_backward(g, x, indices.npu(), output, [2, 2, 2], [0, 0, 0])  # noqa: E731
    return Case(f"max_unpool{size}d_backward", lambda x: unpool(x, indices, output), input, backward)


def roi_align(plane: torch.Tensor) -> Case:
    """By bilinear samples, which PyTorch's grid_sample takes between the same four cells."""
    n, _, h, w = plane.shape
    boxes = torch.tensor([[0.0, 1.0, 1.0, 5.0, 4.0], [n - 1.0, 0.5, 0.0, 3.0, 3.5]])

    def forward(x: torch.Tensor) -> torch.Tensor:
        pooled = []
        for box in boxes:
            x1, y1, x2, y2 = box[1:]
            xs = x1 + (torch.arange(4) + 0.5) * (x2 - x1) / 4
            ys = y1 + (torch.arange(4) + 0.5) * (y2 - y1) / 4
            grid = torch.stack(torch.meshgrid(2 * xs / (w - 1) - 1, 2 * ys / (h - 1) - 1, indexing="xy"), -1)[None]
            taken = functional.grid_sample(
                x[int(box[0])][None].double(), grid.double(), align_corners=True, padding_mode="border"
            )
            pooled.append(functional.avg_pool2d(taken, 2)[0])
        return torch.stack(pooled).to(x.dtype)

    def backward(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return own.roi_align_v2_backward(g, boxes.to(g.dtype).npu(), list(x.shape), 2, 2, 1.0, 2, False)

    return Case("roi_align_v2_backward", forward, plane, backward)


def expected(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns a gradient of the output and the input's, which PyTorch computes."""
    x = case.input.clone().requires_grad_()
    output = case.forward(x)
    gradient = torch.randn(output.shape)
    (result,) = torch.autograd.grad(output, x, gradient)
    return gradient, result


def main() -> dict[str, Any]:
    torch.manual_seed(7)
    rows: dict[str, list[int]] = {}
    wrong = []
    for shape in ((2, 3, 7, 6), (1, 17, 9, 8)):
        for case in cases(*shape):
            gradient, result = expected(case)
            for layout, place in LAYOUTS.items():
                row = rows.setdefault(f"{case.operator} {layout}", [0, 0])
                row[1] += 1
                try:
                    ours = case.backward(place(gradient), place(case.input)).cpu()
                except RuntimeError as error:
                    wrong.append(f"{case.operator} {layout}: {str(error)[:400]}")
                    continue
                if torch.allclose(ours, result, rtol=case.tolerance, atol=case.tolerance):
                    row[0] += 1
                else:
                    wrong.append(f"{case.operator} {layout}: off by {(ours - result).abs().max():.3g}")
    return {"rows": rows, "wrong": wrong}


print(json.dumps(main()))
