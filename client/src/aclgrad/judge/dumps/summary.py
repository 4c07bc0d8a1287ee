"""What follows from the rows of a judgement: how many calls were judged, which was wrong first, and where."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from aclgrad.judge.dumps.records import ARRIVES_OTHERWISE, LAST_STEP, SERVER, TRAINING, CallRow, in_order
from aclgrad.judge.findings.rows import Verdict


@dataclass(frozen=True, slots=True)
class Unjudged:
    """Calls of one API that were not judged, for one reason."""

    api: str
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class Group:
    """The calls of one API, with the verdict that the worst of them has."""

    api: str
    rows: tuple[CallRow, ...]

    def count(self, verdict: Verdict) -> int:
        return sum(row.verdict is verdict for row in self.rows)

    @property
    def verdict(self) -> Verdict:
        found = {row.verdict for row in self.rows}
        return next(each for each in (Verdict.FAILED, Verdict.NOTED, Verdict.PASSED, Verdict.SKIPPED) if each in found)

    @property
    def worst(self) -> CallRow:
        """The call with the largest error of its limit, among those of the group's verdict."""
        verdict = self.verdict
        own = [row for row in self.rows if row.verdict is verdict]
        return max(own, key=lambda row: row.worst[2].of_limit if row.worst else 0.0)


@dataclass(frozen=True)
class Summary:
    """The rows in the order of execution, and what is said of them all."""

    rows: tuple[CallRow, ...]
    planned: int
    """The calls that were to be judged, those that a run has not reached among them."""

    @classmethod
    def of(cls, rows: Sequence[CallRow], planned: int = 0) -> Self:
        """Marks the rows whose inputs are wrong results of earlier calls. `planned` may be left out if that is all."""
        marked, wrong, place = [], set[str](), None
        for row in in_order(rows):
            if row.place != place:
                wrong, place = set(), row.place
            marked.append(replace(row, is_off=not wrong.isdisjoint(row.digests.inputs)))
            wrong.update(each for each in row.digests.wrong if each)
        return cls(tuple(marked), max(planned, len(marked)))

    def count(self, verdict: Verdict) -> int:
        return sum(row.verdict is verdict for row in self.rows)

    @cached_property
    def judged(self) -> int:
        return len(self.rows) - self.count(Verdict.SKIPPED)

    @cached_property
    def unexplained(self) -> int:
        """How many calls were given a gradient that is not the sum over the uses in the dump."""
        return sum(ARRIVES_OTHERWISE in row.message for row in self.rows)

    @cached_property
    def unreached(self) -> int:
        return self.planned - len(self.rows)

    @cached_property
    def last_steps(self) -> int:
        """How many backward passes were judged by their last step, as the dump has no more of them."""
        return sum(LAST_STEP in row.message for row in self.rows)

    @cached_property
    def unjudged(self) -> list[Unjudged]:
        """The calls that were not judged by API and reason, the most frequent first."""
        counts = Counter((row.api, row.message) for row in self.rows if row.verdict is Verdict.SKIPPED)
        return [Unjudged(api, count, reason) for (api, reason), count in counts.most_common()]

    @cached_property
    def first_wrong(self) -> CallRow | None:
        """The first call in the order of execution that failed."""
        return next((row for row in self.rows if row.verdict is Verdict.FAILED), None)

    @cached_property
    def has_server(self) -> bool:
        """Whether a server was asked for any of the calls."""
        return any(row.unserved or row.has(SERVER) for row in self.rows)

    @cached_property
    def served(self) -> int:
        """The backward passes that the server has computed."""
        return sum(row.has(SERVER) for row in self.rows)

    @cached_property
    def unserved(self) -> dict[str, Counter[str]]:
        """The backward passes that the server has not computed, by reason and API, the most frequent reason first."""
        reasons: dict[str, Counter[str]] = {}
        for row in self.rows:
            if row.unserved:
                reasons.setdefault(row.unserved, Counter())[row.api] += 1
        return dict(sorted(reasons.items(), key=lambda each: -each[1].total()))

    @cached_property
    def of_server_alone(self) -> Counter[str]:
        """The calls of which nothing recorded was judged, but what the server computes, by reason."""
        return Counter(row.message for row in self.rows if row.has(SERVER) and not row.has(TRAINING))

    @cached_property
    def is_covered(self) -> bool:
        """Whether each call was judged: what is recorded and, if a server was asked, each backward pass of it."""
        is_whole = bool(self.rows) and self.judged == self.planned
        return is_whole and not self.unserved and not self.of_server_alone

    def wrong_only(self, side: str) -> list[CallRow]:
        """Returns the calls in which this side failed, and the other is right."""
        other = SERVER if side == TRAINING else TRAINING
        return [
            row
            for row in self.rows
            if any(
                side in tensor.sides
                and tensor.sides[side].verdict is Verdict.FAILED
                and other in tensor.sides
                and tensor.sides[other].verdict is not Verdict.FAILED
                for tensor in row.tensors
            )
        ]

    @cached_property
    def groups(self) -> list[Group]:
        """The APIs, the worst first; of equal verdicts the one with the largest error of its limit."""
        by_api: dict[str, list[CallRow]] = {}
        for row in self.rows:
            by_api.setdefault(row.api, []).append(row)
        ranks = {verdict: rank for rank, verdict in enumerate((Verdict.FAILED, Verdict.NOTED, Verdict.PASSED))}
        groups = [Group(api, tuple(own)) for api, own in by_api.items()]

        def rank(group: Group) -> tuple[int, float]:
            worst = group.worst.worst
            return ranks.get(group.verdict, len(ranks)), -(worst[2].of_limit if worst else 0.0)

        return sorted(groups, key=rank)
