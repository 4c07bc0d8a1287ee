"""`aclgrad --help`: whole sentences at any width, and how a shell completes words."""

import re

import pytest
from click.testing import CliRunner

from aclgrad.commands import program


@pytest.mark.parametrize("width", [40, 80, 120])
def test_sentences_are_whole(width: int) -> None:
    text = CliRunner().invoke(program, ["--help"], terminal_width=width).output
    assert max(map(len, text.splitlines())) <= max(width, 80)
    words = " ".join(text.split())
    for name, command in program.commands.items():
        sentence = re.split(r"\.\s", command.callback.__doc__ or "")[0].rstrip(".")
        assert f"{name} {' '.join(sentence.split())}." in words
    assert 'eval "$(_ACLGRAD_COMPLETE=bash_source aclgrad)"' in words
