"""The command line: flags to a comparison, and a comparison to an exit code."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from aclgrad._client.channel.targets import targets_of
from aclgrad.judge.check.target import CheckError, open_target
from aclgrad.judge.compare.pairs import Call, pair_tasks, table_calls
from aclgrad.judge.compare.summary import PairDisplay, conclusion_of, described, executor_cache, lines_of, page
from aclgrad.judge.findings.rows import Report
from aclgrad.judge.findings.run import end, judge_all
from aclgrad.new_files import checked_folder
from aclgrad.tables import new_console


@dataclass(frozen=True, slots=True)
class Options:
    """What the flags say."""

    a: str
    b: str
    only: tuple[str, ...]
    dump: Path | None
    quick: bool
    verbose: bool
    json: Path | None
    html: Path | None
    timeout_s: float


def compare(options: Options) -> None:
    """Compares the servers, shows and writes the rows, and exits."""
    end("compare", lambda: _compare(options))


def _compare(options: Options) -> Report:
    if options.html:
        checked_folder(options.html)
    dumped: list[Call] = []
    if options.dump:
        # PyTorch is not needed otherwise.
        from aclgrad.judge.compare.dumped import dump_calls

        dumped = list(dump_calls(options.dump, options.only))
    with ExitStack() as stack:
        a, b = (stack.enter_context(open_target(_one(each), options.timeout_s)) for each in (options.a, options.b))
        calls = dumped if options.dump else table_calls(a, b, options.only, is_quick=options.quick)
        tasks = pair_tasks(a, b, calls, is_again=not (options.quick or options.dump))

        def conclude(report: Report) -> None:
            report.servers = {"A": described(a), "B": described(b)}
            report.conclusion = conclusion_of(lines_of(report.rows), a, b)
            report.switches = executor_cache(report, a, b, is_whole=not (options.only or options.dump))

        report = judge_all(tasks, PairDisplay(new_console(), verbose=options.verbose), options.json, conclude)
    if options.html:
        options.html.write_text(page(report), encoding="utf-8")
    return report


def _one(targets: str) -> str:
    found = targets_of(targets)
    if len(found) != 1:
        raise CheckError(f"{targets} names {len(found)} servers; compare one with one other")
    return found[0]
