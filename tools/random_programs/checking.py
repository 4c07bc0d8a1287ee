"""Sends one program in several ways, and says what is wrong with the answers."""

from collections.abc import Iterator
from dataclasses import replace

import grpc

from aclgrad.operators.samples import Integer
from tools.random_programs.drawing import DrawnProgram
from tools.random_programs.judging import disconnected, problems, same_bits
from tools.random_programs.sending import (
    Result,
    Returned,
    SharedBuffer,
    execute,
    execute_chunked,
    messages_of,
    program_bytes,
)

CHUNK_BYTES = (96, 1000, 2**16, 2**20)


def check_program(
    channel: grpc.Channel, program: DrawnProgram, integer: Integer, shared: SharedBuffer | None = None
) -> Iterator[str]:
    """Yields what is wrong: with the values, or where another way of sending the program gives other bits.

    `shared` is memory of which ranges are free for this program.
    """
    results = execute(channel, program_bytes(program))
    yield from problems(program, results)
    # A program in chunks that has no step to run ends with a status of its own.
    in_chunks = len(program.failed()) < len(program.steps)
    way = integer(0, 4 if shared is not None else 3) if in_chunks else 0
    if way == 0:
        alone = disconnected(program, results)
        made: list[Result] = [each for each in results if isinstance(each, dict)]
        yield from _named("its steps alone", same_bits(made, execute(channel, program_bytes(alone))))
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


def _named(way: str, found: Iterator[str]) -> Iterator[str]:
    for problem in found:
        yield f"{way}: {problem}"


def _draw_returned(program: DrawnProgram, integer: Integer) -> Returned:
    every = [(number, name) for number, step in enumerate(program.steps) for name in step.types]
    chosen = [each for each in every if integer(0, 3) == 0]
    return chosen or every[:1]


def _differences(
    program: DrawnProgram, results: list[Result], found: list[Result], returned: Returned
) -> Iterator[str]:
    if len(found) != len(results):
        yield f"{len(found)} results of {len(results)} steps"
        return
    for number, (step, result) in enumerate(zip(program.steps, found, strict=True)):
        names = [name for name in step.types if not returned or (number, name) in returned]
        if isinstance(result, dict) and list(result) != names:
            yield f"step {number} returned {list(result)}, not {names}"
            return
    yield from same_bits(results, found)
