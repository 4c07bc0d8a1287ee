"""A program's outcome: the replies of its groups, in pieces, and the errors of failed steps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from aclgrad.errors import AclgradError
from aclgrad_server.devices.steps import PlannedStep


@dataclass(slots=True)
class Outcome:
    """The reply of each group, its steps in the order of the reply, and failures by step."""

    failures: dict[int, AclgradError]
    replies: list[tuple[bytes, Sequence[int]]] = field(default_factory=list)
    steps: dict[int, int] = field(default_factory=dict)
    """The bytes of each step that ran, in its group's reply."""

    def sections(self) -> Iterator[tuple[int, memoryview]]:
        """Yields the bytes of each step that ran; those of steps that failed are undefined."""
        for reply, numbers in self.replies:
            start = 0
            for number in numbers:
                end = start + self.steps[number]
                yield number, memoryview(reply)[start:end]
                start = end


def pieces_of(step: PlannedStep, section: memoryview) -> Iterator[bytes | memoryview]:
    """Yields the outputs of a reply in their order: the bytes that the device wrote, and the headers of the others."""
    if not step.described:
        yield section
        return
    start = 0
    for position, (output, sink) in enumerate(zip(step.plan.outputs, step.sinks, strict=True)):
        if position in step.described:
            yield step.described[position]
        elif sink.in_reply:
            end = start + len(output.reply_prefix) + output.type.size_bytes
            yield section[start:end]
            start = end
