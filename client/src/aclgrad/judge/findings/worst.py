"""The worst call of a run, and the bundle of it."""

from collections.abc import Mapping
from math import inf
from pathlib import Path

from aclgrad._client.server.status import ServerStatus
from aclgrad.judge import bundles
from aclgrad.judge.bundles import Bundle, JudgedCall
from aclgrad.judge.findings.console import line_of
from aclgrad.judge.findings.rows import Origin, Row, Verdict


class WorstCall:
    """Keeps one call: that of the failed row whose error is the largest share of its limit."""

    def __init__(self) -> None:
        self._row: Row | None = None
        self._call: JudgedCall | None = None

    def take(self, row: Row, call: JudgedCall | None) -> None:
        """Keeps the call if its row is worse than all before; the first of equal ones stays."""
        if call is None or row.verdict is not Verdict.FAILED:
            return
        if self._row is None or _badness(row) > _badness(self._row):
            self._row, self._call = row, call

    def write(self, path: Path, servers: Mapping[Origin, ServerStatus], *, overwrite: bool) -> str:
        """Writes the bundle, if there is a call, and returns what to tell; errors are those of `bundles.write`."""
        if self._row is None or self._call is None:
            return f"{path} is not written: no gradient is wrong"
        line = line_of(self._row)
        bundles.write(path, Bundle.of(self._call, line, servers[self._row.origin]), overwrite=overwrite)
        return f"{path} has the worst call, which `aclgrad call --bundle {path}` repeats: {line}"


def _badness(row: Row) -> float:
    """Returns the error as a share of the limit: infinite if a limit of 0 is exceeded, or a type or NaN is wrong."""
    share = row.figures.get("error_of_limit")
    return inf if share is None else share
