"""`aclgrad call`: from files to a file."""

import json
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import aclgrad
from aclgrad.testing import TestServer

from .conftest import Run

GRAD = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
EXPECTED = np.repeat(np.repeat(GRAD, 2, -1), 2, -2) / 4
CALL = "call adaptive_avg_pool2d_backward input=3,4,4"
MAX_POOL = "call max_pool2d_with_mask_backward input=3,4,4 kernel_size=2,2"


@pytest.fixture
def grad(tmp_path: Path) -> Path:
    np.save(tmp_path / "grad.npy", GRAD)
    return tmp_path / "grad.npy"


def damaged_archive() -> bytes:
    """Returns an npz file whose compressed data is not what it was."""
    file = BytesIO()
    np.savez_compressed(file, g=np.random.default_rng(0).random(1000))
    return file.getvalue()[:200] + b"\xff" * 50 + file.getvalue()[250:]


def load(path: Path) -> np.ndarray:
    if path.suffix == ".npz":
        return np.load(path)["gradient"]
    return load_file(path)["gradient"] if path.suffix == ".safetensors" else np.load(path)


def save(path: Path, array: np.ndarray, **others: np.ndarray) -> None:
    if path.suffix == ".npy":
        np.save(path, array)
    elif path.suffix == ".npz":
        np.savez(path, grad=array, **others)
    else:
        save_file({"grad": array, **others}, path)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors"])
def test_a_gradient_goes_from_a_file_to_a_file(run: Run, tmp_path: Path, suffix: str, dtype: str) -> None:
    given, output = tmp_path / f"grad{suffix}", tmp_path / f"gradient{suffix}"
    save(given, GRAD.astype(dtype))
    result = run(CALL, f"grad_output={given}", "-o", output)
    assert result.exit_code == 0, result.output
    assert f"{dtype} 3x4x4" in result.output
    if suffix != ".npy":
        several = tmp_path / f"all{suffix}"
        save(several, GRAD.astype(dtype), other=GRAD[:1])
        assert run(CALL, f"grad_output={several}:grad", "-o", output, "--force").exit_code == 0
        refused = run(CALL, f"grad_output={several}")
        assert (refused.exit_code, f"give {several}:NAME with one of" in refused.output) == (2, True)
    found = load(output)
    assert found.dtype.itemsize == GRAD.astype(dtype).itemsize
    np.testing.assert_array_equal(found.view(dtype).astype(np.float32), EXPECTED)


def test_attributes_have_the_kinds_that_the_server_lists(run: Run, tmp_path: Path, grad: Path) -> None:
    indices = np.broadcast_to(np.array([[0, 2], [8, 10]]), GRAD.shape)
    np.save(tmp_path / "indices.npy", np.ascontiguousarray(indices))
    output = tmp_path / "gradient.npy"
    result = run(
        MAX_POOL,
        f"grad_output={grad}",
        f"indices={tmp_path}/indices.npy",
        *("stride=2", "ceil_mode=true", "-o", output),
    )
    assert result.exit_code == 0, result.output
    expected = np.zeros((3, 4, 4), np.float32)
    expected[:, ::2, ::2] = GRAD
    np.testing.assert_array_equal(np.load(output), expected)


def test_json_is_the_only_output(run: Run, grad: Path) -> None:
    told = json.loads(run(CALL, f"grad_output={grad}", "--json").output)
    assert (told["gradients"], told["output"]) == ({"gradient": {"dtype": "float32", "shape": [3, 4, 4]}}, None)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("grad_output",), "'grad_output' is not NAME=VALUE"),
        (("grad_output={grad}", "grad_output={grad}"), "grad_output is given twice"),
        (("input=4",), "aclgrad call: input is given twice\n"),
        (("self=4",), "aclgrad call: self is given twice, as input too\n"),
        (("grad_output=1,x",), "grad_output=1,x: give a file"),
        (("grad_output={grad}:name",), "leave :name out"),
        (("grad_output={grad}", "-o", "gradient.txt"), "gradient.txt has no known form"),
        (("grad_output={integers}",), "inputs[grad_output].data_type is int64"),
        (("grad_output={text}",), "text.npy cannot be read as an npy file"),
        (("grad_output={broken}",), "text.npz cannot be read as an npz file"),
        (("grad_output={header}",), "header.npy cannot be read as an npy file"),
        (("grad_output={damaged}",), "damaged.npz cannot be read as an npz file"),
        (("grad_output={unknown}",), "unknown.safetensors cannot be read as a safetensors file"),
        (("grad_output={notes}",), "notes.npz has 0 arrays"),
        (("grad_output={grad}", "-o", "/nowhere/gradient.npy"), "there is no folder /nowhere"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    run: Run, tmp_path: Path, grad: Path, arguments: tuple[str, ...], problem: str
) -> None:
    np.save(tmp_path / "integers.npy", GRAD.astype(np.int64))
    files = {"grad": grad, "integers": tmp_path / "integers.npy"}
    for name, suffix in (("text", ".npy"), ("broken", ".npz")):
        files[name] = tmp_path / f"text{suffix}"
        files[name].write_text("no array")
    contents = {
        "header.npy": b"\x93NUMPY\x01\x00\x10\x00{'shape': (3,".ljust(80),
        "damaged.npz": damaged_archive(),
        "unknown.safetensors": b"<\0\0\0\0\0\0\0"
        + b'{"g":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[0,3]}}'.ljust(63),
    }
    for file, content in contents.items():
        files[file.partition(".")[0]] = tmp_path / file
        (tmp_path / file).write_bytes(content)
    files["notes"] = tmp_path / "notes.npz"
    with ZipFile(files["notes"], "w") as archive:
        archive.writestr("notes.txt", "no array")
    result = run(CALL, *(argument.format_map(files) for argument in arguments))
    assert result.exit_code == 2, result.output
    assert problem in result.output
    assert result.output.startswith("aclgrad call: ")
    assert result.output.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("call avg_pool9d_backward", "operator avg_pool9d_backward is not known; call one of avg_pool2d_backward"),
        (f"{CALL} grad_output=/nowhere.npy", "grad_output=/nowhere.npy: No such file or directory; give a file (npy"),
        (f"{CALL} grad_output={{grad}} sizes=3", "sizes is not known; adaptive_avg_pool2d_backward takes grad_output"),
        (f"{MAX_POOL} ceil_mode=maybe", "ceil_mode=maybe: give true or false"),
        (f"{CALL}", "is a shape, and no other input is an array"),
        ("call adaptive_avg_pool2d_backward grad_output={grad}", "inputs[self] (parameter `input`) is missing"),
        ("call adaptive_avg_pool2d_backward input=2,x", "aclgrad call: input=2,x: give a file"),
        ("call tanh_backward input=2", "input is not known; tanh_backward takes grad_output, output"),
        ("call avg_pool2d_backward grad_output={grad} input=3,4,4 kernel_size=2,0", "attributes[kernel_size][1] is 0"),
        (f"{CALL} grad_output={{grad}} --want gradient", "outputs[gradient] is not known"),
    ],
)
def test_a_mistake_is_told_without_a_server(run: Run, grad: Path, command: str, problem: str) -> None:
    result = run(command.format(grad=grad), ACLGRAD_TARGET="127.0.0.1:1")
    assert (result.exit_code, problem in result.output) == (2, True), result.output
    assert "127.0.0.1:1" not in result.output


def test_what_every_product_refuses_in_its_own_words_needs_no_server(run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "grad.npy", GRAD.astype(np.float64))
    (tmp_path / "input.npy").write_bytes((tmp_path / "grad.npy").read_bytes())
    result = run(
        "call silu_backward --target 127.0.0.1:1",
        f"grad_output={tmp_path}/grad.npy",
        f"input={tmp_path}/input.npy",
    )
    assert result.exit_code == 2, result.output
    assert "every product refuses this call: on 910A: " in result.output
    narrow, wide = result.output.split("; on 910B, 910_93, 950: ")
    assert "inputs[grad_output].data_type is float64; send float32 or float16 or bfloat16 (2)" in wide
    assert "inputs[grad_output].data_type is float64; send float32 or float16 (2)" in narrow
    assert "the server" not in result.output
    assert "127.0.0.1:1" not in result.output


def test_what_one_product_takes_is_for_the_server(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACLGRAD_CONNECT_TIMEOUT_S", "0")
    save_file({"g": GRAD.astype("bfloat16")}, tmp_path / "all.safetensors")
    given = f"{tmp_path}/all.safetensors:g"
    result = run("call silu_backward --target 127.0.0.1:1", f"grad_output={given}", f"input={given}")
    assert (result.exit_code, "127.0.0.1:1" in result.output) == (3, True), result.output


def test_a_newer_server_may_know_more_than_this_client(
    run: Run, grad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aclgrad.commands.call.OPERATORS", {})
    output = tmp_path / "gradient.npy"
    assert run(CALL, f"grad_output={grad}", "-o", output).exit_code == 0
    np.testing.assert_array_equal(np.load(output), EXPECTED)
    assert "kernel_size is not known; adaptive_avg" in run(CALL, "kernel_size=2").output


def test_an_operator_that_is_not_served_is_refused_with_the_one_that_was_meant(run: Run) -> None:
    result = run("call avg_pool9d_backward")
    assert result.exit_code == 2
    assert "avg_pool9d_backward is not served there; call one of avg_pool2d_backward" in result.output


def test_a_file_is_replaced_by_force_alone(run: Run, grad: Path) -> None:
    refused = run(CALL, f"grad_output={grad}", "-o", grad)
    assert (refused.exit_code, "exists; give another file, or --force" in refused.output) == (2, True)
    assert run(CALL, f"grad_output={grad}", "-o", grad, "--force").exit_code == 0
    np.testing.assert_array_equal(np.load(grad), EXPECTED)


def test_a_server_that_fails_is_exit_code_3(run: Run, testing: TestServer, grad: Path) -> None:
    testing.fail(aclgrad.ServerFaultError("broken"))
    result = run(CALL, f"grad_output={grad}")
    assert (result.exit_code, "broken" in result.output) == (3, True)


@pytest.fixture
def normalised(tmp_path: Path) -> tuple[str, ...]:
    """A call of an operator with several outputs."""
    grad = np.arange(6, dtype=np.float32).reshape(2, 3)
    arrays = {"grad_output": grad, "input": grad[::-1].copy(), "mean": grad[:, :1].copy(), "rstd": grad[:, 1:2].copy()}
    save_file(arrays, tmp_path / "all.safetensors")
    given = (f"{name}={tmp_path}/all.safetensors:{name}" for name in arrays)
    return "call layer_norm_backward", *given, "normalized_shape=3"


@pytest.mark.parametrize("form", ["npz", "safetensors"])
def test_several_gradients_are_written_by_name(
    run: Run, tmp_path: Path, normalised: tuple[str, ...], form: str
) -> None:
    output = tmp_path / f"gradients.{form}"
    result = run(*normalised, "-o", output)
    assert result.exit_code == 0, result.output
    assert result.output.startswith("grad_input float32 2x3, grad_weight float32 3, grad_bias float32 3 to ")
    found = dict(np.load(output)) if form == "npz" else load_file(output)
    assert sorted(found) == ["grad_bias", "grad_input", "grad_weight"]
    np.testing.assert_array_equal(found["grad_bias"], [3, 5, 7])
    refused = run(*normalised, "-o", tmp_path / "gradient.npy")
    assert refused.exit_code == 2
    assert "holds one array, and there are grad_input, grad_weight, grad_bias; give FILE.npz" in refused.output


def test_some_gradients_are_asked_for(run: Run, tmp_path: Path, normalised: tuple[str, ...]) -> None:
    output = tmp_path / "gradient.npy"
    result = run(*normalised, "--want", "grad_bias", "-o", output)
    assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(np.load(output), [3, 5, 7])
    told = json.loads(run(*normalised, "--want", "grad_bias", "--want", "grad_weight", "--json").output)
    assert list(told["gradients"]) == ["grad_weight", "grad_bias"]
    refused = run(*normalised, "--want", "grad_biases")
    assert refused.exit_code == 2
    assert "outputs[grad_biases] is not known; call it" in refused.output
