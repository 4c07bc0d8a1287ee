"""Compares the gradients of a training step with a server's, without changing the step."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from aclgrad._client.sync.client import Client
from aclgrad.judge.findings.rows import Finding, Origin, Row, Task, Verdict, by_key, worst_first
from aclgrad.judge.replay.calls import Expected, PyTorchCall, ServerGradients
from aclgrad.judge.replay.dropout import as_it_kept, is_dropout
from aclgrad.torch.calls import ARITHMETIC, CallSite, LocalError, SeenCalls, aligned, grouped, tensor_of


@dataclass(frozen=True, slots=True)
class _Kept:
    row: Row
    call: PyTorchCall
    actual: ServerGradients
    expected: Expected


class compare_backward(SeenCalls):  # noqa: N801 - as torch.no_grad
    """Within the block, gradients of these functions are computed here, as ever, and for comparison by the server.

    with aclgrad.torch.compare_backward(client) as compared:
        loss = model(images).sum()
        loss.backward()
    print(compared)
    compared.save("worst.safetensors")

    backward() may also follow the block. When the gradient of an output arrives, the call is repeated in float64, by
    PyTorch in its own dtype, and by the server; the step goes on with its own gradient. `rows` has a row for each
    gradient: failed if the server's error is one that PyTorch could not have made. The graph keeps the arguments alive.
    Calls in graphs of torch.compile, TorchScript and torch.func are not compared. Printed, it begins with the backward
    calls that were not compared, by function, layer and reason, which `calls()` counts.
    """

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.rows: list[Row] = []
        self._outcomes: Counter[tuple[CallSite, str | None]] = Counter()
        self._worst: _Kept | None = None
        self._lock = threading.Lock()
        self._origin = Origin.of(str(client.target), client.server_status())

    def _see(
        self,
        output: Tensor,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        options: Mapping[str, Any],
        sites: Sequence[CallSite],
    ) -> None:
        kind = output.device.type
        is_on = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
        autocast = torch.get_autocast_dtype(kind) if is_on else None
        versions = _versions(args, options)
        called, remote = function, self.functions[function]
        if is_dropout(function.__name__):
            # A call with p = 0 makes no node, so it is not seen.
            called, remote = as_it_kept(function.__name__, args, options, [output.detach()])
        is_first = True

        def arrived(grad_output: Tensor) -> None:
            nonlocal is_first
            call = PyTorchCall(called, remote, args, options, grad_output, autocast)
            because = self._compare(call, sites[0].layer, is_changed=versions != _versions(args, options))
            if is_first:
                is_first = False
                with self._lock:
                    self._outcomes.update((site, because) for site in sites)

        output.register_hook(arrived)

    def _compare(self, call: PyTorchCall, layer: str, *, is_changed: bool) -> str | None:
        """Takes a row for each gradient of the call; returns why it was not compared, or None."""
        begin = time.monotonic()
        names = call.names()
        try:
            if is_changed:
                raise LocalError("its arguments were changed in place since; leave inplace=True out")
            actual, expected = ServerGradients.of(call, self.client), Expected.of(call)
            found = {name: actual.judge(name, expected, self.client) for name in actual.gradients}
        except Exception as reason:  # errors of the comparison go into a row, not into the user's step
            self._take(self._row(call, layer, "", Finding(Verdict.SKIPPED, str(reason)), begin))
            return str(reason)
        kept = call.detached()
        for name, finding in found.items():
            row = self._row(call, layer, names[name], finding, begin)
            self._take(row, _Kept(row, kept, actual, expected))
        skipped = [finding.message for finding in found.values() if finding.verdict is Verdict.SKIPPED]
        return skipped[0] if len(skipped) == len(found) else None

    def _row(self, call: PyTorchCall, layer: str, name: str, finding: Finding, begin: float) -> Row:
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

        worst = self._worst
        if worst is None:
            raise ValueError("no gradient was compared, so there is none to save; call backward() first")
        names = worst.call.names()
        tensors = {names[key]: each for key, each in worst.call.inputs().items()}
        tensors["grad_output"] = worst.call.grad_output
        for kind, gradients in (
            ("gradient", worst.actual.gradients),
            ("pytorch", worst.expected.benchmarks),
            ("expected", worst.expected.truths),
        ):
            tensors |= {f"{kind}.{names[key]}": tensor_of(each) for key, each in gradients.items()}
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

    def calls(self) -> Counter[CallSite]:
        """Returns the backward calls of the step without plain arithmetic; compared ones have no reason."""
        calls = self.backward_calls()
        with self._lock:
            outcomes = self._outcomes.copy()
        for (site, because), count in outcomes.items():
            count = min(count, calls[site])
            calls[site] -= count
            calls[replace(site, because=because)] += count
        return +calls

    def _coverage(self) -> list[str]:
        """Returns how many calls of the step were compared, and a line for each function that was not."""
        calls, arithmetic = self.calls(), self.arithmetic
        compared = sum(count for site, count in calls.items() if site.because is None)
        lines = [("calls", "not compared", "layer", "because")]
        for site, layers, count in grouped({site: count for site, count in calls.items() if site.because}):
            lines.append((str(count), site.function, layers, site.because or ""))
        if arithmetic:
            lines.append((str(arithmetic), ARITHMETIC, "", ""))
        head = f"{compared} of {calls.total() + arithmetic} backward calls of the step were compared"
        return [head, *(aligned(lines) if len(lines) > 1 else []), ""]

    def __str__(self) -> str:
        """Returns the comparison: a line for each function and layer, the worst first, and one with the sums."""
        lines = [("verdict", "gradients", "of limit", "function", "gradient of", "because")]
        groups = by_key(worst_first(self.rows), lambda row: (row.operator, row.case, row.verdict))
        for (function, case, verdict), rows in groups.items():
            share = rows[0].figures.get("error_of_limit")
            error = "" if share is None else f"{share:.1%}"
            lines.append((verdict, str(len(rows)), error, function, case, rows[0].message))
        counts = Counter(row.verdict for row in self.rows)
        sums = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict)
        return "\n".join([*self._coverage(), *aligned(lines), sums])


def _versions(args: tuple[Any, ...], options: Mapping[str, Any]) -> list[int]:
    """Returns how often each tensor was changed in place."""
    tensors = (each for each in (*args, *options.values()) if isinstance(each, Tensor))
    return [each._version for each in tensors]  # noqa: SLF001 - what autograd itself compares
