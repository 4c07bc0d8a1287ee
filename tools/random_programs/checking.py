"""Sends one program in several ways, and says what is wrong with the answers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import grpc

from aclgrad.errors import AclgradError
from aclgrad.judge.findings.steps import judge_steps
from aclgrad.judge.programs.drawing import DrawnProgram
from aclgrad.judge.programs.judging import other_bits
from aclgrad.judge.programs.program import Result, Returned, alone
from aclgrad.operators.samples import Integer
from aclgrad.products import Product
from tools.random_programs.sending import (
    SharedBuffer,
    execute,
    execute_chunked,
    messages_of,
    program_bytes,
)

CHUNK_BYTES = (96, 1000, 2**16, 2**20)


def check_program(
    channel: grpc.Channel,
    program: DrawnProgram,
    product: Product,
    integer: Integer,
    shared: SharedBuffer | None = None,
) -> Iterator[str]:
    """Yields what is wrong: with the values, or where another way of sending the program gives other bits.

    `shared` is memory of which ranges are free for this program.
    """
    results = execute(channel, program_bytes(program))
    yield from problems(program, results, product)
    # A program in chunks that has no step to run ends with a status of its own.
    in_chunks = len(program.failed()) < len(program.steps)
    way = integer(0, 4 if shared is not None else 3) if in_chunks else 0
    if way == 0:
        made = [each for each in results if not isinstance(each, AclgradError)]
        found = execute(channel, program_bytes(alone(program, results)))
        yield from _named("its steps alone", same_bits(made, found))
    elif way == 1:
        returned = _draw_returned(program, integer)
        found = execute(channel, program_bytes(program, returned))
        yield from _named(f"with {returned} returned", _differences(program, results, found, returned))
    elif way == 2:
        inline = [index for index in range(len(program.table)) if integer(0, 2) == 0]
        messages = messages_of(program, (), inline, CHUNK_BYTES[integer(0, len(CHUNK_BYTES) - 1)])
        yield from _named("in chunks", _differences(program, results, execute_chunked(channel, messages), ()))
    elif way == 3:
        returned = _draw_returned(program, integer)
        found = execute_chunked(channel, messages_of(program, returned))
        yield from _named(f"in chunks with {returned}", _differences(program, results, found, returned))
    elif shared is not None:
        memory = replace(shared, used=0)
        found = execute(channel, program_bytes(program, (), memory, bool(integer(0, 1))), memory)
        yield from _named("in shared memory", _differences(program, results, found, ()))


def problems(program: DrawnProgram, results: Sequence[Result], product: Product) -> Iterator[str]:
    """Yields what is wrong with the results of all steps, of which everything was returned."""
    failed = program.failed()
    if len(results) != len(program.steps):
        yield f"{len(results)} results of {len(program.steps)} steps"
        return
    found = [each for number, result in enumerate(results) for each in _problems(program, number, result, failed)]
    yield from found or (each.message for each in judge_steps(program, results, product).failed)


def _problems(program: DrawnProgram, number: int, result: Result, failed: dict[int, int]) -> Iterator[str]:
    """Yields what is wrong with a step beside its values."""
    step = program.steps[number]
    if isinstance(result, AclgradError):
        yield from _problems_of_error(program, number, result, failed)
    elif number in failed:
        yield f"step {number} ({step.operator}) should have failed"
    elif list(result) != list(step.types):
        yield f"step {number} returned {list(result)}, not {list(step.types)}"


def _problems_of_error(
    program: DrawnProgram, number: int, error: AclgradError, failed: dict[int, int]
) -> Iterator[str]:
    # Values of steps that run together are looked at together: with wrong ones, a step need not know of its input's.
    is_own = failed.get(number) == number or (
        program.faults.get(number) == "values" and error.reason == "INVALID_FIELD"
    )
    if number not in failed:
        yield f"step {number} failed: {error}"
    elif is_own:
        if error.reason != "INVALID_FIELD":
            yield f"step {number} failed with {error.reason}: {error}"
    elif (error.reason, error.metadata.get("step")) != ("INPUT_FAILED", str(failed[number])):
        yield f"step {number} failed with {error.reason} {error.metadata}, not because of step {failed[number]}"


def _named(way: str, found: Iterator[str]) -> Iterator[str]:
    for problem in found:
        yield f"{way}: {problem}"


def _draw_returned(program: DrawnProgram, integer: Integer) -> list[Returned]:
    chosen = [each for each in program.outputs if integer(0, 3) == 0]
    return chosen or program.outputs[:1]


def _differences(
    program: DrawnProgram, results: Sequence[Result], found: Sequence[Result], returned: Sequence[Returned]
) -> Iterator[str]:
    if len(found) != len(results):
        yield f"{len(found)} results of {len(results)} steps"
        return
    for number, (step, result) in enumerate(zip(program.steps, found, strict=True)):
        names = [name for name in step.types if not returned or (number, name) in returned]
        if not isinstance(result, AclgradError) and list(result) != names:
            yield f"step {number} returned {list(result)}, not {names}"
            return
    yield from same_bits(results, found)


def same_bits(first: Sequence[Result], second: Sequence[Result]) -> Iterator[str]:
    """Yields where two lists of results of the same steps differ; an error is the same as another of its code."""
    for number, results in enumerate(zip(first, second, strict=True)):
        if len({each.code if isinstance(each, AclgradError) else None for each in results}) > 1:
            yield f"step {number} failed once"
    yield from (f"step {number} output {name} has other bits" for number, name in other_bits(first, second))
