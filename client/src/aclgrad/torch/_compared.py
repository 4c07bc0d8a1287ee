"""Compares the gradients of a training step, each with those of a server, while the step goes its own way."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ContextDecorator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from aclgrad._client.sync.client import Client
from aclgrad.judgement.report import worst_first
from aclgrad.judgement.rows import Finding, Origin, Row, Task, Verdict
from aclgrad.torch._account import LocalError, aligned, layer_of
from aclgrad.torch._clients import number_of
from aclgrad.torch._functions import rerouted
from aclgrad.torch._recorded import Expected, RecordedCall, Served


@dataclass(frozen=True, slots=True)
class _Kept:
    row: Row
    call: RecordedCall
    served: Served
    expected: Expected


class compare_backward(TorchFunctionMode, ContextDecorator):  # noqa: N801 - as torch.no_grad
    """Within the block, gradients of these functions are computed here, as ever, and for comparison by the server.

    with aclgrad.torch.compare_backward(client) as compared:
        loss = model(images).sum()
        loss.backward()
    print(compared)
    compared.save("worst.safetensors")

    backward() may also follow the block. When the gradient of an output arrives, the call is repeated in float64, by
    PyTorch in its own dtype, and by the server; the step goes on with its own gradient. `rows` has a row for each
    gradient: failed if the server's error is one that PyTorch could not have made. The graph keeps the arguments alive.
    Calls in graphs of torch.compile, TorchScript and torch.func are not seen.
    """

    def __init__(self, client: Client) -> None:
        super().__init__()
        number_of(client)  # raises for what is no client
        self.rows: list[Row] = []
        self._client = client
        self._functions = rerouted()
        self._worst: _Kept | None = None
        self._lock = threading.Lock()
        status = client.server_status()
        self._origin = Origin(str(client.target), status.product, status.library, status.runtime_version)

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = dict(kwargs or {})
        result = function(*args, **options)
        if function in self._functions and not torch.compiler.is_compiling():
            first = result[0] if isinstance(result, tuple | list) else result
            if isinstance(first, Tensor) and first.requires_grad:
                self._watch(first, function, args, options)
        return result

    def _watch(
        self, output: Tensor, function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]
    ) -> None:
        layer = layer_of(sys._getframe(1))  # noqa: SLF001 - the only way to know the layer
        kind = output.device.type
        is_on = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
        autocast = torch.get_autocast_dtype(kind) if is_on else None
        versions = _versions(args, options)

        def arrived(grad_output: Tensor) -> None:
            call = RecordedCall(function, self._functions[function], args, options, grad_output, autocast)
            self._compare(call, layer, is_changed=versions != _versions(args, options))

        output.register_hook(arrived)

    def _compare(self, call: RecordedCall, layer: str, *, is_changed: bool) -> None:
        begin = time.monotonic()
        names = call.names()
        try:
            if is_changed:
                raise LocalError("its arguments were changed in place since; leave inplace=True out")
            served, expected = Served.of(call, self._client), Expected.of(call)
            found = {name: served.judge(name, expected, self._client) for name in served.gradients}
        except Exception as reason:  # the step is the user's: what goes wrong beside it is told in a row
            self._take(self._row(call, layer, "", Finding(Verdict.SKIPPED, str(reason)), begin))
            return
        kept = call.detached()
        for name, finding in found.items():
            row = self._row(call, layer, names[name], finding, begin)
            self._take(row, _Kept(row, kept, served, expected))

    def _row(self, call: RecordedCall, layer: str, name: str, finding: Finding, begin: float) -> Row:
        shape = tuple(call.grad_output.shape)
        dtype = str(call.grad_output.dtype).removeprefix("torch.")
        case = " ".join(part for part in (layer, name) if part)
        task = Task(self._origin, "compare_backward", call.function.__name__, dtype, shape, case, lambda: finding)
        return Row.of(task, finding, time.monotonic() - begin)

    def _take(self, row: Row, kept: _Kept | None = None) -> None:
        with self._lock:
            self.rows.append(row)
            # Of equal ones the first stays.
            if kept and (self._worst is None or worst_first([self._worst.row, row])[0] is row):
                self._worst = kept

    @property
    def failed(self) -> list[Row]:
        """The rows whose gradient is wrong, the worst first."""
        return [row for row in worst_first(self.rows) if row.verdict is Verdict.FAILED]

    def save(self, path: str | Path) -> None:
        """Writes the worst call as safetensors, to attach to a report.

        It holds the call's tensors by the names of its arguments, `grad_output`, and each gradient by "gradient.NAME",
        "pytorch.NAME" and, in float64, "expected.NAME"; the metadata has the function, its other arguments and the
        verdict. Raises ValueError if nothing was compared.
        """
        from safetensors.torch import save_file

        from aclgrad.torch._tensors import tensor_of

        worst = self._worst
        if worst is None:
            raise ValueError("no gradient was compared, so there is none to save; call backward() first")
        names = worst.call.names()
        tensors = {names[place]: each for place, each in worst.call.inputs().items()}
        tensors["grad_output"] = worst.call.grad_output
        for kind, gradients in (
            ("gradient", worst.served.gradients),
            ("pytorch", worst.expected.benchmarks),
            ("expected", worst.expected.truths),
        ):
            tensors |= {f"{kind}.{names[place]}": tensor_of(each) for place, each in gradients.items()}
        others = [each for each in worst.call.args if not isinstance(each, Tensor)]
        options = {name: each for name, each in worst.call.kwargs.items() if not isinstance(each, Tensor)}
        metadata = {
            "function": worst.row.operator,
            "arguments": repr((others, options)),
            "gradient": worst.row.case,
            "verdict": f"{worst.row.verdict}: {worst.row.message}",
            "server": f"{self._origin.product} {self._origin.library} {self._origin.runtime_version}",
        }
        save_file({name: each.detach().cpu().contiguous().clone() for name, each in tensors.items()}, path, metadata)

    def __str__(self) -> str:
        """Returns a line for each function and layer, the worst first, and a last one with the sums."""
        lines = [("verdict", "gradients", "of limit", "function", "gradient of", "because")]
        groups: dict[tuple[str, str, Verdict], list[Row]] = {}
        for row in worst_first(self.rows):
            groups.setdefault((row.operator, row.case, row.verdict), []).append(row)
        for (function, case, verdict), rows in groups.items():
            share = rows[0].figures.get("error_of_limit")
            error = "" if share is None else f"{share:.1%}"
            lines.append((verdict, str(len(rows)), error, function, case, rows[0].message))
        counts = Counter(row.verdict for row in self.rows)
        sums = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict)
        return "\n".join([*aligned(lines), sums])


def _versions(args: tuple[Any, ...], options: Mapping[str, Any]) -> list[int]:
    """Returns how often each tensor was changed in place."""
    tensors = (each for each in (*args, *options.values()) if isinstance(each, Tensor))
    return [each._version for each in tensors]  # noqa: SLF001 - what autograd itself compares
