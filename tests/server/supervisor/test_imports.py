"""The supervisor is small and safe: it loads neither gRPC nor a runtime, whose threads would be in it."""

import pkgutil
import subprocess
import sys

import pytest

from aclgrad_server import supervisor

MODULES = [each.name for each in pkgutil.iter_modules(supervisor.__path__, f"{supervisor.__name__}.")]
HEAVY = ("grpc", "aclgrad_native", "numpy", "opentelemetry")


def test_modules_are_found() -> None:
    assert "aclgrad_server.supervisor.supervisor" in MODULES


@pytest.mark.parametrize(
    "modules", [[*MODULES, "aclgrad_server.cli"], ["aclgrad_server.devices.numa", "aclgrad_server.devices.visible"]]
)
def test_neither_grpc_nor_the_runtime_is_loaded(modules: list[str]) -> None:
    program = f"import sys, {', '.join(modules)}\nprint({{*{HEAVY}}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
