"""The files of a new operator: stubs that build, rows of a family, or copies of another operator's files."""

import re
from pathlib import Path
from string import Template

from native.operator_table import snake_case
from tools.generate.declarations import KINDS, Declaration, Parameter

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "client/src/aclgrad/operators"
NATIVE = ROOT / "native/host/operators"
STUBS = Path(__file__).parent / "operator_stubs"
DEFAULTS = {"ceil_mode": "False", "cube_math_type": "0", "groups": "1", "transposed": "False"}
"""Of the attributes that mean the same for every operator that has them."""
SAMPLE_VALUES = {"BOOL": "True", "INT": "1", "DOUBLE": "0.5", "INTS": "(1,)", "TEXT": '"none"'}
_ROW = "-- row\n"
"""What separates the functions of a stub from the row of the table that names them."""
_TABLE = re.compile(r"^[A-Z]+: Final.*[({]$", re.MULTILINE)
_LISTS = ("INTS", "BOOLS")


def stubs(declared: Declaration) -> dict[Path, str]:
    """Returns files that build; each text that only the author knows begins with UNWRITTEN."""
    fields = {
        "name": declared.name,
        "symbol": declared.symbol,
        "plain": declared.symbol.removeprefix("aclnn"),
        **python_fields(declared),
        **native_fields(declared),
    }
    files = {}
    for stub in sorted(STUBS.glob("folder/*.in")):
        folder = PYTHON if stub.stem.endswith(".py") else NATIVE
        is_other = declared.is_value and stub.stem == "definition.py"
        text = (STUBS / f"value_{stub.name}" if is_other else stub).read_text()
        files[folder / declared.name / stub.stem] = Template(text).substitute(fields)
    return files


def python_fields(declared: Declaration) -> dict[str, str]:
    inputs, attributes, outputs = declared.inputs, declared.attributes, declared.outputs
    names = [each.name for each in inputs]
    of = {each.name: None if declared.is_value else declared.differentiated(each) for each in outputs}
    of_unknown = "" if declared.is_value else ', of="UNWRITTEN: the tensor that it is the gradient of"'
    parameters = parameters_in_python(declared)
    unknown = [each for each in of.values() if each and each not in (*names, "self", "input")]
    further = [f"{each}: Array | None = None" for each in unknown]
    infer, rules = "", []
    for output, source in of.items():
        known = source in names
        body = f'return arguments.inputs["{source}"]' if known else f'raise NotImplementedError("UNWRITTEN: {output}")'
        infer += f"def _{output}(arguments: Arguments) -> TensorType:\n    {body}\n\n\n"
        rule = (
            f"The gradient of `{source}`, with its shape and dtype." if known else "UNWRITTEN: what it is, its shape."
        )
        asked = f', of="{source}"' if source else of_unknown
        rules.append(f'        OutputSpec("{output}", "{rule}", _{output}{asked}),\n')
    required = [each.name for each in inputs if not each.is_optional]
    classes = ["Arguments", *(["AttributeKind", "AttributeSpec"] if attributes else []), "InputSpec"]
    classes += [*(["OperatorKind"] if declared.is_value else []), "OperatorSpec", "OutputSpec", "Tolerance", "same_on"]
    return {
        "inputs": "".join(
            f'        InputSpec("{each.name}", "UNWRITTEN: what it is, and its shape.", _DTYPES, _RANKS'
            f"{', is_optional=True' if each.is_optional else ''}),\n"
            for each in inputs
        ),
        "attributes": "".join(f"        {attribute_row(each)},\n" for each in attributes),
        "classes": ", ".join(classes),
        "computed": "the result" if declared.is_value else "the gradient",
        # An input that may be absent cannot lead.
        "options": ("    kind=OperatorKind.VALUE,\n" if declared.is_value else "")
        + (f'    leading="{required[0]}",\n' if inputs[0].is_optional else ""),
        "same": ", ".join(f'"{each}"' for each in required),
        "outputs": "".join(rules),
        "infer": infer,
        "sequence": "from collections.abc import Sequence\n\n" if "Sequence" in str(parameters) else "",
        "backward": ", ".join(parameters),
        "forward": ", ".join(dict.fromkeys(["input: Array", *parameters, *further])),
        "returns": "Array" if len(outputs) == 1 else f"tuple[{', '.join(['Array'] * len(outputs))}]",
        "shapes": ", ".join(f"{each}=shape" for each in required),
    }


def parameters_in_python(declared: Declaration) -> list[str]:
    """Returns the parameters of a definition; Python wants those that may be absent last."""
    kinds = {each.python_name: "Array" for each in declared.inputs}
    kinds |= {each.name: KINDS[each.type][1] for each in declared.attributes}
    absent = [each.python_name for each in declared.inputs if each.is_optional]
    absent += [each.name for each in declared.attributes if each.is_optional]
    defaults = {name: f"{kinds[name]} = {value}" for name, value in DEFAULTS.items() if name in kinds}
    defaults |= {name: f"{kinds[name]} | None = None" for name in absent}
    given = [f"{name}: {kind}" for name, kind in kinds.items() if name not in defaults]
    return given + [f"{name}: {kind}" for name, kind in defaults.items()]


def attribute_row(parameter: Parameter) -> str:
    kind, _ = KINDS[parameter.type]
    optional = ", is_optional=True" if parameter.is_optional else ""
    default = f", default={DEFAULTS[parameter.name]}" if parameter.name in DEFAULTS else ""
    # CANN takes null for some lists whose names do not say so.
    asked = ". Absent (is_optional=True)?" if kind in _LISTS and not optional else "."
    return (
        f'AttributeSpec("{parameter.name}", "UNWRITTEN: what it does{asked}", AttributeKind.{kind}{optional}{default})'
    )


def native_fields(declared: Declaration) -> dict[str, str]:
    """Returns what stands in the plan; its variables are named as the fields of the operator's arguments."""
    given = [each for each in declared.inputs if not each.is_optional]
    arrays = [each for each in declared.attributes if each.type == "aclIntArray" and not each.is_optional]
    read = [("Argument", each) for each in (*given, *declared.outputs)] + [
        ("IntArrayArgument", each) for each in arrays
    ]
    inputs, outputs = ([snake_case(each.abi_name) for each in tensors] for tensors in (given, declared.outputs))
    return {
        "arguments": "\n".join(
            f'  const {kind} {variable}{{"{each.abi_name}", given.{variable}}};'
            for kind, each in read
            for variable in [snake_case(each.abi_name)]
        ),
        "first": inputs[0],
        "out": outputs[0],
        "operands": "".join(
            f"  plan.Add{kind}({each}.tensor);\n"
            for kind, names in (("Input", inputs), ("Output", outputs))
            for each in names
        ),
        "tensors": ", ".join([*inputs, *outputs]),
        "counts": ", ".join(f"ElementCount({each}.tensor.view_dims)" for each in outputs),
    }


def rows(declared: Declaration, family: str) -> dict[Path, str]:
    """Returns the modules of a family with a row more, which is not written yet."""
    known = sorted(each.name for each in STUBS.iterdir() if each.is_dir() and each.name != "folder")
    if family not in known:
        remedy = f"add tools/generate/operator_stubs/{family}, or leave FAMILY out"
        raise SystemExit(f"there are no stubs for rows of {family}, but of {', '.join(known)}; {remedy}")
    if (len(declared.inputs), len(declared.outputs)) != (2, 1):
        has = f"{len(declared.inputs)} inputs and {len(declared.outputs)} outputs"
        raise SystemExit(f"{declared.symbol} has {has}, and an operator of {family} 2 and 1; leave FAMILY out")
    if declared.is_value:
        raise SystemExit(f"{declared.symbol} returns values, and operators of {family} gradients; leave FAMILY out")
    fields = row_fields(declared)
    files = {}
    for stub in sorted((STUBS / family).glob("*.in")):
        module = PYTHON / "families" / family / stub.stem
        functions, _, row = Template(stub.read_text()).substitute(fields).rpartition(_ROW)
        # The table is the last statement of its module.
        text = module.read_text()
        table = [each.start() for each in _TABLE.finditer(text)][-1]
        *lines, end = text[table:].splitlines(keepends=True)
        files[module] = "".join([text[:table], functions, *lines, row, end])
    return files


def row_fields(declared: Declaration) -> dict[str, str]:
    saved, output = declared.inputs[1], declared.outputs[0]
    options = [f'saved="{saved.name}"'] if saved.name != "self" else []
    given = ", ".join(f'"{each.name}": {SAMPLE_VALUES[KINDS[each.type][0]]}' for each in declared.attributes)
    attributes = "".join(f"            {attribute_row(each)},\n" for each in declared.attributes)
    parameters = parameters_in_python(declared)
    # A gradient of which only the function's result is given needs the function's input for differences.
    forward = [*parameters, *(["input: Array"] if saved.name != "self" else [])]
    return {
        "name": declared.name,
        "function": re.sub(r"_(backward|grad)(?=_|$)", "", declared.name) + "_forward",
        "backward": ", ".join(parameters),
        "forward": ", ".join(forward),
        "saved": saved.python_name,
        "options": "".join(
            f"        {each},\n"
            for each in [*options, *([f'output="{output.name}"'] if output.name != "grad_input" else [])]
        ),
        "attributes": f"        attributes=(\n{attributes}        ),\n" if attributes else "",
        "sampled": ", ".join(
            [f'"{declared.name}"', *options, *([f'attributes={{"UNWRITTEN": {{{given}}}}}'] if given else [])]
        ),
    }


def copies(declared: Declaration, like: str, symbols: dict[str, str]) -> dict[Path, str]:
    """Returns the files of another operator, with its names replaced in one pass: one name may contain the other."""
    if like in symbols and not (PYTHON / like).is_dir():
        raise SystemExit(f"{like} is a row of a family; give FAMILY in place of LIKE")
    if like not in symbols:
        raise SystemExit(f"there is no operator {like} to copy; there are {', '.join(sorted(symbols))}")
    plain, copied = (each.removeprefix("aclnn") for each in (declared.symbol, symbols[like]))
    renamed = {symbols[like]: declared.symbol, copied: plain, like: declared.name}
    names = re.compile(rf"(?:\b|(?<=\bPlan))({'|'.join(renamed)})(?=\b|(?:Arguments|Sizes)\b)")

    def copy(path: Path) -> str:
        return names.sub(lambda found: renamed[found[0]], path.read_text())

    folders = ((folder / like, folder / declared.name) for folder in (PYTHON, NATIVE))
    return {new / path.name: copy(path) for old, new in folders for path in sorted(old.glob("*.*"))}
