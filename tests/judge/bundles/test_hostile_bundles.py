"""Bundles that somebody made to do harm, or that are damaged: nothing is run, unpacked or inflated for them."""

import json
import pickle
import struct
import tracemalloc
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZIP_BZIP2, ZIP_LZMA, ZIP_STORED, ZipFile

import numpy as np
import pytest
from safetensors.numpy import save

import aclgrad
from aclgrad.judge.bundles import read, write
from aclgrad.testing import TestServer
from tests.bundled import EXPLODES, bundle_of, members_of, pack, typed_case

INPUTS, GRADIENTS, EXPECTED = (f"{part}.safetensors" for part in ("inputs", "gradients", "expected"))
Members = dict[str, bytes]
CENTRAL, LOCAL = b"PK\1\2", b"PK\3\4"


@pytest.fixture(scope="module")
def good(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with an input without values, and attributes."""
    path = tmp_path_factory.mktemp("good") / "call.zip"
    with aclgrad.Client(server.target) as client:
        write(
            path, bundle_of(client, typed_case("avg_pool2d_backward", "float32", "overlapping"), shape_only=("self",))
        )
    return path


@pytest.fixture
def members(good: Path) -> Members:
    return members_of(good)


def refusal(path: Path) -> str:
    """Returns what `read` says, which names the file."""
    before = sorted(path.parent.iterdir())
    with pytest.raises(ValueError, match="cannot be read as a bundle") as caught:
        read(path)
    assert sorted(path.parent.iterdir()) == before
    told = str(caught.value)
    assert told.startswith(f"{path} cannot be read as a bundle: ")
    assert told.isprintable()
    return told


def described(**changes: Any) -> Callable[[Members], None]:
    """Returns the change of fields of program.json; None takes one away."""

    def change(members: Members) -> None:
        fields = json.loads(members["program.json"]) | changes
        kept = {name: value for name, value in fields.items() if value is not None}
        members["program.json"] = json.dumps(kept).encode()

    return change


def step(**changes: Any) -> Callable[[Members], None]:
    """Returns the change of fields of the only step; None takes one away."""

    def change(members: Members) -> None:
        fields = json.loads(members["program.json"])
        fields["steps"][0] = {n: v for n, v in (fields["steps"][0] | changes).items() if v is not None}
        members["program.json"] = json.dumps(fields).encode()

    return change


def typed(part: str, name: str, **changes: Any) -> Callable[[Members], None]:
    """Returns the change of the type that program.json has for a tensor."""

    def change(members: Members) -> None:
        fields = json.loads(members["program.json"])
        fields[part][name] = fields[part].get(name, {}) | changes
        members["program.json"] = json.dumps(fields).encode()

    return change


def holding(name: str, content: bytes) -> Callable[[Members], None]:
    return lambda members: members.update({name: content})


def without(name: str) -> Callable[[Members], None]:
    return lambda members: members.pop(name) and None


def tensors(header: Any, data: bytes = b"") -> bytes:
    """Returns a safetensors file with this header, whatever it says."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def both(*changes: Callable[[Members], None]) -> Callable[[Members], None]:
    def change(members: Members) -> None:
        for each in changes:
            each(members)

    return change


class Exploding:
    def __reduce__(self) -> tuple[Any, ...]:
        return open, ("exploded", "w")


NO_FILE = "inputs.safetensors is no safetensors file"
HUGE = {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]}
GRAD = "inputs.safetensors:grad_output"
VAST = {"file": GRAD, "view": {"shape": [2**14, 2**14, 5, 5], "strides": [0, 0, 5, 1]}}
VAST_INPUTS = {"grad_output": VAST, "output": VAST}
BEFORE = {"file": GRAD, "view": {"offset": -1, "shape": [1]}}
BEYOND = {"file": GRAD, "view": {"shape": [2, 76]}}
CONTENTS: list[tuple[str, Callable[[Members], None], str]] = [
    ("zip slip", holding("../../evil.py", EXPLODES), "it has '../../evil.py', which no bundle has"),
    ("absolute", holding("/etc/evil", b""), "it has '/etc/evil', which no bundle has"),
    ("control", holding("a\x1b[2Jb", b""), "it has 'a\\x1b[2Jb', which no bundle has"),
    ("folder", holding("call/program.json", b"{}"), "it has 'call/program.json', which no bundle has"),
    ("no call", without("program.json"), "it has no program.json"),
    ("no inputs", without(INPUTS), "it has no inputs.safetensors"),
    ("large call", holding("program.json", b" " * (2**20 + 1)), "program.json has more than 1 MiB"),
    ("deep", holding("program.json", b"[" * 500_000), "recursion"),
    ("no JSON", holding("program.json", b"{"), "line 1 column 2"),
    ("no object", holding("program.json", b"[1]"), "program.json names no format"),
    ("NaN", holding("program.json", b'{"format": NaN}'), "program.json has NaN, which is no number"),
    ("long", holding("program.json", b'{"format": ' + b"9" * 10_000 + b"}"), "4300"),
    ("no format", described(format=None), "program.json names no format"),
    ("newer", both(described(format=3), holding("new.bin", b"")), "it is of format 3, and aclgrad"),
    ("no steps", described(steps=None), "program.json has no steps"),
    ("steps", described(steps=[]), "has 0 steps; give 1 to 4096"),
    ("many steps", described(steps=[{}] * 4097), "has 4097 steps"),
    ("no step", described(steps=[3]), "step 0 has to be an object with operator, inputs"),
    ("operator", step(operator=3), "step 0 has a wrong operator; give a text"),
    ("no operator", step(operator="made_up"), "step 0 operator 'made_up' is not known"),
    ("escapes", step(operator="\x1b]0;evil\x07"), "operator '\\x1b]0;evil\\x07' is not known"),
    ("escaping name", described(inputs={"\x1b]0;evil\x07": 3}), "has the name '\\x1b]0;evil\\x07'"),
    ("escaping field", step(**{"\x1b": 1}), "step 0 has the field '\\x1b'"),
    ("escaping input", step(inputs={"\x1b": [3]}), "has the name '\\x1b'"),
    ("escaping attribute", step(attributes={"\x1b": 3}), "has the name '\\x1b'"),
    ("escaping output", step(outputs=["\x1b"]), "has the name '\\x1b'"),
    ("output", step(outputs=[3]), "has the name 3"),
    ("name", step(name="a b"), "has the name 'a b'"),
    ("no finding", described(finding=None), "program.json has no finding"),
    ("versions", described(server={"soc": 3}), "server holds something else than str"),
    ("tolerance", described(tolerance={"grad_input": {"relative": -1, "absolute": 0}}), "no tolerance of two numbers"),
    ("infinite", holding("program.json", b'{"format": 2, "tolerance": 1e999}'), "program.json has no inputs"),
    ("huge number", described(tolerance={"grad_input": {"relative": 10**400, "absolute": 0}}), "too large"),
    ("texts", described(tolerance={"grad_input": {"relative": "0", "absolute": 0}}), "no tolerance of two numbers"),
    ("attribute", step(attributes={"kernel_size": {"a": 1}}), "attributes[kernel_size] is"),
    ("list", step(attributes={"kernel_size": [1.5]}), "attributes[kernel_size] is"),
    ("wide", step(attributes={"kernel_size": [2**63, 1]}), "attributes[kernel_size] is no value of 64 bits"),
    ("long list", step(attributes={"kernel_size": [1] * 4097}), "no list of at most 4096"),
    ("other file", step(inputs={"grad_output": "/etc/passwd", "self": [2, 3, 9, 10]}), "'/etc/passwd' is no tensor of"),
    ("other tensor", step(inputs={"grad_output": "inputs.safetensors:b"}), "'inputs.safetensors:b' is no tensor of"),
    ("later step", step(inputs={"grad_output": {"step": 0}}), "has step 0; give the name or the number of an earlier"),
    ("bool step", step(inputs={"grad_output": {"step": False}}), "has step False"),
    (
        "views",
        step(operator="tanh_backward", inputs={"grad_output": VAST, "output": VAST}, attributes={}),
        "its views have more than 1 GiB",
    ),
    ("beyond a tensor", step(inputs={"grad_output": BEYOND}), "is not within the 150 elements of float32[2, 3, 5, 5]"),
    ("negative view", step(inputs={"grad_output": BEFORE}), "is not within the 150"),
    ("returned", described(returned=[{"step": 0, "output": "out"}]), "has output 'out', and step 0 has grad_input"),
    ("returned twice", described(returned=[{"step": 0}] * 2), "names no output, or one twice"),
    ("no types", described(inputs={"grad_output": [2, 3]}), "inputs[grad_output] has no type"),
    ("rank", typed("inputs", "grad_output", shape=[1] * 9), "the shape of inputs[grad_output] is invalid"),
    ("negative", typed("inputs", "grad_output", shape=[-1]), "the shape of inputs[grad_output] is invalid"),
    ("beyond", typed("inputs", "grad_output", shape=[2**63]), "the shape of inputs[grad_output] is invalid"),
    ("no size", typed("inputs", "grad_output", shape=[True]), "the shape of inputs[grad_output] holds something else"),
    ("dtype", typed("inputs", "grad_output", dtype="object"), "inputs[grad_output] is of no dtype that calls have"),
    ("nested dtype", typed("inputs", "grad_output", dtype=[["float32"]]), "inputs[grad_output] is of no dtype"),
    ("other dtype", typed("inputs", "grad_output", dtype="int32"), "stored in another form than int32[2, 3, 5, 5] has"),
    ("other shape", typed("inputs", "grad_output", shape=[150]), "stored in another form than float32[150] has"),
    ("10^12", typed("inputs", "grad_output", shape=[10**12]), "stored in another form than float32[1000000000000]"),
    ("not stored", typed("inputs", "self", dtype="float32", shape=[3]), "inputs.safetensors has other tensors"),
    ("no gradient", described(gradients={}, expected={}), "other tensors than program.json"),
    ("other gradients", both(described(gradients={}), holding(GRADIENTS, save({}))), "not those that its steps return"),
    ("wanted", step(outputs=["grad_weight"]), "outputs[grad_weight] is not known"),
    ("no truth", both(described(expected={}), holding(EXPECTED, save({}))), "it expects no gradient"),
    ("large", step(inputs={"grad_output": GRAD, "self": [2, 3, 9, 9]}), "float32[2, 3, 9, 9]"),
    ("pickle", holding(INPUTS, pickle.dumps(Exploding())), "inputs.safetensors has a header of more than 1 MiB"),
    ("npy", holding(EXPECTED, b"\x93NUMPY" + b"\0" * 100), "expected.safetensors has a header of more than 1 MiB"),
    ("empty", holding(INPUTS, b""), NO_FILE),
    ("header", holding(INPUTS, struct.pack("<Q", 2**21) + b" " * 2**21), "inputs.safetensors has a header of more"),
    (
        "many",
        holding(INPUTS, tensors({f"a{n}": HUGE for n in range(40_000)})),
        "inputs.safetensors has a header of more",
    ),
    ("nested", holding(INPUTS, tensors(b'{"a":' * 10_000)), NO_FILE),
    ("lies", holding(INPUTS, tensors({"grad_output": HUGE})), NO_FILE),
    ("beyond data", holding(INPUTS, tensors({"grad_output": HUGE | {"data_offsets": [0, 600]}}, b"\0" * 600)), NO_FILE),
    ("cut", lambda members: members.update({INPUTS: members[INPUTS][:-1]}), NO_FILE),
    (
        "F8",
        holding(INPUTS, tensors({"grad_output": {"dtype": "F8_E4M3", "shape": [3], "data_offsets": [0, 3]}}, b"abc")),
        "stored in another form",
    ),
    (
        "narrow",
        both(
            typed("expected", "grad_input", dtype="float32"),
            holding(EXPECTED, save({"grad_input": np.zeros((2, 3, 9, 10), np.float32)})),
        ),
        "expected[grad_input] is float32 and has to be float64 or complex128",
    ),
]


@pytest.mark.parametrize(("change", "told"), [each[1:] for each in CONTENTS], ids=[each[0] for each in CONTENTS])
def test_content_that_is_not_that_of_a_bundle_is_refused(
    members: Members, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Members], None], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    change(members)
    assert told in refusal(pack(tmp_path / "call.zip", members))


def test_a_newer_format_says_upgrade_whatever_else_it_has(members: Members, tmp_path: Path) -> None:
    both(described(format=7, inputs=None), holding("new.bin", b""), without(INPUTS))(members)
    assert refusal(pack(tmp_path / "call.zip", members)).endswith("reads 2; upgrade aclgrad")


def patched(path: Path, mark: bytes, member: str, offset: int, value: bytes) -> None:
    """Writes bytes into a header of a member: the local one, or the one in the list at the end."""
    content = bytearray(path.read_bytes())
    length = 46 if mark == CENTRAL else 30
    place = content.index(member.encode(), content.index(mark)) - length
    while content[place : place + 4] != mark:
        place = content.index(member.encode(), place + length + 1) - length
    content[place + offset : place + offset + len(value)] = value
    path.write_bytes(content)


def archive_of(members: Members, path: Path, **options: Any) -> bytes:
    return pack(path, members, **options).read_bytes()


def with_comment(path: Path, members: Members) -> None:
    with ZipFile(pack(path, members), "a") as archive:
        archive.comment = b"hello"


def twice(path: Path, members: Members) -> None:
    with ZipFile(pack(path, members), "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr("program.json", members["program.json"])


def flipped(path: Path, members: Members) -> None:
    content = archive_of(members, path, compression=ZIP_STORED)
    place = content.index(members[EXPECTED]) + len(members[EXPECTED]) - 1
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])


def rewritten(change: Callable[[bytes], bytes]) -> Callable[[Path, Members], None]:
    return lambda path, members: path.write_bytes(change(archive_of(members, path))) and None


def repacked(mark: bytes, member: str, offset: int, value: bytes) -> Callable[[Path, Members], None]:
    return lambda path, members: patched(pack(path, members), mark, member, offset, value)


def compressed(method: int) -> Callable[[Path, Members], None]:
    return lambda path, members: pack(path, members, compression=method) and None


MANY = struct.pack("<I", 2**20 + 1)
ARCHIVES: dict[str, tuple[Callable[[Path, Members], None], str]] = {
    "empty": (rewritten(lambda whole: b""), "it is no zip file"),
    "text": (rewritten(lambda whole: b"no zip file"), "it is no zip file"),
    "short": (rewritten(lambda whole: whole[:-1]), "it is no zip file, or it is cut"),
    "half": (rewritten(lambda whole: whole[: len(whole) // 2]), "it is no zip file, or it is cut"),
    "other half": (rewritten(lambda whole: whole[len(whole) // 2 :]), "program.json is damaged"),
    "comment": (with_comment, "has a comment"),
    "64 bits": (rewritten(lambda whole: whole[:-22] + b"PK\6\7" + b"\0" * 16 + whole[-22:]), "is of the 64-bit form"),
    "long list": (rewritten(lambda whole: whole[:-10] + MANY + whole[-6:]), "its list of members has more than 1 MiB"),
    "twice": (twice, "two of its members have the same name"),
    "password": (
        repacked(CENTRAL, "program.json", 8, b"\1\0"),
        "'program.json' is encrypted; have it sent without a password",
    ),
    "bzip2": (compressed(ZIP_BZIP2), "is neither stored nor deflated"),
    "lzma": (compressed(ZIP_LZMA), "is neither stored nor deflated"),
    "bomb": (
        repacked(CENTRAL, INPUTS, 24, struct.pack("<I", 2**30)),
        "it holds more than 1 GiB; unpack it and run its repeat.py, once you have read",
    ),
    "shorter than it says": (repacked(CENTRAL, INPUTS, 24, struct.pack("<I", 10**6)), "inputs.safetensors"),
    "damaged": (flipped, "expected.safetensors is damaged: Bad CRC"),
}


@pytest.mark.parametrize(("make", "told"), ARCHIVES.values(), ids=ARCHIVES)
def test_what_is_no_plain_zip_file_is_refused(
    members: Members, tmp_path: Path, make: Callable[[Path, Members], None], told: str
) -> None:
    """Nothing is inflated for it."""
    make(tmp_path / "call.zip", members)
    assert told in refusal(tmp_path / "call.zip")


def test_a_file_in_front_of_the_archive_changes_nothing(members: Members, tmp_path: Path) -> None:
    path = tmp_path / "call.zip"
    path.write_bytes(b"#!/bin/sh\necho\n" + archive_of(members, path))
    assert read(path).judged.program.title == "avg_pool2d_backward"


def test_what_is_only_stored_is_read(members: Members, tmp_path: Path) -> None:
    assert read(pack(tmp_path / "call.zip", members, compression=ZIP_STORED)).finding == "a finding"


def test_a_zip_bomb_that_lies_about_its_size_is_inflated_no_further(members: Members, tmp_path: Path) -> None:
    bomb = bytes(2**24)
    path = pack(tmp_path / "call.zip", {**members, GRADIENTS: bomb})
    patched(path, CENTRAL, GRADIENTS, 24, struct.pack("<I", 1000))
    # What is read has the right checksum, so that only the bound can stop it.
    patched(path, CENTRAL, GRADIENTS, 16, struct.pack("<I", zlib.crc32(bomb[:1000])))
    patched(path, LOCAL, GRADIENTS, 14, struct.pack("<I", zlib.crc32(bomb[:1000])))
    tracemalloc.start()
    try:
        assert "gradients.safetensors" in refusal(path)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_its_script_is_neither_run_nor_read(members: Members, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = pack(tmp_path / "call.zip", {**members, "repeat.py": EXPLODES, "README.txt": b"\xff\xfe no text"})
    patched(path, LOCAL, "repeat.py", 14, b"\0\0\0\0")  # a wrong checksum, if anybody looked
    assert read(path).finding == "a finding"
    assert [each.name for each in tmp_path.iterdir()] == ["call.zip"]


def test_a_file_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nowhere.zip")


def test_random_damage_is_an_error_or_harmless(members: Members, tmp_path: Path) -> None:
    """Any byte of the file may be another one."""
    path = tmp_path / "call.zip"
    whole = archive_of(members, path, compression=ZIP_STORED)
    generator = np.random.default_rng(0)
    told = []
    for place in generator.integers(len(whole), size=200):
        path.write_bytes(whole[:place] + bytes([generator.integers(256)]) + whole[place + 1 :])
        try:
            read(path)
        except ValueError as error:
            told.append(str(error))
    assert len(told) > 100
    assert all(each.startswith(f"{path} cannot be read as a bundle: ") for each in told)
