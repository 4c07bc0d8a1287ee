"""`aclgrad call --bundle`: the call of a bundle once more, beside what it gave before and what is expected."""

import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from aclgrad._client.calls.call import Call
from aclgrad._client.calls.requirements import MAX_MESSAGE_BYTES, Requirements
from aclgrad._client.sync.client import Client
from aclgrad.commands.call import check_room, named, told
from aclgrad.commands.common import FAILED, chosen, connection, exit_codes, print_json
from aclgrad.commands.files import checked_output, save
from aclgrad.judge.bundles import Bundle, BundledCall, read
from aclgrad.judge.findings import comparison
from aclgrad.judge.findings.rows import Finding, Verdict
from aclgrad.new_files import check_unwritten
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.tensors import TensorType


def call_again(path: Path, output: Path | None, force: bool, timeout_s: float, as_json: bool, target: str) -> None:
    """Makes the call, tells what has changed, and exits with 1 if a gradient is outside the tolerance."""
    with exit_codes("call"):
        if output is not None:
            check_unwritten(checked_output(output), overwrite=force)
        bundle = read(path)
        call = bundle.call
        types = _types(path, call)
        check_room(output, tuple(types))
        with Client.from_env(**connection(target), timeout_s=timeout_s) as client:
            start = time.perf_counter()
            result = client.execute(call.operator, call.inputs, call.attributes, outputs=call.outputs or None)
            seconds = time.perf_counter() - start
        gradients = named(result)
        if output is not None:
            save(output, gradients, overwrite=force)
        now, before = tuple(gradients.values()), tuple(call.gradients[name] for name in types)
        difference = "" if comparison.same_bits(now, before) else comparison.difference(now, before)
        truths = tuple(call.expected[name] for name in types)
        finding = comparison.against_definition(now, truths, types, call.tolerance)
        if as_json:
            print_json({**told(call.operator, gradients, seconds, output), **_compared(bundle, finding, difference)})
        else:
            _show(bundle, finding, difference)
    if finding.verdict is Verdict.FAILED:
        sys.exit(FAILED)


def _types(path: Path, call: BundledCall) -> dict[str, TensorType]:
    """Returns the types of the gradients that the call has to return.

    Raises UnknownOperatorError, and ValueError if others are expected: they bound what the server can send.
    """
    chosen(call.operator, OPERATORS, "known to this client")
    requirements = Requirements(MAX_MESSAGE_BYTES, shape_only=False)
    made = Call(call.operator, call.inputs, call.attributes, requirements, outputs=call.outputs or None)
    types = {each.name: each.type for each in made.outputs}
    needed = {name: (type.shape, type.dtype.numpy.kind == "c") for name, type in types.items()}
    if needed != {name: (each.shape, np.iscomplexobj(each)) for name, each in call.expected.items()}:
        returned = ", ".join(f"{name} {type}" for name, type in types.items()) or "none, because it is not legal"
        raise ValueError(f"{path} does not expect the gradients that its call returns: {returned}")
    return types


def _compared(bundle: Bundle, finding: Finding, difference: str) -> dict[str, Any]:
    figures = {
        name: value if value is None or math.isfinite(value) else None for name, value in finding.figures.items()
    }
    origin = {name: getattr(bundle, name) for name in ("finding", "server", "client", "command", "date")}
    return {
        "verdict": finding.verdict,
        "message": finding.message,
        "figures": figures,
        "same_bits": not difference,
        "difference": difference,
        "bundle": {**origin, "computed_by": bundle.call.computed_by},
    }


def _show(bundle: Bundle, finding: Finding, difference: str) -> None:
    parts = (bundle.call.operator, *_figures(finding), finding.message)
    click.echo(f"{finding.verdict:8} {'; '.join(filter(None, parts))}")
    click.echo(f"bits     {f'not those of the bundle: {difference}' if difference else 'those of the bundle'}")
    server = ", ".join(filter(None, map(bundle.server.get, ("product", "soc", "library", "runtime"))))
    origin = f"{bundle.finding} ({server}; {bundle.date}; judged by {bundle.call.computed_by})"
    # Anybody may have written it: a terminal is not to obey what is in it.
    click.echo(f"bundle   {''.join(each if each.isprintable() else '?' for each in origin)}")


def _figures(finding: Finding) -> Iterator[str]:
    """Yields the largest error, unless it is infinite as a share of a limit of 0, or there is none."""
    share = finding.figures.get("error_of_limit")
    if share is not None and math.isfinite(share):
        yield f"error {finding.figures['max_error']:.2g}, {share:.1%} of the limit"
