"""Whole training steps as one program, beside PyTorch's own: bytes, errors, time, and the server's memory.

`BENCH_FLAGS="resnet50=8 gpt2=1"` names models and batch sizes, and `--quick` takes small models. Figures with a bound
have it in their heading. With `--wire 1gbit`, the steps go over such a wire instead, beside the same in
`remote_backward`: see `tools.benchmarks.wire`.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

import aclgrad
import aclgrad.torch
from aclgrad.operators.dropout_do_mask.spec import mask_bytes
from tools.benchmarks.measure import Figures, ServerUnderTest, in_turns
from tools.benchmarks.report import Report
from tools.calling import wait_until
from tools.changed_server import Told
from tools.models import MODELS, Known
from tools.serving import Server

BATCHES: Final = {
    "resnet18": 4,
    "resnet50": 2,
    "vit": 2,
    "gpt2": 1,
    "bert": 4,
    "unet": 1,
    "diffusion": 1,
    "llama": 1,
}
"""Examples of a step that takes seconds."""
MOST_BYTES, MOST_ERROR, MOST_TIME, MOST_PLAN_MS, MOST_MEMORY = 1.05, 4, 2.5, 1, 1.3
"""Bytes to those that have to go; errors and time to PyTorch's; memory to what admission gave out."""
TELLING: Final = "tell_programs"
Step = Callable[[], Tensor]


class Drawn(TorchFunctionMode):
    """Counts the bytes of what a step draws, as it is sent; noise is the same in each precision."""

    size_bytes = 0

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        if function is torch.randn_like:
            self.size_bytes += args[0].numel() * 4
            return torch.randn(args[0].shape).to(args[0].dtype)
        if function is functional.dropout and options["p"] and options["training"]:
            self.size_bytes += mask_bytes(args[0].numel())
        return function(*args, **options)


def main(quick: bool, arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="make bench WHAT=steps", description=__doc__)
    parser.add_argument("models", nargs="*", type=_sized, metavar="MODEL=BATCH", help=f"of {', '.join(MODELS)}")
    parser.add_argument("--rounds", type=int, default=3 if quick else 5)
    parser.add_argument("--max-call-bytes", help="the server's flag, for large batches")
    parser.add_argument("--wire", help="a rate of `tc`, such as 1gbit")
    parser.add_argument("--delay-ms", type=float, default=10.0, help="what a round trip on the wire takes more")
    flags = parser.parse_args(arguments)
    server_flags = ["--max-call-bytes", flags.max_call_bytes] if flags.max_call_bytes else []
    if flags.wire:
        from tools.benchmarks import wire

        wire.measure(dict(flags.models), quick, flags.rounds, flags.wire, flags.delay_ms / 1e3, server_flags)
        return
    report, batches = Report("steps", __doc__ or ""), dict(flags.models) or BATCHES
    tell_costs(report, batches, quick, flags.rounds, server_flags)
    tell_errors(report, batches, quick, server_flags)
    report.write()


def _sized(text: str) -> tuple[str, int]:
    name, _, size = text.partition("=")
    if name not in MODELS:
        raise argparse.ArgumentTypeError(f"no model {name!r}")
    return name, int(size or BATCHES[name])


def made(name: str, small: bool, count: int) -> tuple[Known, nn.Module, tuple[Tensor, ...]]:
    """Returns a model, from the same numbers each time, and a batch."""
    torch.manual_seed(1)
    known = MODELS[name]
    return known, known.make(small), known.batch(small, count)


def own_step(known: Known, model: nn.Module, batch: Sequence[Tensor]) -> Tensor:
    """Computes a step by PyTorch."""
    loss = known.loss(model, *batch)
    loss.backward()
    return loss.detach()


def tell_costs(report: Report, batches: Mapping[str, int], small: bool, rounds: int, flags: Sequence[str]) -> None:
    """Adds the table of bytes, time and memory, each with a server that has done nothing else."""
    moved, spent = f"ratio (most {MOST_BYTES})", f"ratio (most {MOST_TIME})"
    moves, times = ("up MB", moved, "down MB", moved), ("PyTorch s", "step s", spent, "kernels s", "first s")
    serves = f"plan ms (most {MOST_PLAN_MS})", "claimed MB", "peak MB", f"ratio (most {MOST_MEMORY})"
    report.table("Costs of a step", "model", "batch", "operators", "programs", *moves, *times, *serves)
    for name, count in batches.items():
        known, model, batch = made(name, small, count)
        with Server(*flags, changes=TELLING) as server, aclgrad.Client(server.address, timeout_s=600) as client:
            process = ServerUnderTest(server.process_id, server.address)
            process.forget_peak()
            idle = process.peak_bytes()
            step = aclgrad.torch.remote_step(model, known.loss, client, verify_every=0)
            first_s = timed(model, partial(step, *batch))["s"]
            own_step(known, model, batch)  # PyTorch's first step is slower, too
            rows = {"own": partial(own_step, known, model, batch), "step": partial(step, *batch)}
            found = in_turns({way: partial(timed, model, run) for way, run in rows.items()}, rounds)
            grown = process.peak_bytes() - idle
            told = told_by(server, lambda lines: len(lines) % (rounds + 1) == 0 and bool(lines))
        programs = len(told) // (rounds + 1)
        least_up, least_down = least_bytes(known, model, batch)
        claimed = max(each.claimed_bytes for each in told)
        later = told[programs:]
        plan_ms = statistics.median(each.planned_s for each in later) * 1e3
        kernels_s = statistics.median(kernels_of(later, programs))
        report.row(
            *(name, str(count), str(sum(each.steps for each in told[:programs])), str(programs)),
            *(f"{step.sent_bytes / 1e6:.1f}", f"{step.sent_bytes / least_up:.3f}"),
            *(f"{step.received_bytes / 1e6:.1f}", f"{step.received_bytes / least_down:.3f}"),
            *(f"{found['own'].median('s'):.2f}", f"{found['step'].median('s'):.2f}"),
            *(f"{found['step'].ratio(found['own'], 's'):.2f}", f"{kernels_s:.2f}", f"{first_s:.1f}", f"{plan_ms:.2f}"),
            *(f"{claimed / 1e6:.0f}", f"{grown / 1e6:.0f}", f"{grown / claimed:.2f}"),
        )


def least_bytes(known: Known, model: nn.Module, batch: Sequence[Tensor]) -> tuple[int, int]:
    """Returns the bytes that have to go up and down: masks are bits, and noise is drawn where the client is."""
    with torch.no_grad(), Drawn() as drawn:
        known.loss(model, *batch)
    parameters, buffers, given = (
        sum(each.nbytes for each in tensors) for tensors in (model.parameters(), model.buffers(), batch)
    )
    return parameters + buffers + given + drawn.size_bytes, parameters + buffers + 4


def told_by(server: Server, is_all: Callable[[list[Told]], bool]) -> list[Told]:
    """Returns what the server's log says of programs, as soon as it says all: the log is written behind."""
    wait_until(lambda: is_all(Told.all_in(server.log)), look_s=0.05)
    return Told.all_in(server.log)


def kernels_of(told: Sequence[Told], count: int) -> list[float]:
    """Returns the seconds of kernels in each step, which has so many programs."""
    return [sum(each.kernels_s for each in told[begin : begin + count]) for begin in range(0, len(told), count)]


def timed(model: nn.Module, run: Step) -> Figures:
    """Returns the seconds of a step that finds no gradients."""
    model.zero_grad()
    begin = time.perf_counter()
    run()
    return {"s": time.perf_counter() - begin}


def tell_errors(report: Report, batches: Mapping[str, int], small: bool, flags: Sequence[str]) -> None:
    """Adds the table of errors against float64, without dropout, whose masks would be others there."""
    most = f"ratio (most {MOST_ERROR})"
    report.table("Errors to float64", "model", "batch", "loss", "PyTorch's", most, "gradients", "PyTorch's", most)
    with Server(*flags) as server, aclgrad.Client(server.address, timeout_s=600) as client:
        for name, count in batches.items():
            known, model, batch = made(name, small, count)
            for each in model.modules():
                if isinstance(each, nn.Dropout):
                    each.p = 0.0
            state = {key: each.clone() for key, each in model.state_dict().items()}
            step = aclgrad.torch.remote_step(model, known.loss, client, verify_every=0)
            found = _values(model, partial(step, *batch))
            model.load_state_dict(state)
            own = _values(model, partial(own_step, known, model, batch))
            model.load_state_dict(state)
            wide = [each.double() if each.is_floating_point() else each for each in batch]
            truth = _values(model.double(), partial(own_step, known, model, wide))
            cells = []
            for parts in (slice(1), slice(1, None)):
                one, other = (_error(each[parts], truth[parts]) for each in (found, own))
                cells += [f"{one:.1e}", f"{other:.1e}", f"{one / other:.2f}" if other else "-"]
            report.row(name, str(count), *cells)


def _values(model: nn.Module, run: Step) -> list[Tensor]:
    """Returns the loss and the gradients of a step."""
    model.zero_grad()
    torch.manual_seed(2)
    with Drawn():
        loss = run()
    return [loss, *(each.grad for each in model.parameters() if each.grad is not None)]


def _error(found: Sequence[Tensor], truth: Sequence[Tensor]) -> float:
    """Returns the norm of all errors, to that of the true values."""
    pairs = list(zip(found, truth, strict=True))
    wrong = sum(float((one.double() - other.double()).square().sum()) for one, other in pairs)
    return float((wrong / sum(float(other.double().square().sum()) for _, other in pairs)) ** 0.5)
