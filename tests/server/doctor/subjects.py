"""A subject as a test wants it, and what an examination says of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from aclgrad.check.rows import Finding
from aclgrad_server.doctor.subject import Examination, Subject
from aclgrad_server.settings import read_settings


def examined(
    examination: Examination,
    variables: Mapping[str, str] | None = None,
    *,
    is_ascend: bool = False,
    cards: Sequence[int] = (0,),
    **flags: Any,
) -> dict[str, Finding]:
    """Returns the findings by name; settings come from the flags and from the environment of the test.

    `cards` has the device of each worker.
    """
    return dict(examination(Subject(read_settings(flags), flags, variables or {}, is_ascend, cards)))
