"""`aclgrad call --bundle`: repeats the call or program of a bundle, and compares with its results and truths."""

import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from aclgrad._client.sync.client import Client
from aclgrad.commands.common import connection
from aclgrad.commands.files import Array
from aclgrad.commands.outcome import Outcome, about, check_output, check_room
from aclgrad.exit_codes import ExitCode
from aclgrad.exits import exit_codes, print_json
from aclgrad.judge.bundles import Bundle, read
from aclgrad.judge.findings import comparison
from aclgrad.judge.findings.rows import Finding, Verdict
from aclgrad.judge.findings.steps import judge_steps
from aclgrad.judge.programs.judging import DEFINITION
from aclgrad.judge.programs.sending import send
from aclgrad.products import Product
from aclgrad.progress import waiting


def call_again(path: Path, output: Path | None, force: bool, timeout_s: float, as_json: bool, target: str) -> None:
    """Makes the call, prints what has changed, and exits with 1 if a gradient is outside the tolerance."""
    with exit_codes("call"):
        check_output(output, overwrite=force)
        bundle = read(path)
        judged = bundle.judged
        check_room(output, tuple(judged.gradients))
        with Client.from_env(**connection(target), timeout_s=timeout_s) as client, waiting(f"waiting for {target}"):
            outcome = Outcome.of(lambda: send(client, judged.program, judged.returned), **about(judged.program))
        outcome.save(output, overwrite=force)
        now, before = (tuple(each.values()) for each in (outcome.gradients, judged.gradients))
        difference = "" if comparison.same_bits(now, before) else comparison.difference(now, before)
        finding = _finding(bundle, outcome.gradients)
        if as_json:
            print_json({**outcome.as_json(output), **_compared(bundle, finding, difference)})
        else:
            _show(bundle, finding, difference)
    if finding.verdict is Verdict.FAILED:
        sys.exit(ExitCode.WRONG)


def _finding(bundle: Bundle, gradients: Mapping[str, Array]) -> Finding:
    """Returns the finding about gradients in the order of those in the bundle.

    A server that rounds differently gives the steps of a program other inputs than in the bundle, so they are judged by
    their definitions anew.
    """
    judged, program = bundle.judged, bundle.judged.program
    are_all = set(judged.returned) == set(program.outputs)
    if len(program.steps) > 1 and judged.computed_by == DEFINITION and are_all:
        by_step = [
            {name: gradients[program.label((number, name))] for name in step.types}
            for number, step in enumerate(program.steps)
        ]
        return judge_steps(program, by_step, Product(bundle.server.get("product", ""))).finding
    types = {program.label(each): program.steps[each[0]].types[each[1]] for each in judged.returned}
    names = list(judged.expected)
    return comparison.against_definition(
        tuple(gradients[name] for name in names),
        tuple(judged.expected.values()),
        {name: types[name] for name in names},
        judged.tolerance,
    )


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
        "bundle": {**origin, "computed_by": bundle.judged.computed_by},
    }


def _show(bundle: Bundle, finding: Finding, difference: str) -> None:
    parts = (bundle.judged.program.title, *_figures(finding), finding.message)
    click.echo(f"{finding.verdict:8} {'; '.join(filter(None, parts))}")
    click.echo(f"bits     {f'not those of the bundle: {difference}' if difference else 'those of the bundle'}")
    server = ", ".join(filter(None, map(bundle.server.get, ("product", "soc", "library", "runtime"))))
    origin = f"{bundle.finding} ({server}; {bundle.date}; judged by {bundle.judged.computed_by})"
    # Anybody may have written it: no control characters for the terminal.
    click.echo(f"bundle   {''.join(each if each.isprintable() else '?' for each in origin)}")


def _figures(finding: Finding) -> Iterator[str]:
    """Yields the largest error, unless it is infinite as a share of a limit of 0, or there is none."""
    share = finding.figures.get("error_of_limit")
    if share is not None and math.isfinite(share):
        yield f"error {finding.figures['max_error']:.2g}, {share:.1%} of the limit"
