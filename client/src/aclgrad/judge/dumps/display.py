"""The terminal output of a judged dump: failed calls as they come, then coverage, the first wrong call, and APIs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from rich.markup import escape
from rich.padding import Padding

from aclgrad.judge.dumps.page import Run, headline_of, is_clean, wrong_alone
from aclgrad.judge.dumps.records import SERVER, TRAINING, CallRow
from aclgrad.judge.dumps.summary import (
    WORDS,
    Summary,
    Unjudged,
    counts_of,
    coverage_of,
    figure,
    finding_of,
    followers_of,
    listed,
    note_of,
    position_of,
    share_of,
    sides_of,
)
from aclgrad.judge.findings.display import STYLES, Screen, element_of
from aclgrad.judge.findings.rows import End, Verdict
from aclgrad.tables import table
from aclgrad.units import counted, span

_MOST_REASONS: Final = 20
_INDENT: Final = 2
_Item = TypeVar("_Item")


class Display(Screen):
    """Shows failed calls by name, or with `verbose` all with their findings, as they arrive, and the conclusions."""

    def each(self, items: Sequence[_Item], description: str) -> Iterator[_Item]:
        """Yields the items, with a progress bar."""
        with self.of(len(items)):
            self.advance(description, 0)
            for item in items:
                yield item
                self.advance(description)

    def take(self, row: CallRow) -> None:
        """Shows one call if wanted."""
        self.advance(row.api)
        if not self._verbose and row.verdict is not Verdict.FAILED:
            return
        place = f" {row.place}" if row.place else ""
        self._print(f"[{STYLES[row.verdict]}]{WORDS[row.verdict]}[/] {escape(row.name + place)}")
        for line in _findings(row) if self._verbose else ():
            self._print(escape(line), _INDENT)

    def end(self, summary: Summary, run: Run) -> None:
        """Shows coverage, the first wrong call, the APIs that failed or were noted, and the verdict."""
        self._coverage(summary)
        self._first_wrong(summary)
        self._by_api(summary)
        if run.message:
            self._print(escape(run.message))
        failed = summary.count(Verdict.FAILED)
        style = "bold red" if failed else "green" if is_clean(summary, run) else "bold"
        ending = "" if run.end is End.COMPLETE else f"{run.end}, "
        self._print(f"[{style}]{headline_of(summary, run)}[/]: {counts_of(summary)}; {ending}{span(run.seconds)}")

    def _coverage(self, summary: Summary) -> None:
        self._print(coverage_of(summary))
        unjudged = summary.unjudged
        if len(unjudged) > 1 and len({each.reason for each in unjudged}) == 1:
            apis = Counter({each.api: each.count for each in unjudged})
            self._print(escape(f"{listed(apis)}: {unjudged[0].reason}"), _INDENT)
        elif unjudged:
            self._reasons(unjudged)
        if damaged := summary.damaged:
            self._print(f"[bold red]the dump is damaged[/]: files of {counted(damaged, 'call')} are missing or broken")
        for line in sides_of(summary):
            self._print(escape(line))

    def _reasons(self, unjudged: Sequence[Unjudged]) -> None:
        reasons = table("API", "calls")
        reasons.add_column("reason", overflow="fold")
        for each in unjudged[:_MOST_REASONS]:
            reasons.add_row(escape(each.api), f"{each.count:,}", escape(each.reason))
        self._console.print(Padding.indent(reasons, _INDENT), highlight=False)
        if rest := unjudged[_MOST_REASONS:]:
            calls = counted(sum(each.count for each in rest), "further call")
            self._print(f"and {calls} in {counted(len(rest), 'line')} of the report", _INDENT)

    def _first_wrong(self, summary: Summary) -> None:
        row = summary.first_wrong
        if row is None:
            return
        self._print(f"[bold red]first wrong call[/]: {escape(f'{row.name}, {position_of(summary, row)}')}")
        for line in _findings(row):
            self._print(escape(line), _INDENT)
        for each in row.worst[2].worst if row.worst else ():
            self._print(escape(element_of(each)), _INDENT * 2)
        if followers := followers_of(summary):
            self._print(f"of all that failed, {followers}")
        for what, rows in wrong_alone(summary):
            self._print(escape(f"{what} in {counted(len(rows), 'call')}, first {rows[0].name}"))

    def _by_api(self, summary: Summary) -> None:
        groups = [each for each in summary.groups if each.verdict in (Verdict.FAILED, Verdict.NOTED)]
        if not groups:
            return
        verdicts = [each for each in (Verdict.FAILED, Verdict.NOTED) if summary.count(each)]
        # 80 columns have room for all sides, or for these two.
        more = () if summary.has_server else ("calls", "x limit")
        sides = ("training", "server", "PyTorch") if summary.has_server else ("error",)
        lines = table("API", *more[:1], *verdicts, *sides, "limit", *more[1:])
        for group in groups:
            counts = [f"[{STYLES[each]}]{group.count(each):,}[/]" if group.count(each) else "" for each in verdicts]
            figures = _figures(group.worst, has_server=summary.has_server)
            others = [f"{len(group.rows):,}", share_of(group.worst)] if more else []
            lines.add_row(escape(group.api), *others[:1], *counts, *figures, *others[1:])
        self._console.print(lines, highlight=False)
        notes: dict[str, list[str]] = {}
        for group in groups:
            notes.setdefault(note_of(group), []).append(group.api)
        for note, apis in notes.items():
            if note:
                self._print(escape(f"noted in {', '.join(apis)}: {note}"))

    def _print(self, markup: str, indent: int = 0) -> None:
        """Prints a line, wrapped with a hanging indent on a terminal."""
        if self._console.is_terminal:
            self._console.print(Padding.indent(markup, indent), highlight=False)
        else:
            self._console.print(" " * indent + markup, soft_wrap=True, highlight=False)


def _figures(row: CallRow, *, has_server: bool) -> list[str]:
    """Returns the errors of the worst result and its limit: those of training, server and PyTorch, or the only one."""
    if row.worst is None:
        return [""] * (4 if has_server else 2)
    tensor, _, worst = row.worst
    if not has_server:
        return [figure(worst.error), figure(worst.limit)]
    sides = [figure(tensor.sides[each].error) if each in tensor.sides else "" for each in (TRAINING, SERVER)]
    return [*sides, "" if tensor.pytorch_error is None else figure(tensor.pytorch_error), figure(worst.limit)]


def _findings(row: CallRow) -> Iterator[str]:
    """Yields the findings about a call: its message, and each result with its verdict."""
    if row.message:
        yield row.message
    if row.inputs_are_off:
        yield "its inputs are already off"
    for tensor in row.tensors:
        for name, side in tensor.sides.items():
            if side.verdict is row.verdict:
                yield f"{f'{name}: ' if SERVER in tensor.sides else ''}{finding_of(tensor, side)}"
