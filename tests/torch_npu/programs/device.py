"""What a program does with torch_npu beside operators, on two devices; prints a line of JSON with each answer."""

import json
import threading
from collections.abc import Callable

import torch
import torch_npu  # noqa: F401 - makes torch.npu

aten = torch.ops.aten
pool_backward = aten._adaptive_avg_pool2d_backward  # noqa: SLF001 - its only name
INPUT, GRADIENT = torch.rand(1, 2, 6, 6), torch.rand(1, 2, 3, 3)
RESULT = pool_backward(GRADIENT, INPUT)


def backward(device: str = "npu:0") -> torch.Tensor:
    return pool_backward(GRADIENT.to(device), INPUT.to(device))


def is_right(result: torch.Tensor) -> bool:
    return torch.allclose(result.cpu(), RESULT)


class Pool(torch.autograd.Function):
    """PyTorch's own pooling, whose gradient the device computes."""

    @staticmethod
    def forward(context, input):
        context.save_for_backward(input)
        return torch.nn.functional.adaptive_avg_pool2d(input.cpu(), (3, 3)).npu()

    @staticmethod
    def backward(context, gradient):
        return pool_backward(gradient, *context.saved_tensors)


class Pad(torch.autograd.Function):
    @staticmethod
    def forward(context, input):
        context.save_for_backward(input)
        return torch.nn.functional.pad(input.cpu(), (1, 1, 1, 1), "replicate").npu()

    @staticmethod
    def backward(context, gradient):
        return aten.replication_pad2d_backward(gradient, *context.saved_tensors, [1, 1, 1, 1])


def autograd_chain() -> bool:
    reference = INPUT.clone().requires_grad_()
    padded = torch.nn.functional.pad(reference, (1, 1, 1, 1), "replicate")
    torch.nn.functional.adaptive_avg_pool2d(padded, (3, 3)).backward(GRADIENT)
    ours = INPUT.npu().requires_grad_()
    Pool.apply(Pad.apply(ours)).backward(GRADIENT.npu())
    return torch.allclose(ours.grad.cpu(), reference.grad)


def streams_and_events() -> bool:
    stream, begun, ended = torch.npu.Stream(), torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    with torch.npu.stream(stream):
        begun.record()
        result = backward()
        ended.record()
    torch.npu.current_stream().wait_event(ended)
    ended.synchronize()
    return is_right(result) and ended.query() and stream.query() and begun.elapsed_time(ended) >= 0


def pinned_memory() -> bool:
    pinned, back = INPUT.pin_memory(), torch.empty_like(INPUT, pin_memory=True)
    back.copy_(pinned.npu(non_blocking=True), non_blocking=True)
    torch.npu.synchronize()
    return pinned.is_pinned() and torch.equal(back, INPUT)


def two_devices() -> bool:
    first, second = backward("npu:0"), backward("npu:1")
    moved = first.to("npu:1")
    return (first.device.index, second.device.index) == (0, 1) and all(map(is_right, (first, second, moved)))


def threads() -> bool:
    results: list[bool] = []

    def work(device: str) -> None:
        results.extend(is_right(backward(device)) for _ in range(20))

    workers = [threading.Thread(target=work, args=(f"npu:{number % 2}",)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return results == [True] * 80


def memory() -> bool:
    kept = INPUT.npu()
    free, total = torch.npu.mem_get_info()
    return 0 < free <= total and torch.npu.memory_allocated() >= kept.nbytes


CHECKS: tuple[Callable[[], bool], ...] = (
    autograd_chain,
    streams_and_events,
    pinned_memory,
    two_devices,
    threads,
    memory,
)
print(json.dumps({check.__name__: check() for check in CHECKS}))
