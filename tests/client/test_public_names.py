"""What `import aclgrad` gives, and what it does not bring along."""

import inspect
import pydoc
import subprocess
import sys
import typing
from collections.abc import Coroutine
from importlib.metadata import requires

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

LONGEST_SIGNATURE = 600
"""Characters: six lines of a terminal."""


def loaded_by(program: str) -> set[str]:
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(finished.stdout.split())


def test_every_error_is_public() -> None:
    kinds = {name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, Exception)}
    assert kinds <= set(aclgrad.__all__)
    assert all(hasattr(aclgrad, name) for name in aclgrad.__all__)


def test_importing_the_client_leaves_others_alone() -> None:
    loaded = loaded_by(LOADED)
    assert "aclgrad" in loaded
    assert not loaded & {"aclgrad_native", "aclgrad_server", "torch", "jax", "grpc_tools", "opentelemetry"}


def test_the_contract_loads_no_client() -> None:
    loaded = loaded_by("import sys, aclgrad.operators.cases, aclgrad.wire.messages; print(*sys.modules)")
    assert not {name for name in loaded if name.startswith("aclgrad._")}


def test_a_name_that_is_not_there_is_told() -> None:
    with pytest.raises(AttributeError, match="module 'aclgrad' has no attribute 'Clinet'"):
        aclgrad.Clinet  # noqa: B018 - asking is the test


@pytest.mark.parametrize("library", ["torch", "jax", "ray"])
def test_a_bridge_without_its_library_says_what_to_install(library: str) -> None:
    program = f"import sys; sys.modules[{library!r}] = None; import aclgrad.{library}"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    told = f"aclgrad.{library} needs {library}, which is not installed; run: pip install 'aclgrad[{library}]'"
    assert finished.stderr.splitlines()[-1] == f"ModuleNotFoundError: {told}"
    assert "During handling" not in finished.stderr


def test_the_client_requires_neither_the_server_nor_the_runtime() -> None:
    """But for who asks for an extra."""
    required = (each.partition(";") for each in requires("aclgrad") or ())
    assert not [each for each, _, marker in required if each.startswith("aclgrad") and "extra ==" not in marker]


def methods(kind: type) -> dict[str, list[str]]:
    public = inspect.getmembers(kind, inspect.isfunction)
    return {name: list(inspect.signature(each).parameters) for name, each in public if not name.startswith("_")}


def test_both_clients_have_the_same_methods() -> None:
    assert methods(aclgrad.Client) == methods(aclgrad.AsyncClient)
    assert list(inspect.signature(aclgrad.Client).parameters) == list(inspect.signature(aclgrad.AsyncClient).parameters)


@pytest.mark.parametrize("kind", [aclgrad.Client, aclgrad.AsyncClient], ids=lambda kind: kind.__name__)
def test_what_the_clients_share_is_documented_in_both(kind: type) -> None:
    assert all(inspect.getdoc(getattr(kind, name)) for name in methods(kind))
    assert "DeadlinePassedError" in inspect.getdoc(kind.__init__)
    assert "return_errors" in inspect.getdoc(type(kind().batch()).run)


def test_every_operator_is_a_documented_method() -> None:
    found = methods(aclgrad.Client)
    for name, spec in OPERATORS.items():
        needed = [each.python_name for each in spec.inputs if not each.is_optional]
        needed += [each.name for each in spec.attributes if each.is_required]
        parameters = [each.python_name for each in spec.inputs] + [each.name for each in spec.attributes]
        parameters.sort(key=lambda each: each not in needed)
        options = ["timeout_s", "out", *["outputs"] * (len(spec.outputs) > 1)]
        assert found[name] == ["self", *parameters, *options]
        documentation = inspect.getdoc(getattr(aclgrad.Client, name))
        assert spec.summary in documentation
        assert all(f"{parameter}: " in documentation for parameter in parameters)


@pytest.mark.parametrize("kind", [aclgrad.Client, aclgrad.AsyncClient], ids=lambda kind: kind.__name__)
def test_help_begins_with_what_a_method_does(kind: type) -> None:
    """A union by its name: its members would fill the screen before the first sentence."""
    client = kind()
    for owner in (client, client.batch()):
        for name, _ in inspect.getmembers(type(owner), inspect.isfunction):
            if name.startswith("_"):
                continue
            page = pydoc.render_doc(getattr(owner, name), renderer=pydoc.plaintext)
            lines = [line.strip() for line in page.splitlines()[2:]]
            sentence = inspect.getdoc(getattr(type(owner), name)).splitlines()[0]
            # One line, or from Python 3.13 on a line for each parameter.
            signature = " ".join(lines[: lines.index(sentence)])
            assert "numpy" not in signature, signature
            assert len(signature) < LONGEST_SIGNATURE, signature
    found = typing.get_type_hints(kind.avg_pool2d_backward)
    assert (found["grad_output"], found["input"]) == (aclgrad.TensorLike, aclgrad.Input)


def test_a_type_checker_sees_coroutines() -> None:
    """mypy and pyright report a forgotten `await` of a coroutine, and say nothing of other awaitables."""
    (result,) = typing.get_args(aclgrad.AsyncClient.__orig_bases__[0])
    assert typing.get_origin(result) is Coroutine
