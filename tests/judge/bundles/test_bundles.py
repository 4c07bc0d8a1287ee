"""Bundles that are written and read again, and those that cannot be written."""

import errno
import json
import re
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
import safetensors.numpy
from safetensors.numpy import load_file

import aclgrad
from aclgrad.judge.bundles import Bundle, JudgedProgram, read, reading, write
from aclgrad.judge.bundles import bundle as written
from aclgrad.judge.programs.drawing import draw_program
from aclgrad.judge.programs.judging import DEFINITION
from aclgrad.judge.programs.program import Given, Step, one_step
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Tolerance
from aclgrad.products import Product
from aclgrad.testing import TestServer
from tests.bundled import bundle_of, typed_case, with_judged

CASES = [
    ("avg_pool2d_backward", "float32", "overlapping"),
    ("layer_norm_backward", "bfloat16", "rows"),
    ("layer_norm_backward", "float16", "no_weight"),
    ("layer_norm_backward", "float32", "no_columns"),
    ("batch_norm_backward", "float16", "all_inputs"),
    ("reflection_pad1d_backward", "complex64", "two_around"),
    ("reflection_pad2d_backward", "float64", "two_around"),
]


@pytest.fixture(scope="module")
def bundle(server: TestServer) -> Bundle:
    with aclgrad.Client(server.target) as client:
        return bundle_of(client, typed_case(*CASES[0]))


def assert_same(found: Any, written: Any) -> None:
    """The same arrays, bit by bit, and the same of everything else."""
    assert list(found) == list(written)
    for name, each in written.items():
        if isinstance(each, np.ndarray):
            assert (found[name].dtype, found[name].shape) == (each.dtype, each.shape)
            assert found[name].tobytes() == each.tobytes()
        else:
            assert found[name] == each


def laid(given: Given) -> Any:
    """How an input lies over what it is a view of."""
    return given.view and (given.view.offset, given.view.strides_of(given.type.shape))


def values(bundle: Bundle, step: Step) -> dict[str, Any]:
    """The inputs of a step that no other one makes."""
    program = bundle.judged.program
    return {each.name: program.value_of(each, ()) for each in step.inputs if each.step is None}


def inputs_of(bundle: Bundle) -> dict[str, Any]:
    return values(bundle, bundle.judged.program.steps[0])


def assert_round_trip(bundle: Bundle, path: Path) -> Bundle:
    write(path, bundle)
    found = read(path)
    for part in ("gradients", "expected"):
        assert_same(getattr(found.judged, part), getattr(bundle.judged, part))
    for one, other in zip(found.judged.program.steps, bundle.judged.program.steps, strict=True):
        assert_same(values(found, one), values(bundle, other))
        assert_same(one.attributes, other.attributes)
        assert (one.operator, one.outputs, one.types) == (other.operator, other.outputs, other.types)
    for name, truth in bundle.judged.expected.items():
        limits = [each.judged.tolerance.of(name).limit(truth) for each in (found, bundle)]
        np.testing.assert_array_equal(*limits)
    assert (found.judged.computed_by, found.judged.returned) == (bundle.judged.computed_by, bundle.judged.returned)
    for name in ("finding", "server", "client", "command", "date"):
        assert getattr(found, name) == getattr(bundle, name)
    return found


@pytest.mark.parametrize(("operator", "dtype", "case"), CASES)
def test_what_is_written_is_read(server: TestServer, tmp_path: Path, operator: str, dtype: str, case: str) -> None:
    with aclgrad.Client(server.target) as client:
        assert_round_trip(bundle_of(client, typed_case(operator, dtype, case)), tmp_path / "call.zip")


def test_shapes_without_values_and_wanted_outputs_are_read(server: TestServer, tmp_path: Path) -> None:
    pool, norm = typed_case(*CASES[0]), typed_case("layer_norm_backward", "float32", "rows")
    with aclgrad.Client(server.target) as client:
        found = assert_round_trip(bundle_of(client, pool, shape_only=("self",)), tmp_path / "pool.zip")
        assert inputs_of(found)["self"] == pool.case.shapes["self"]
        wanted = ("grad_weight", "grad_bias")
        assert list(
            assert_round_trip(bundle_of(client, norm, outputs=wanted), tmp_path / "norm.zip").judged.expected
        ) == [*wanted]


@pytest.mark.parametrize(
    "laid",
    [
        lambda array: array.astype(array.dtype.newbyteorder(">")),
        np.asfortranarray,
        lambda array: np.repeat(array, 2, -1)[..., ::2],
    ],
    ids=["big_endian", "transposed", "strided"],
)
@pytest.mark.parametrize(("operator", "dtype", "case"), [CASES[0], CASES[1], CASES[5]])
def test_arrays_of_any_layout_are_written(
    server: TestServer, tmp_path: Path, operator: str, dtype: str, case: str, laid: Callable[[Any], Any]
) -> None:
    typed = typed_case(operator, dtype, case)
    arrays = typed.arrays()
    program = one_step(OPERATORS[operator], {name: laid(each) for name, each in arrays.items()}, typed.attributes)
    with aclgrad.Client(server.target) as client:
        write(tmp_path / "call.zip", with_judged(bundle_of(client, typed), program=program))
    assert_same(inputs_of(read(tmp_path / "call.zip")), arrays)


def test_numpy_and_safetensors_read_the_files_alone(bundle: Bundle, tmp_path: Path) -> None:
    path = tmp_path / "call.zip"
    write(path, bundle)
    with ZipFile(path) as archive:
        assert archive.testzip() is None
        archive.extractall(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir() if each != path) == [
        "README.txt",
        *("expected.safetensors", "gradients.safetensors", "inputs.safetensors", "program.json", "repeat.py"),
    ]
    assert_same(load_file(tmp_path / "expected.safetensors"), bundle.judged.expected)
    described = json.loads((tmp_path / "program.json").read_text())
    assert described["inputs"]["grad_output"] == {
        "dtype": "float32",
        "shape": [*inputs_of(bundle)["grad_output"].shape],
    }
    readme = (tmp_path / "README.txt").read_text()
    assert "avg_pool2d_backward" in readme
    assert "Private are the inputs (grad_output, self)" in " ".join(readme.split())


def test_a_bundle_says_where_it_comes_from(bundle: Bundle, monkeypatch: pytest.MonkeyPatch, server: TestServer) -> None:
    assert bundle.server["product"] == "910B"
    assert bundle.server["library"] == "aclgrad.testing"
    assert bundle.server["aclgrad"] == bundle.client["aclgrad"] == aclgrad.__version__
    assert bundle.client["numpy"] == np.__version__
    monkeypatch.setattr("sys.argv", ["/usr/bin/aclgrad", "check", "--bundle", "a file.zip"])
    with aclgrad.Client(server.target) as client:
        told = Bundle.of(bundle.judged, "a finding", client.server_status())
    assert told.command == "aclgrad check --bundle 'a file.zip'"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", told.date)


def test_no_file_is_replaced_unasked(bundle: Bundle, tmp_path: Path) -> None:
    path = tmp_path / "call.zip"
    path.write_text("mine")
    with pytest.raises(ValueError, match=r"call\.zip exists; give another file, or --force"):
        write(path, bundle)
    assert path.read_text() == "mine"
    write(path, bundle, overwrite=True)
    assert read(path).finding == bundle.finding
    with pytest.raises(ValueError, match="there is no folder"):
        write(tmp_path / "nowhere/call.zip", bundle)


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_bundle_is_written_as_a_whole_or_not_at_all(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    path, calls = tmp_path / "call.zip", []

    def fails_at_last(arrays: Any) -> bytes:
        calls.append(arrays)
        if len(calls) % 3 == 0:
            raise error
        return b"arrays"

    monkeypatch.setattr(safetensors.numpy, "save", fails_at_last)
    with pytest.raises(type(error)):
        write(path, bundle)
    assert list(tmp_path.iterdir()) == []
    path.write_text("mine")
    with pytest.raises(type(error)):
        write(path, bundle, overwrite=True)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("call.zip", "mine")]


def test_a_full_disk_leaves_no_half_bundle(bundle: Bundle, tmp_path: Path) -> None:
    """A file that is larger than the process may write fails in the middle, as one on a full disk does."""
    large = with_judged(bundle, gradients={"grad_input": np.random.default_rng(0).random(10_000)})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write(tmp_path / "call.zip", large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert list(tmp_path.iterdir()) == []


def test_more_than_a_bundle_holds_is_refused_before_it_is_copied(bundle: Bundle, tmp_path: Path) -> None:
    huge = np.broadcast_to(np.float32(1), (2**20, 2**10))
    with pytest.raises(
        ValueError, match=r"would hold 4 GiB of arrays, and a bundle holds at most 1 GiB; make the call"
    ):
        write(tmp_path / "call.zip", with_judged(bundle, gradients={"grad_input": huge}))
    assert list(tmp_path.iterdir()) == []


def test_the_most_that_is_written_is_read(bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = (inputs_of(bundle), bundle.judged.gradients, bundle.judged.expected)
    total = sum(np.asarray(array).nbytes for part in parts for array in part.values())
    for module in (written, reading):
        monkeypatch.setattr(module, "MAX_BUNDLE_BYTES", total + written.MAX_TEXT_BYTES)
    write(tmp_path / "call.zip", bundle)
    assert read(tmp_path / "call.zip").date == bundle.date
    monkeypatch.setattr(written, "MAX_BUNDLE_BYTES", total + written.MAX_TEXT_BYTES - 1)
    with pytest.raises(ValueError, match="a bundle holds at most"):
        write(tmp_path / "other.zip", bundle)


def test_a_dtype_that_calls_do_not_have_is_refused(bundle: Bundle, tmp_path: Path) -> None:
    with pytest.raises(aclgrad.InvalidFieldError, match=r"inputs\[grad_input\] has dtype uint32"):
        write(tmp_path / "call.zip", with_judged(bundle, gradients={"grad_input": np.zeros(3, np.uint32)}))
    assert list(tmp_path.iterdir()) == []


def test_attributes_of_numpy_are_written_as_plain_ones(bundle: Bundle, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "kernel_size": np.array([3, 3]),
        "stride": [2, 2],
        "padding": (np.int64(1), 1),
        "ceil_mode": np.bool_(False),
    }
    program = one_step(OPERATORS[CASES[0][0]], inputs_of(bundle), given)
    write(
        tmp_path / "call.zip",
        with_judged(bundle, program=program, computed_by="PyTorch", tolerance=Tolerance(0.0, 1e-9)),
    )
    found = read(tmp_path / "call.zip").judged
    attributes = found.program.steps[0].attributes
    assert attributes == {"kernel_size": (3, 3), "stride": (2, 2), "padding": (1, 1), "ceil_mode": False}
    assert [type(each) for each in attributes.values()] == [tuple, tuple, tuple, bool]
    assert found.computed_by == "PyTorch"
    assert {found.tolerance.of(each) for each in found.expected} == {Tolerance(0.0, 1e-9)}


def test_a_program_is_read_with_its_views_tables_and_types(server: TestServer, tmp_path: Path) -> None:
    """Whatever is drawn, in float32 and bfloat16."""
    for seed, dtype in enumerate(("float32", "bfloat16")):
        generator = np.random.default_rng(seed)
        integer = lambda first, last: int(generator.integers(first, last, endpoint=True))  # noqa: B023, E731
        program = draw_program(integer, Product.ATLAS_A2, 60, dtype=dtype, faults=False)
        gradients = {
            program.label((number, name)): np.zeros(type.shape, type.dtype.numpy)
            for number, step in enumerate(program.steps)
            for name, type in step.types.items()
        }
        expected = {label: each.astype(np.float64) for label, each in list(gradients.items())[1:]}
        judged = JudgedProgram(program, tuple(program.outputs), gradients, expected, DEFINITION, Tolerance(0.0, 1.0))
        found = assert_round_trip(Bundle(judged, "", {}, {}, "", ""), tmp_path / f"{dtype}.zip").judged.program
        pairs = [
            (one, other)
            for step, same in zip(program.steps, found.steps, strict=True)
            for one, other in zip(step.inputs, same.inputs, strict=True)
        ]
        assert any(one.view and one.step is not None for one, _ in pairs)
        assert any(one.entry is not None for one, _ in pairs)
        for one, other in pairs:
            assert (one.name, one.type, one.step, one.output) == (other.name, other.type, other.step, other.output)
            assert laid(one) == laid(other)
