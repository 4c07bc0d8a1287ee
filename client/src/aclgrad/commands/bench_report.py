"""`aclgrad bench --report`: what may be promised of a server, as a page in a folder."""

import asyncio
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aclgrad import __version__
from aclgrad._client.aio.client import AsyncClient
from aclgrad.commands import load_page
from aclgrad.commands.bar import bar, figures
from aclgrad.commands.called import Called
from aclgrad.commands.common import connection
from aclgrad.commands.promise import Search
from aclgrad.descriptions.status import ServerStatus
from aclgrad.exit_codes import ExitCode
from aclgrad.judge.findings.rows import GONE
from aclgrad.progress import waiting
from aclgrad.units import counted

PAGE: Final = "index.html"
FIGURES: Final = "report.json"
_OF_THIS_HOST: Final = re.compile(r"unix:|(dns:/*|ipv[46]:)?(127\.|localhost:|\[?::1\]?:)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Early:
    """Why a run ended early, and the exit code of that."""

    why: str
    exit_code: ExitCode


@contextmanager
def report_folder(folder: Path, *, overwrite: bool) -> Iterator[None]:
    """Makes the folder, and removes it again if the block leaves it empty.

    Raises ValueError if it is a file, has files already or cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, and a report needs a folder; give another path")
    if folder.is_dir() and not overwrite and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty; give another folder, or --force to replace the report in it")
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{folder} cannot be made: {error.strerror}; give another folder") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"{folder} cannot be written by this user; give another folder")
    try:
        yield
    finally:
        if is_new:
            with suppress(OSError):
                folder.rmdir()


def find_promises(
    target: str, called: Sequence[Called], limit_ms: float, seconds: float, timeout_s: float
) -> tuple[list[Search], Early | None]:
    """Returns the highest rate of each whose p99 is at most the limit, and what ended the search early.

    Raises AclgradError if the first calls fail, before any load.
    """
    searches = [Search(each.unit, limit_ms, seconds) for each in called]
    try:
        asyncio.run(_find(target, called, searches, timeout_s))
    except KeyboardInterrupt:
        # asyncio has cancelled the load, which ended its calls.
        return searches, Early("interrupted", ExitCode.INTERRUPTED)
    except GONE as error:
        tried = sum(len(each.probes) for each in searches)
        if not tried:
            raise
        why = f"the server went away after {counted(tried - 1, 'rate')}: {error}"
        return searches, Early(why, ExitCode.SERVER)
    return searches, None


async def _find(target: str, called: Sequence[Called], searches: Sequence[Search], timeout_s: float) -> None:
    async with AsyncClient.from_env(**connection(target), timeout_s=timeout_s, retries=0) as client:
        senders = [each.sender(client) for each in called]
        # Each connects, and learns which values the server reads; what the server lacks is said before the load.
        with waiting(f"waiting for {target}"):
            for send in senders:
                await send()
        for send, search in zip(senders, searches, strict=True):
            planned_s = search.planned_s

            def told(search: Search = search) -> str:
                return f"{search.name}: {figures(search.now)}"

            async with bar(planned_s, told):
                await search.run(send)


def place_of_generator(target: str) -> str:
    """Returns where the load generator ran."""
    if all(_OF_THIS_HOST.match(each.strip()) for each in target.split(",")):
        return "beside the server, on the same machine: both share its cores"
    return "on this machine; the server's address is another's, and its machine is not known here"


def write_report(
    folder: Path,
    target: str,
    status: ServerStatus,
    called: Sequence[Called],
    searches: Sequence[Search],
    early: Early | None,
) -> dict[str, Any]:
    """Writes the page and its figures; returns the figures."""
    runtime = f", runtime {status.runtime_version}" if status.runtime_version else ""
    served = f"version {status.version}, {status.library}, product {status.product}{runtime}"
    about = load_page.facts(target, served, f"aclgrad {__version__}", beside=place_of_generator(target))
    about["calls"] = "; ".join(each.name for each in called)
    page = load_page.render("aclgrad bench", searches, about, early=early.why if early else "")
    (folder / PAGE).write_text(page, encoding="utf-8")
    found: dict[str, Any] = {
        "headline": load_page.headline(searches),
        "complete": early is None,
        "ended_early": early.why if early else None,
        **about,
        "promises": [_promise(*pair) for pair in zip(called, searches, strict=True)],
    }
    (folder / FIGURES).write_text(json.dumps(found, allow_nan=False, indent=2) + "\n", encoding="utf-8")
    return found


def _promise(called: Called, search: Search) -> Mapping[str, Any]:
    return {"of": search.name, **called.about, **search.about()}
