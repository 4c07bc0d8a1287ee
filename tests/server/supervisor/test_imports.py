"""What a process does not load: the supervisor is small and safe, and a probe starts at once."""

import pkgutil
import subprocess
import sys

import pytest

from aclgrad_server import supervisor

MODULES = [each.name for each in pkgutil.iter_modules(supervisor.__path__, f"{supervisor.__name__}.")]
# Their threads would be in the supervisor, which starts processes.
HEAVY = {"grpc", "aclgrad_native", "numpy", "opentelemetry"}
PROBE = "probe 127.0.0.1:1"
LOADED: dict[str, tuple[list[str], set[str]]] = {
    "supervisor": ([*MODULES, "aclgrad_server.cli"], HEAVY),
    "server_without_tracing": (["aclgrad_server.serving", "aclgrad_server.server"], {"opentelemetry"}),
    PROBE: (["aclgrad_server.__main__"], {"grpc", "pydantic", "click", "numpy", "uvicorn", "aclgrad"}),
}
"""What is imported, or what `aclgrad-server` is started with, and what is not loaded then."""


@pytest.mark.parametrize("case", LOADED)
def test_what_is_not_loaded(case: str) -> None:
    modules, heavy = LOADED[case]
    ending = "try: aclgrad_server.__main__.main()\nexcept SystemExit: pass\n" if case == PROBE else ""
    program = f"import sys, {', '.join(modules)}\n{ending}print({heavy} & set(sys.modules))"
    words = case.split() if case == PROBE else []
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_modules_are_found() -> None:
    assert "aclgrad_server.supervisor.supervisor" in MODULES
