"""Random programs of a few operators with small tensors: every source, sink, table and set of returned outputs."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from hypothesis.vendor.pretty import RepresentationPrinter

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.sources import InMessage, OutputOf, SharedRange, Source, TableEntry, in_message
from aclgrad.tensors import DTYPES, TensorType, TensorView, View
from aclgrad.wire.chunks import encode_header
from aclgrad.wire.messages import OperatorCall
from aclgrad.wire.values import referred_bytes
from tests.server.sent import program_of

SHARED_BYTES = 2**20
COUNTS = (1, 5, 300, 2000)


@dataclass(repr=False)
class Drawn:
    calls: list[OperatorCall] = field(default_factory=list)
    tensors: list[TensorView] = field(default_factory=list)
    """The table, also of tensors in chunks, whose bytes are in `table`."""
    table: list[bytes] = field(default_factory=list)
    returned: list[tuple[int, str]] = field(default_factory=list)
    chunk_bytes: int = 0
    shared_name: str = ""
    shared: bytearray = field(default_factory=bytearray)
    """What the object has that the inputs in shared memory are in."""

    def __repr__(self) -> str:
        def told(tensor: TensorView) -> str:
            return f"{tensor.name}: {tensor.type} {replace_data(tensor.source)} {tensor.view or ''}"

        steps = [f"{each.operator}({'; '.join(map(told, each.inputs))}) {each.output_memory}" for each in self.calls]
        table = [told(each) for each in self.tensors]
        return "\n".join([*steps, f"{table=} returned={self.returned} chunk_bytes={self.chunk_bytes}"])

    def _repr_pretty_(self, printer: RepresentationPrinter, is_cycle: bool) -> None:
        printer.text(repr(self))

    @property
    def request(self) -> bytes:
        return program_of(*self.calls, tensors=self.tensors, returned=self.returned)

    @property
    def header(self) -> bytes:
        return encode_header(self.request, self.chunk_bytes)

    def bytes_of(self, tensor: TensorView, outputs: dict[tuple[int, str], bytes]) -> bytes | None:
        """Returns what the device gets for an input, if earlier steps made these outputs."""
        source = tensor.source
        if source.entry is not None:
            return self.table[source.entry][: source.nbytes]
        if source.step is not None:
            return outputs[source.step, source.output][: source.nbytes]
        if (shared := source.shared) is not None:
            return bytes(self.shared[shared.offset : shared.offset + shared.nbytes])
        return None if source.data is None else bytes(source.data)

    def returns(self, number: int, output: str) -> bool:
        return not self.returned or (number, output) in self.returned


def replace_data(source: Source) -> Source:
    """Returns the source without bytes, which nobody reads."""
    return InMessage(source.nbytes) if source.data is not None else source


def data_of(draw: st.DrawFn, size_bytes: int) -> bytes:
    return np.random.default_rng(draw(st.integers(0, 255))).bytes(size_bytes)


class _Maker:
    def __init__(self, draw: st.DrawFn, can_share: bool, chunk_bytes: int, name: str) -> None:
        self.draw = draw
        self.can_share = can_share
        self.made: list[tuple[int, str, TensorType]] = []
        self.drawn = Drawn(chunk_bytes=chunk_bytes, shared_name=name)

    def shared_range(self, size_bytes: int) -> SharedRange:
        offset = -(-len(self.drawn.shared) // 64) * 64
        self.drawn.shared += bytes(offset + size_bytes - len(self.drawn.shared))
        return SharedRange(self.drawn.shared_name, offset, size_bytes)

    def input(self, name: str, *shape: int, is_checked: bool = False) -> TensorView:
        draw, type = self.draw, TensorType(DTYPES["float32"], shape)
        ways = ["message", "table", "table", "new entry"] + ([] if is_checked else ["output"] * 5)
        way = draw(st.sampled_from([*ways, "shared"] if self.can_share else ways))
        if way == "output":
            fitting = [each for each in self.made if each[2].element_count >= type.element_count]
            if fitting:
                number, output, of = draw(st.sampled_from(fitting))
                view = self.view(type, of)
                return TensorView(name, type, OutputOf(number, output, referred_bytes(type, view)), view)
        if way == "table":
            tensors = self.drawn.tensors
            usable = [i for i, each in enumerate(tensors) if each.type.element_count >= type.element_count]
            if usable:
                entry = draw(st.sampled_from(usable))
                view = self.view(type, tensors[entry].type)
                return TensorView(name, type, TableEntry(entry, referred_bytes(type, view)), view)
        if way == "new entry":
            entry = len(self.drawn.tensors)
            self.drawn.tensors.append(self.entry(type))
            return TensorView(name, type, TableEntry(entry, type.size_bytes))
        if way == "shared":
            range = self.shared_range(type.size_bytes)
            self.drawn.shared[range.offset :] = data_of(draw, type.size_bytes)
            return TensorView(name, type, range)
        return TensorView(name, type, in_message(memoryview(data_of(draw, type.size_bytes))))

    def view(self, type: TensorType, of: TensorType) -> View | None:
        """Returns a view of another tensor, also where none is needed."""
        if type == of and self.draw(st.booleans()):
            return None
        offset = self.draw(st.integers(0, of.element_count - type.element_count))
        if self.draw(st.booleans()) and type.rank:
            return View(offset, (0,) * type.rank)
        return View(offset, ())

    def entry(self, type: TensorType) -> TensorView:
        self.drawn.table.append(content := data_of(self.draw, type.size_bytes))
        kinds = ["message", *(["shared"] if self.can_share else []), *(["chunks"] if self.drawn.chunk_bytes else [])]
        kind = self.draw(st.sampled_from(kinds))
        if kind == "chunks":
            return TensorView("", type)
        if kind == "shared":
            range = self.shared_range(type.size_bytes)
            self.drawn.shared[range.offset :] = content
            return TensorView("", type, range)
        return TensorView("", type, in_message(memoryview(content)))

    def step(self) -> OperatorCall:
        draw = self.draw
        kind = draw(st.sampled_from(["tanh_backward", "softmax_backward", "pooling", "layer_norm"]))
        count = draw(st.sampled_from(COUNTS))
        if kind == "pooling":
            self_shape = TensorView("self", TensorType(DTYPES["float32"], (1, draw(st.integers(1, 9)), 8)))
            return OperatorCall("adaptive_avg_pool2d_backward", (self.input("grad_output", 1, 1, 1), self_shape), {})
        if kind == "layer_norm":
            names = {"grad_output": (3, count), "input": (3, count), "mean": (3, 1), "rstd": (3, 1)}
            inputs = [self.input(name, *shape, is_checked=name == "rstd") for name, shape in names.items()]
            inputs.append(TensorView("bias", TensorType(DTYPES["float32"], (count,))))
            all_outputs = ("grad_input", "grad_weight", "grad_bias")
            outputs = tuple(draw(st.lists(st.sampled_from(all_outputs), unique=True)))
            return OperatorCall("layer_norm_backward", tuple(inputs), {"normalized_shape": (count,)}, outputs=outputs)
        inputs = [self.input(each.name, 1, count) for each in OPERATORS[kind].inputs]
        return OperatorCall(kind, tuple(inputs), {} if kind == "tanh_backward" else {"dim": 1})

    def types(self, call: OperatorCall) -> list[tuple[str, TensorType]]:
        """Returns the wanted outputs of a step, by what is known of these operators."""
        given = {each.name: each.type for each in call.inputs}
        if call.operator == "layer_norm_backward":
            row = given["bias"]
            found = [("grad_input", given["input"]), ("grad_weight", row), ("grad_bias", row)]
            return [each for each in found if not call.outputs or each[0] in call.outputs]
        if call.operator == "adaptive_avg_pool2d_backward":
            return [("out", given["self"])]
        return [("grad_input" if call.operator == "tanh_backward" else "out", given["grad_output"])]

    def program(self, max_steps: int) -> Drawn:
        draw, drawn = self.draw, self.drawn
        for number in range(draw(st.integers(1, max_steps))):
            call = self.step()
            outputs = self.types(call)
            if self.can_share and draw(st.integers(0, 4)) == 0:
                name, type = outputs[0]
                call = replace(call, output_memory={name: self.shared_range(type.size_bytes)})
            drawn.calls.append(call)
            self.made += ((number, name, type) for name, type in outputs)
        if draw(st.booleans()):
            names = [(number, name) for number, name, _ in self.made]
            drawn.returned = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
        return drawn


@st.composite
def programs(
    draw: st.DrawFn,
    max_steps: int = 12,
    can_share: bool = True,
    in_chunks: bool | None = None,
    name: str = "/aclgrad-x",
) -> Drawn:
    """Returns a program whose inputs in shared memory are in an object of this name."""
    chunked = draw(st.booleans()) if in_chunks is None else in_chunks
    return _Maker(draw, can_share, draw(st.sampled_from([64, 1000])) if chunked else 0, name).program(max_steps)


@contextmanager
def shared_object() -> Iterator[Path]:
    """An empty object in shared memory."""
    path = Path(f"/dev/shm/aclgrad-{secrets.token_hex(6)}")
    path.write_bytes(b"")
    try:
        yield path
    finally:
        path.unlink()
