"""The calls of a dump in the order of execution, and the entries that are not calls."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from aclgrad.judge.dumps.apis import NotJudgedError, find_apis
from aclgrad.judge.dumps.judging import Given, line_of
from aclgrad.judge.dumps.modules import ModuleName, module_entry
from aclgrad.judge.dumps.recorded import Recorded
from aclgrad.judge.dumps.records import CallRow, is_forward
from aclgrad.judge.findings.rows import Verdict
from aclgrad.judge.msprobe.dump import Dump, DumpError, Entry, Found, read_dump


@dataclass(frozen=True, slots=True)
class Source:
    """A dump, and which of its calls are wanted."""

    dump: Dump
    place: str
    apis: frozenset[str]
    indices: dict[str, int]
    """The places of all entries, by their names."""
    entries: dict[str, Entry]
    """The calls of functions, by their names without a pass."""

    @classmethod
    def of(cls, found: Found, apis: Collection[str] = ()) -> Self:
        """Chooses the calls of these APIs: "conv2d", "Functional.conv2d", or "Functional.conv2d.0" for one call.

        Raises DumpError if the dump holds no call, or none of these.
        """
        dump = read_dump(found.path)
        place = "" if found.folder == Path() else found.folder.as_posix()
        indices = {name: index for index, name in enumerate(dump.data)}
        source = cls(dump, place, frozenset(apis), indices, {entry.name: entry for entry in dump.entries})
        if not any(True for _ in source.names()):
            called = ", ".join(sorted({each.api for each in dump.entries})) or "none"
            raise DumpError(f"{found.path} has no call of {', '.join(apis)}; it has {called}")
        return source

    def recorded(self, name: str) -> Recorded:
        """Returns the call of this name, "Functional.linear.3"; raises EntryError for one that is broken."""
        return Recorded.of(self.entries[name], self.dump.tensor_folder)

    def names(self) -> Iterator[str]:
        """Yields the names of the wanted entries. Where functions are dumped, modules only repeat them."""
        for name in self.dump.data:
            is_repeated = self.dump.level == "mix" and name.startswith("Module.")
            if not is_repeated and (not self.apis or _names(name) & self.apis):
                yield name

    def calls(self, done: Collection[str] = ()) -> Iterator[Given | CallRow]:
        """Yields the wanted calls without those that are done, and a row for each entry that is no call."""
        for name in self.names():
            own, backward = _call_of(name), _backward_of(name)
            entry = self.entries.get(own) or module_entry(self.dump, _forward_of(name))
            if (shown := line_of(name)) in done:
                continue
            if entry is None or name not in (_forward_of(name), backward):
                yield CallRow(self.indices[name], self.place, shown, Verdict.SKIPPED, line_of(_reason(name, own)))
            elif name == backward and _forward_of(name) not in done:
                continue  # with its forward pass
            else:
                passes = [each for each in dict.fromkeys((name, backward)) if each in self.indices and each not in done]
                indexed = tuple((self.indices[each], each) for each in passes)
                yield Given(entry, self.dump.tensor_folder, indexed, self.place, self.dump.level)


def _names(name: str) -> set[str]:
    """Returns what an entry may be called by those who want it."""
    api = CallRow(0, "", name, Verdict.SKIPPED, "").api
    return {_call_of(name), api, api.rpartition(".")[2]}


def _call_of(name: str) -> str:
    """Returns the name of the call that an entry is a pass of."""
    module = ModuleName.of(name)
    if module:
        return f"Module.{module.path}.{module.kind}.{module.number}"
    return name.removesuffix(".backward").removesuffix(".forward")


def _forward_of(name: str) -> str:
    module = ModuleName.of(name)
    return f"Module.{module.path}.{module.kind}.forward.{module.number}" if module else f"{_call_of(name)}.forward"


def _backward_of(name: str) -> str:
    module = ModuleName.of(name)
    return f"Module.{module.path}.{module.kind}.backward.{module.number}" if module else f"{_call_of(name)}.backward"


def _reason(name: str, own: str) -> str:
    """Returns why an entry is no call that can be judged."""
    if (module := ModuleName.of(name)) is not None:
        return module.reason
    try:
        find_apis(own.rpartition(".")[0])
    except NotJudgedError as reason:
        return str(reason)
    return "no call of a function" if is_forward(name) else "the dump has no forward pass of this call"
