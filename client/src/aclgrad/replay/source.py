"""The calls of one dump: which of them are replayed, and each as a call that can be repeated."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Self

from torch import Tensor

from aclgrad.msprobe.dump import Dump, DumpError, Entry, EntryError, Found, read_dump
from aclgrad.msprobe.values import Values, first_random, read_values
from aclgrad.replay.apis import Api, served_apis
from aclgrad.replay.engine import Job
from aclgrad.torch._recorded import RecordedCall


@dataclass(frozen=True, slots=True)
class Source:
    """A dump, and the names of the calls that are wanted of it."""

    dump: Dump
    names: tuple[str, ...]
    left_out: int
    """The calls with a backward pass that no operator computes, if they are not wanted."""
    shifted_by: str
    """The first call that draws random numbers itself: later ones do not get those of acc_check. Empty if none does."""

    @classmethod
    def of(cls, found: Found, apis: Collection[str], *, every: bool) -> Self:
        """Chooses the calls with a backward pass of these APIs, or of all that are served; `every` adds the others.

        An API may be named as "max_pool2d", "Functional.max_pool2d" or, a single call, "Functional.max_pool2d.0".
        Raises DumpError if the dump cannot be replayed.
        """
        dump = read_dump(found.path)
        served = served_apis()
        if apis and not any(_names(each) & set(apis) for each in dump.entries):
            called = ", ".join(sorted({each.api for each in dump.entries if _api(each) in served})) or "none"
            raise DumpError(f"{found.path} has no call of {', '.join(apis)}; of those that are served it has {called}")
        asked = [each for each in dump.entries if each.backward is not None and (not apis or _names(each) & set(apis))]
        names = tuple(each.name for each in asked if every or _api(each) in served)
        random = None if dump.tensor_folder.is_dir() else first_random(dump)
        return cls(dump, names, len(asked) - len(names), random.name if random else "")

    def jobs(self, names: Collection[str]) -> Iterator[Job]:
        """Yields the calls of these names with their tensors, or with the reason why one cannot be repeated."""
        served = served_apis()
        for entry, values in read_values(self.dump, lambda each: each.name in names):
            api = served.get(_api(entry))
            if api is None:
                yield Job(entry.name, None, "no operator computes the gradient of this API")
            elif isinstance(values, EntryError):
                yield Job(entry.name, None, str(values))
            else:
                yield _job(entry, values, api)


def _job(entry: Entry, values: Values, api: Api) -> Job:
    if values.grad_output is None:
        return Job(entry.name, None, "the dump has no gradient of the call's output")
    call = RecordedCall(api.function, api.remote, values.args, values.kwargs, values.grad_output)
    if not any(isinstance(each, Tensor) and each.requires_grad for each in call.inputs().values()):
        return Job(entry.name, None, "none of its tensors needs a gradient")
    return Job(entry.name, call)


def _api(entry: Entry) -> str:
    return f"{entry.prefix}.{entry.api}"


def _names(entry: Entry) -> set[str]:
    return {entry.api, _api(entry), entry.name}
