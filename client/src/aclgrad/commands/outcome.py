"""The results of a call: as a file, as a line and as JSON."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import click

from aclgrad.commands.files import Array, checked_output, save
from aclgrad.exits import print_json
from aclgrad.judge.programs.program import Program
from aclgrad.new_files import check_unwritten

ONLY: Final = "gradient"
"""The name of an operator's only gradient."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The gradients of a call by name, and its time; `about` describes the call in JSON."""

    about: Mapping[str, Any]
    gradients: Mapping[str, Array]
    seconds: float

    @classmethod
    def of(cls, make: Callable[[], Mapping[str, Array]], **about: Any) -> Self:
        """Makes the call."""
        start = time.perf_counter()
        gradients = make()
        return cls(about, gradients, time.perf_counter() - start)

    def save(self, output: Path | None, *, overwrite: bool) -> None:
        """Writes the gradients to the output, if there is one."""
        if output is not None:
            save(output, self.gradients, overwrite=overwrite)

    def as_json(self, output: Path | None) -> dict[str, Any]:
        """Returns the object that `--json` prints."""
        return {
            **self.about,
            "gradients": {
                name: {"dtype": str(each.dtype), "shape": each.shape} for name, each in self.gradients.items()
            },
            "seconds": self.seconds,
            "output": None if output is None else str(output),
        }

    def show(self, output: Path | None, *, as_json: bool) -> None:
        if as_json:
            print_json(self.as_json(output))
            return
        forms = {name: f"{each.dtype} {'x'.join(map(str, each.shape))}" for name, each in self.gradients.items()}
        listed = [form if name == ONLY else f"{name} {form}" for name, form in forms.items()]
        where = f" to {output}" if output else ""
        click.echo(f"{', '.join(listed)}{where} in {1e3 * self.seconds:.1f} ms")


def about(program: Program) -> dict[str, Any]:
    """Returns the JSON form of a program."""
    return {"operator": program.title} if len(program.steps) == 1 else {"steps": len(program.steps)}


def check_output(output: Path | None, *, overwrite: bool) -> None:
    """Raises ValueError if the output's form is unknown, its folder is missing, or it exists and must stay."""
    if output is not None:
        check_unwritten(checked_output(output), overwrite=overwrite)


def check_room(output: Path | None, names: Sequence[str], hint: str = "") -> None:
    """Raises ValueError if the output is a file of one array but there are several."""
    if output is not None and output.suffix == ".npy" and len(names) > 1:
        raise ValueError(
            f"{output} holds one array, and there are {', '.join(names)}; give FILE.npz or FILE.safetensors{hint}"
        )
