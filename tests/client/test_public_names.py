"""What `import aclgrad` gives, and what it does not bring along."""

import inspect
import subprocess
import sys
from importlib.metadata import requires, version

import pytest

import aclgrad
from aclgrad import errors
from aclgrad.operators.catalogue import OPERATORS

LOADED = """
import sys
import aclgrad, numpy
aclgrad.Client, aclgrad.AsyncClient, aclgrad.reference, aclgrad.masks, aclgrad.tune_allocator
from aclgrad.wire.messages import OperatorCall, encode_request
from aclgrad.tensors import view_of_array
encode_request(OperatorCall("x", (view_of_array("a", numpy.ones(3)),), {}))
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_public_names_are_sorted_and_complete() -> None:
    assert list(aclgrad.__all__) == sorted(aclgrad.__all__, key=lambda name: (not name.isupper(), name))
    in_errors = {
        name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, Exception)
    }
    public = set(aclgrad.__all__)
    assert in_errors <= public
    assert {"AsyncClient", "Client", "DEFAULT", "Violation", "masks", "reference", "tune_allocator"} <= public
    assert not {name for name in public if name.startswith("_")}
    assert all(hasattr(aclgrad, name) for name in public)


def test_version_is_that_of_the_distribution() -> None:
    assert aclgrad.__version__ == version("aclgrad")


@pytest.mark.parametrize("module", ["aclgrad_native", "aclgrad_server", "torch", "jax", "grpc_tools"])
def test_importing_the_client_leaves_others_alone(module: str) -> None:
    finished = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    loaded = finished.stdout.split()
    assert "aclgrad" in loaded
    assert module not in loaded


def test_the_contract_loads_no_client() -> None:
    program = "import sys, aclgrad.operators.cases, aclgrad.wire.messages; print(*sys.modules)"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name for name in finished.stdout.split() if name.startswith("aclgrad._")}
    assert loaded == set()


def test_a_name_that_is_not_there_is_told() -> None:
    with pytest.raises(AttributeError, match="module 'aclgrad' has no attribute 'Clinet'"):
        aclgrad.Clinet  # noqa: B018 - asking is the test


def test_the_client_requires_neither_the_server_nor_the_runtime() -> None:
    assert not [each for each in requires("aclgrad") or () if each.startswith("aclgrad")]


def methods(kind: type) -> dict[str, list[str]]:
    public = inspect.getmembers(kind, inspect.isfunction)
    return {name: list(inspect.signature(each).parameters) for name, each in public if not name.startswith("_")}


def test_both_clients_have_the_same_methods() -> None:
    """But for futures: an awaitable is one already."""
    synchronous = methods(aclgrad.Client)
    assert synchronous.pop("submit") == synchronous["execute"]
    assert synchronous == methods(aclgrad.AsyncClient)
    assert list(inspect.signature(aclgrad.Client).parameters) == list(inspect.signature(aclgrad.AsyncClient).parameters)


@pytest.mark.parametrize("kind", [aclgrad.Client, aclgrad.AsyncClient], ids=lambda kind: kind.__name__)
def test_what_the_clients_share_is_documented_in_both(kind: type) -> None:
    assert all(inspect.getdoc(getattr(kind, name)) for name in methods(kind))
    assert "DeadlinePassedError" in inspect.getdoc(kind.__init__)
    assert "return_errors" in inspect.getdoc(type(kind().batch()).run)


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_is_a_documented_method(name: str) -> None:
    spec = OPERATORS[name]
    parameters = [each.python_name for each in spec.inputs] + [each.name for each in spec.attributes]
    assert methods(aclgrad.Client)[name] == ["self", *parameters, "timeout_s", "out"]
    documentation = inspect.getdoc(getattr(aclgrad.Client, name))
    assert spec.summary in documentation
    assert all(f"{parameter}: " in documentation for parameter in parameters)
