"""The stubs of operators that are unlike pooling: they build, and each says where it is not written yet."""

import re
import runpy
import shutil
import subprocess
import sys
from inspect import signature

import numpy as np
import pytest

from aclgrad.operators.spec import Arguments, OperatorKind, OperatorSpec
from native.operator_table import snake_case
from tests.sanitizers import COMPILER, NATIVE
from tools.generate.completeness import problems, unwritten

from .stub_trees import CONVOLUTION, ROOT, SEVERAL, WITH_SELF, WITHOUT_SELF, Tree, lint, load

PARAMETERS: dict[str, tuple[str, str, str, str]] = {
    "an input behind attributes": (
        WITHOUT_SELF,
        "grad_output out_probabilities out",
        "reduced_dims:INTS scales_h:DOUBLE keep_dim:BOOL",
        "grad_input",
    ),
    "comments": (
        "const aclTensor* gradOutput, // (either), const aclTensor* no\n bool transposed, /* transposed (see docs) */ "
        "aclTensor* gradInput",
        "grad_output",
        "transposed:BOOL",
        "grad_input",
    ),
    "a convolution's": (
        "const aclTensor* gradOutput, const aclTensor* input, const aclTensor* weight, const aclIntArray* biasSizes, "
        "bool transposed, int groups, const aclBoolArray* outputMask, int8_t cubeMathType, "
        "aclTensor* gradInput, aclTensor* gradWeight, aclTensor* gradBias",
        "grad_output input weight",
        "bias_sizes:INTS transposed:BOOL groups:INT cube_math_type:INT",
        "grad_input grad_weight grad_bias",
    ),
    "suffixes, an optional input and no mask": (
        "const aclTensor* gradOut, const aclTensor* input, const aclTensor* weightOptional, const aclScalar* slope, "
        "char* approximate, uint64_t count, const aclBoolArray* outputMask, aclTensor* gradInputOut, "
        "aclTensor* gradWeightOut",
        "grad_output input weight?",
        "slope:DOUBLE approximate:TEXT count:INT",
        "grad_input grad_weight",
    ),
    "outputs by their suffix": (
        "const aclTensor* dy, const aclTensor* x, const aclTensor* dxOut, const aclTensor* dgammaOut",
        "dy x",
        "",
        "dx dgamma",
    ),
    "an output named out": (
        "const aclTensor* yGrad, const aclTensor* x, int64_t dim, const aclTensor* out",
        "grad_output x",
        "dim:INT",
        "out",
    ),
    "an output named as a gradient": (
        "const aclTensor* gradOutput, const aclTensor* self, const aclTensor* gradInput",
        "grad_output self",
        "",
        "grad_input",
    ),
}


@pytest.mark.parametrize("case", PARAMETERS)
def test_parameters_are_inputs_attributes_and_outputs(tree: Tree, case: str) -> None:
    parameters, inputs, attributes, outputs = PARAMETERS[case]
    tree.declare("aclnnMadeUp2DLossBackward", parameters)
    done = tree.make("aclnnMadeUp2DLossBackward")
    assert done.returncode == 0, done.stderr
    name = "made_up2d_loss_backward"
    assert f"client/src/aclgrad/operators/{name}/spec.py" in done.stdout
    spec: OperatorSpec = load(name, "spec").SPEC
    assert (spec.name, spec.symbol) == (name, "aclnnMadeUp2DLossBackward")
    assert [each.name + "?" * each.is_optional for each in spec.inputs] == inputs.split()
    assert [f"{each.name}:{each.kind.name}" for each in spec.attributes] == attributes.split()
    assert [each.name for each in spec.outputs] == outputs.split()


@pytest.mark.parametrize("parameters", [WITHOUT_SELF, WITH_SELF], ids=["without_self", "with_self"])
def test_stubs_load_and_say_what_is_not_written(tree: Tree, parameters: str) -> None:
    tree.stub("aclnnMadeUpBackward", parameters)
    name = "made_up_backward"
    told = list(problems())
    assert told.pop() == f"operator {name} has no cases; add some to SAMPLES.cases in its samples.py"
    assert lint(tree) == ""
    lines = {each.partition(" is still the stub's: ")[2] for each in told}
    for text in ("the gradient", "the forward function", "PyTorch's call"):
        assert f'raise NotImplementedError("UNWRITTEN: {text}")' in lines
    assert 'summary="UNWRITTEN: what it does, in one sentence.",' in lines
    assert ('raise NotImplementedError("UNWRITTEN: grad_input")' in lines) == (parameters is WITHOUT_SELF)
    definition = load(name, "definition")
    for function in (definition.backward, definition.forward):
        arguments = dict.fromkeys(signature(function).parameters, np.zeros(1))
        with pytest.raises(NotImplementedError, match="UNWRITTEN: the "):
            function(**arguments)


@pytest.mark.parametrize(
    ("symbol", "parameters", "names"),
    [
        ("aclnnMadeUpMm", "const aclTensor* self, const aclTensor* mat2, aclTensor* out, int8_t cubeMathType", "mat2"),
        ("aclnnMadeUpSum", "const aclTensor* self, const aclIntArray* dims, bool keepDims, aclTensor* out", "dims"),
        ("aclnnMadeUpAny", "const aclTensor* biasOptional, const aclTensor* self, aclTensor* out", "bias"),
        ("aclnnMadeUpGradually", "const aclTensor* self, aclTensor* y, aclTensor* indices", "input"),
    ],
)
def test_an_operator_that_is_named_as_no_gradient_is_one_of_values(
    tree: Tree, symbol: str, parameters: str, names: str
) -> None:
    tree.stub(symbol, parameters)
    name = snake_case(symbol.removeprefix("aclnn"))
    spec: OperatorSpec = load(name, "spec").SPEC
    assert (spec.kind, spec.leading) == (OperatorKind.VALUE, "self")
    for output in spec.outputs:
        with pytest.raises(NotImplementedError, match=f"UNWRITTEN: {output.name}"):
            output.infer(Arguments({}, {}))
    definition = load(name, "definition")
    assert names in signature(definition.value).parameters
    assert not hasattr(definition, "backward")
    assert not hasattr(definition, "forward")
    told = "".join(problems())
    assert "UNWRITTEN: the value" in told
    assert "definition.py" in told
    for text in tree.files(name).values():
        assert "grad" not in text.replace("aclgrad", "").replace(name, "").replace(symbol.removeprefix("aclnn"), "")
    assert lint(tree) == ""


def test_a_value_whose_texts_are_written_is_tried(tree: Tree) -> None:
    tree.stub("aclnnMadeUpRelu", "const aclTensor* self, aclTensor* out")
    texts = {
        'raise NotImplementedError("UNWRITTEN: out")': 'return arguments.inputs["self"]',
        'raise NotImplementedError("UNWRITTEN: the value")': "return input.clip(0)",
        "UNWRITTEN: ": "",
        "cases=()": "cases=(_case('a', (1, 2, 3)),)",
    }
    for path in (tree.python / "made_up_relu").glob("*.*"):
        text = path.read_text()
        for old, new in texts.items():
            text = text.replace(old, new)
        path.write_text(text)
    assert list(problems()) == []


def test_a_stub_whose_texts_are_written_is_tried(tree: Tree) -> None:
    tree.stub("aclnnMadeUpBackward", WITH_SELF)
    for path in (tree.python / "made_up_backward").glob("*.*"):
        path.write_text(
            path.read_text().replace("UNWRITTEN: ", "").replace("cases=()", "cases=(_case('a', (1, 2, 3)),)")
        )
    (told,) = problems()
    assert told.startswith("operator made_up_backward fails when it is tried on ")
    assert told.endswith("NotImplementedError: the gradient")


def test_what_is_left_to_do_is_what_the_architecture_says(tree: Tree) -> None:
    tree.declare("aclnnMadeUpBackward", WITH_SELF)
    left = tree.make("aclnnMadeUpBackward").stdout
    section = (ROOT / "ARCHITECTURE.md").read_text().partition("## Adding an operator")[2]
    steps = re.findall(r"^\d\. ", section, re.MULTILINE)
    assert re.findall(r"^\d\. ", left, re.MULTILINE) == steps[2:]
    assert left.count("/made_up_backward/") > 2
    assert "prelu" not in left
    assert max(map(len, left.splitlines())) <= 120


def test_the_steps_of_a_row_name_the_folders_of_its_family(tree: Tree) -> None:
    tree.declare("aclnnMadeUpBackward", WITH_SELF)
    left = tree.make("aclnnMadeUpBackward", "--family", "elementwise").stdout
    assert "`client/src/aclgrad/operators/families/elementwise/`" in left
    assert "`native/host/families/elementwise/`" in left
    assert "aclgrad/bridges/rows.py" in left


def test_a_row_loads_and_says_what_is_not_written(tree: Tree) -> None:
    family = tree.python / "families/elementwise"
    given = "const aclTensor* gradOutput, const aclScalar* beta, bool isResult, const aclTensor* output, aclTensor* out"
    tree.declare("aclnnMadeUpBackward", given)
    assert tree.make("aclnnMadeUpBackward", "--family", "elementwise").returncode == 0
    tables = {each: runpy.run_path(str(family / f"{each}.py")) for each in ("spec", "definition", "samples")}
    (spec,) = (each for each in tables["spec"]["SPECS"] if each.name == "made_up_backward")
    assert [each.name for each in (*spec.inputs, *spec.outputs)] == ["grad_output", "output", "out"]
    assert [each.name for each in spec.attributes] == ["beta", "is_result"]
    backward, forward, _ = tables["definition"]["DEFINITIONS"][spec.name]
    assert [*signature(backward).parameters] == ["grad_output", "output", "beta", "is_result"]
    assert {*signature(forward).parameters} == {*signature(backward).parameters, "input"}
    assert tables["samples"]["SAMPLES"][spec.name].cases[0].attributes == {"beta": 0.5, "is_result": True}
    assert len([*unwritten(family, "elementwise")]) == 10
    assert lint(tree) == ""
    told = (
        "client/src/aclgrad/operators/families/elementwise/definition.py has a row of made_up_backward; remove it first"
    )
    assert tree.refusal("aclnnMadeUpBackward", "--family", "elementwise") == told


def test_types_of_attributes_have_their_kinds(tree: Tree) -> None:
    """A list of bools is a mask of outputs by its name alone, and a pointer may be null by its."""
    given = (
        "aclDataType dtype, const aclBoolArray* flips, const aclIntArray* sizesOptional, const aclBoolArray* mask, "
        "const aclScalar* betaOptional, char* reductionOptional, const aclBoolArray *signsOptional, double rateOptional"
    )
    tree.declare("aclnnMadeUpBackward", f"{WITH_SELF}, {given}")
    assert tree.make("aclnnMadeUpBackward").returncode == 0
    text = tree.files("made_up_backward")["spec.py"]
    kinds = re.findall(r'AttributeSpec\(\s*"(\w+)",.*?AttributeKind\.(\w+)(.*?)\)', text)
    assert kinds == [
        ("dtype", "DATA_TYPE", ""),
        ("flips", "BOOLS", ""),
        ("sizes", "INTS", ", is_optional=True"),
        ("beta", "DOUBLE", ", is_optional=True"),
        ("reduction", "TEXT", ", is_optional=True"),
        ("signs", "BOOLS", ", is_optional=True"),
        ("rate_optional", "DOUBLE", ""),
    ]
    absent = {name for name, _, optional in kinds if optional}
    definition = load("made_up_backward", "definition")
    for function in (definition.backward, definition.forward):
        parameters = signature(function).parameters
        assert {name for name, each in parameters.items() if each.default is None} == absent


def test_a_stub_has_all_outputs_as_self_or_says_that_their_type_is_not_written(tree: Tree) -> None:
    tree.stub("aclnnMadeUpBackward", WITHOUT_SELF)
    with pytest.raises(NotImplementedError, match="UNWRITTEN: grad_input"):
        load("made_up_backward", "spec").SPEC.outputs[0].infer(Arguments({}, {}))
    tree.stub("aclnnMadeUpTwiceGrad", f"{WITH_SELF}, aclTensor* gradWeight")
    outputs = load("made_up_twice_grad", "spec").SPEC.outputs
    assert [(each.name, each.of) for each in outputs] == [("out", "self"), ("grad_weight", "weight")]
    given = object()
    assert outputs[0].infer(Arguments({"self": given}, {})) is given
    definition = load("made_up_twice_grad", "definition")
    assert str(signature(definition.backward).return_annotation).count("ndarray") == 2
    assert "weight" in signature(definition.forward).parameters


def test_plan_and_kernel_compile(tree: Tree) -> None:
    """With the arguments and the entry points that the build writes from the header."""
    for header in (tree.native / "include/aclnnop").iterdir():
        header.unlink()
    tree.stub("aclnnMadeUpBackward", SEVERAL)
    tree.paste("made_up_convolution", CONVOLUTION)
    assert tree.make("aclnnMadeUpConvolutionBackward").returncode == 0
    tree.stub("aclnnMadeUpMm", "const aclTensor* biasOptional, const aclTensor* self, aclTensor* out")
    tables = tree.native / "tables"
    subprocess.run([sys.executable, str(tree.native / "operator_table.py"), str(tables)], check=True)
    flags = ("-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
    flags += ("-DVECTOR_LEVEL=VectorLevel::baseline",)
    folders = (f"-I{tables}", f"-I{tree.native / 'include'}", f"-I{NATIVE / 'host'}")
    files = [tables / "entry_points.cpp", *(tree.native / "host/operators").glob("*/*.cpp")]
    assert len(files) == 7
    done = subprocess.run([COMPILER, *flags, *folders, *map(str, files)], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_copies_are_as_stubs_of_their_own_though_one_name_contains_the_other(tree: Tree) -> None:
    both = {"made_up_backward": "aclnnMadeUpBackward", "log_made_up_backward": "aclnnLogMadeUpBackward"}
    for symbol in both.values():
        tree.stub(symbol, WITH_SELF)
    for name, like in zip(both, reversed(both), strict=True):
        expected = tree.files(name)
        for folder in (tree.python, tree.native / "host/operators"):
            shutil.rmtree(folder / name)
        assert tree.make(both[name], "--like", like).returncode == 0
        assert tree.files(name) == expected


def test_copies_keep_the_names_of_other_operators(tree: Tree) -> None:
    for symbol in ("aclnnMadeUpBackward", "aclnnMadeUpToo"):
        tree.declare(symbol, WITH_SELF)
    assert tree.make("aclnnMadeUpBackward").returncode == 0
    plan = tree.native / "host/operators/made_up_backward/plan.cpp"
    others = "// Unlike aclnnLogMadeUpBackward and aclnnMadeUpBackwardV2: log_made_up_backward, made_up_backward_v2.\n"
    plan.write_text(plan.read_text() + others)
    assert tree.make("aclnnMadeUpToo", "--like", "made_up_backward").returncode == 0
    assert tree.files("made_up_too")["plan.cpp"].endswith(others)


def test_what_has_no_stubs_is_refused(tree: Tree) -> None:
    assert tree.refusal("").startswith("no header in native/include/aclnnop declares SYMBOL=, which is empty; first")
    assert tree.refusal("aclnnMadeUp").startswith("no header in native/include/aclnnop declares aclnnMadeUp; first")
    tree.declare("aclnnMadeUp", "const aclTensor* self")
    told = "aclnn_aclnnmadeup.h: aclnnMadeUp has no output, an aclTensor* that is not const or is named ...Out"
    assert tree.refusal("aclnnMadeUp") == told
    for parameters in (
        "const aclTensor* gradSelf",
        "aclTensor* selfRef",
        "double alpha, aclTensor* out",
        "const aclTensor* selfOptional, aclTensor* out",
    ):
        tree.declare("aclnnMadeUp", parameters)
        for family in ((), ("--family", "elementwise")):
            refused = tree.refusal("aclnnMadeUp", *family)
            assert refused.startswith("aclnn_aclnnmadeup.h: aclnnMadeUp has no required input, a const aclTensor* b")
    tree.declare("aclnnMadeUp", f"const aclTensorList* alpha, {WITH_SELF}")
    for kind, needed in (
        ("aclTensorList*", "an InputSpec that is a list, as cat has"),
        ("aclRun", "a member of Attr"),
    ):
        tree.declare("aclnnMadeUp", f"const {kind} alpha, {WITH_SELF}")
        name = kind.rstrip("*")
        told = f"aclnn_aclnnmadeup.h: alpha has the type {name}, for which there are no stubs; it needs {needed}"
        assert tree.refusal("aclnnMadeUp").startswith(told)
        assert "; then add the type to KINDS in tools/generate/declarations.py" in tree.refusal("aclnnMadeUp")
    tree.declare("aclnnMadeUp", WITH_SELF)
    refused = tree.refusal("aclnnMadeUp", "--like", "nothing")
    assert refused.startswith("there is no operator nothing to copy; there are abs, adaptive")
    refused = tree.refusal("aclnnMadeUp", "--like", "silu_backward")
    assert refused == "silu_backward is a row of a family; give FAMILY in place of LIKE"
    refused = tree.refusal("aclnnMadeUp", "--family", "pad")
    assert refused.startswith(
        "there are no stubs for rows of pad, but of elementwise; add tools/generate/operator_stubs/p"
    )
    tree.declare("aclnnMadeUpLoss", f"{WITH_SELF}, aclTensor* more")
    refused = tree.refusal("aclnnMadeUpLoss", "--family", "elementwise")
    assert (
        refused
        == "aclnnMadeUpLoss has 2 inputs and 2 outputs, and an operator of elementwise 2 and 1; leave FAMILY out"
    )
    told = "aclnnMadeUp returns values, and operators of elementwise gradients; leave FAMILY out"
    assert tree.refusal("aclnnMadeUp", "--family", "elementwise") == told
    assert tree.make("aclnnMadeUp").returncode == 0
    assert tree.refusal("aclnnMadeUp") == "client/src/aclgrad/operators/made_up exists; remove it first"
