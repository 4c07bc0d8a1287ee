"""The calls of a dump in the order of execution, and its entries that are none."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from aclgrad.judge.apis import Unjudgeable, find_api
from aclgrad.judge.judging import Given
from aclgrad.judge.records import CallRow
from aclgrad.judgement.rows import Verdict
from aclgrad.msprobe.dump import Dump, DumpError, Entry, Found, read_dump

_PASSES = (".forward", ".backward")


@dataclass(frozen=True, slots=True)
class Source:
    """A dump, and which of its calls are wanted."""

    dump: Dump
    place: str
    apis: frozenset[str]
    indices: dict[str, int]
    """The places of all entries, by their names."""

    @classmethod
    def of(cls, found: Found, apis: Collection[str] = ()) -> Self:
        """Chooses the calls of these APIs: "conv2d", "Functional.conv2d", or "Functional.conv2d.0" for one call.

        Raises DumpError if the dump holds no call, or none of these.
        """
        dump = read_dump(found.path, is_forward_enough=True)
        place = "" if found.folder == Path() else found.folder.as_posix()
        source = cls(dump, place, frozenset(apis), {name: index for index, name in enumerate(dump.data)})
        if not any(True for _ in source.names()):
            called = ", ".join(sorted({each.api for each in dump.entries})) or "none"
            raise DumpError(f"{found.path} has no call of {', '.join(apis)}; it has {called}")
        return source

    def names(self) -> Iterator[str]:
        """Yields the names of the wanted entries."""
        return (name for name in self.dump.data if not self.apis or _names(name) & self.apis)

    def calls(self, done: Collection[str] = ()) -> Iterator[Given | CallRow]:
        """Yields the wanted calls without those that are done, and a row for each entry that is no call."""
        entries = {entry.name: entry for entry in self.dump.entries}
        for name in self.names():
            if name in done:
                continue
            own, is_backward = name.removesuffix(".backward").removesuffix(".forward"), name.endswith(".backward")
            entry = entries.get(own)
            if entry is None:
                yield CallRow(self.indices[name], self.place, name, Verdict.SKIPPED, _reason(name, own))
            elif not is_backward:
                passes = [each for each in (name, f"{own}.backward") if each in self.indices and each not in done]
                yield Given(entry, self.dump.tensor_folder, tuple((self.indices[each], each) for each in passes), self.place, self.dump.level)
            elif f"{own}.forward" in done:
                yield Given(entry, self.dump.tensor_folder, ((self.indices[name], name),), self.place, self.dump.level)


def _names(name: str) -> set[str]:
    own = name.removesuffix(".backward").removesuffix(".forward")
    api = own.rpartition(".")[0]
    return {own, api, api.rpartition(".")[2]}


def _reason(name: str, own: str) -> str:
    """Returns why an entry is no call that can be judged."""
    try:
        find_api(own.rpartition(".")[0])
    except Unjudgeable as reason:
        return str(reason)
    return "the dump has no forward pass of this call" if name.endswith(".backward") else "no call of a function"
