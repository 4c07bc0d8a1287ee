"""The library under test is a parameter: ACL_LIBRARY names its files, in the form of PATH.

The default is the installed host library. `quirks` has the differences between libraries.
"""

import importlib.util
import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tools.abi.acl import Library
from tools.strict import config_text, strict_library

from .programs_in_forks import Forks
from .quirks import ABILITIES, TestedLibrary
from .strict_programs import MORE, PRELUDE

ACL_ERROR_REPEAT_INITIALIZE = 100002


@pytest.fixture(scope="package")
def library_path() -> str:
    named = os.environ.get("ACL_LIBRARY")
    if named:
        return named
    # Next to the compiled module: in an editable install the package's own folder is the source tree.
    module = importlib.util.find_spec("aclgrad_native._native")
    assert module is not None
    assert module.origin is not None
    return str(Path(module.origin).parent / "libacl_host.so")


@pytest.fixture(scope="package")
def opened(library_path: str) -> Library:
    return TestedLibrary(library_path)


@pytest.fixture(scope="package")
def initialized(opened: Library) -> Iterator[Library]:
    library = opened
    code = library.aclInit(None)
    assert code in (0, ACL_ERROR_REPEAT_INITIALIZE)
    yield library
    if code == 0:
        library.call("aclFinalize")


@pytest.fixture(autouse=True)
def abilities(request: pytest.FixtureRequest) -> None:
    """Skips a test that needs something that the library lacks: `@pytest.mark.needs("settings")`."""
    for mark in request.node.iter_markers("needs"):
        missing = set(mark.args) - request.getfixturevalue("opened").abilities
        if missing:
            pytest.skip("; ".join(f"needs a library that {ABILITIES[each]}" for each in sorted(missing)))


@pytest.fixture
def acl(initialized: Library) -> Iterator[Library]:
    """The library with device 0 current in this thread and no message left from before."""
    initialized.call("aclrtSetDevice", 0)
    initialized.message()
    yield initialized
    initialized.call("aclrtSetDevice", 0)  # a test may have changed or lost the context
    if "bad values" in initialized.abilities and initialized.aclrtSynchronizeDevice() != 0:
        initialized.call("aclrtResetDeviceForce", 0)  # the test has lost the device
        return
    initialized.call("aclrtResetDevice", 0)
    initialized.call("aclrtResetDevice", 0)


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    with closing(Forks()) as forks:
        yield forks


@pytest.fixture(scope="package")
def run_program(
    library_path: str, opened: Library, forks: Forks, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., list[str]]:
    """Runs a Python program, in which `acl` is a Library, in a process of its own; returns the lines that it prints.

    It may have settings of the host library; with `strict` the calls are checked on their way to the library.
    """
    preamble = "import ctypes, threading\nfrom tools.abi.acl import *\nfrom tests.abi.quirks import TestedLibrary\n"
    beside = Path(library_path).with_name("libacl_strict.so")
    strict = str(beside) if beside.exists() else strict_library()

    def run(program: str, host: dict[str, object] | None = None, **environment: str) -> list[str]:
        if host is not None:
            config = tmp_path_factory.mktemp("config") / "acl.json"
            config.write_text(config_text(**host))
            environment["ACL_HOST_CONFIG"] = str(config)
        if "ACL_HOST_CONFIG" in environment and "settings" not in opened.abilities:
            pytest.skip(f"needs a library that {ABILITIES['settings']}")
        tested = library_path
        if host and host.get("strict"):
            tested, environment["ACL_STRICT_LIBRARIES"] = strict, library_path
        opening = f"acl = TestedLibrary({tested!r})\n"
        return forks.run(preamble + opening + program, {**os.environ, **environment}).splitlines()

    return run


@pytest.fixture
def offends(run_program: Callable[..., list[str]], tmp_path: Path) -> Callable[..., None]:
    """Runs a program on the strict library; checks its output, and its reports, each by how it begins.

    A report of what is left at the end is expected, or does not count.
    """

    def offends(program: str, output: str, offences: list[str], **settings: object) -> None:
        report = tmp_path / "report"
        settings = {"strict": True, "strict_report": str(report), "host_pointers": False, **settings}
        assert run_program(PRELUDE + MORE + program, settings) == output.splitlines()
        reports = [line.removeprefix("acl_strict: ") for line in report.read_text().splitlines()]
        left = {"leak", "not finalized"} - {offence.split(":")[0] for offence in offences}
        reports = [line for line in reports if line.split(":")[0] not in left]
        reports.sort(key=lambda line: line if line.startswith("leak") else "")  # these come in any order
        assert len(reports) == len(offences), reports
        for line, offence in zip(reports, offences, strict=True):
            assert re.match(offence, line), (line, offence)

    return offends


@pytest.fixture
def busy(acl: Library) -> Iterator[Callable[[object], None]]:
    """A function that gives a stream so much to do that the caller gets ahead of it."""
    size = 64 << 20
    with acl.buffer(size) as address:

        def work(stream: object) -> None:
            for value in range(24):
                acl.call("aclrtMemsetAsync", address, size, value, size, stream)

        yield work
        acl.call("aclrtSynchronizeDevice")


@pytest.fixture(scope="package")
def vector_levels(run_program: Callable[..., list[str]]) -> list[str]:
    """The levels that aclInit takes on this processor, the lowest first."""
    program = "print(acl.aclInit(None))\n"
    levels = ("baseline", "avx2", "avx512")
    return [level for level in levels if run_program(program, {"vector_level": level}) == ["0"]]
