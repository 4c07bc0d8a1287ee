"""The command line of a judgement: flags to a run, and a run to an exit code."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from aclgrad.judge.display import Display
from aclgrad.judge.judging import Judge
from aclgrad.judge.records import CallRow
from aclgrad.judge.report import Run, render
from aclgrad.judge.results import REPORT, Results
from aclgrad.judge.source import Source
from aclgrad.judge.summary import Summary
from aclgrad.judgement.command import end
from aclgrad.judgement.report import End
from aclgrad.judgement.rows import Verdict
from aclgrad.msprobe.dump import DumpError, Found, find_dumps
from aclgrad.tables import new_console


@dataclass(frozen=True, slots=True)
class Options:
    """What the flags say."""

    dump: Path
    out: Path | None
    apis: tuple[str, ...]
    precision: str
    require_all: bool
    resume: bool
    verbose: bool
