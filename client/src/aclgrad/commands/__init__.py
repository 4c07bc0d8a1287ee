"""The commands of the program `aclgrad`."""

import click

import aclgrad as package
from aclgrad.check.command import check
from aclgrad.commands.bench.command import bench
from aclgrad.commands.call import call
from aclgrad.commands.describe import operators
from aclgrad.commands.status import status


@click.group()
@click.version_option(package.__version__)
def program() -> None:
    """Gradients from an Ascend card that is not in this machine."""


for command in (call, operators, status, check, bench):
    program.add_command(command)
