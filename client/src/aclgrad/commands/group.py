"""The group of the commands: what it says of itself, `help`, and errors of usage as JSON."""

from typing import Any, Final

import click

from aclgrad.exit_codes import MEANINGS

OVERVIEW: Final = """\
Gradients from an Ascend card that is not in this machine.

Find the first wrong gradient of a training in its msprobe dump, without a card:
  aclgrad judge dump
Compute a gradient on a server:
  aclgrad call adaptive_avg_pool2d_backward grad_output=g.npy input=3,8,8
Compute a training step on a server, in Python:
  import aclgrad.torch
  step = aclgrad.torch.remote_step(model, loss_function, aclgrad.Client())
Ask whether a server is well, and its gradients right:
  aclgrad check --quick
Measure a server:
  aclgrad bench --seconds 5

All commands: aclgrad --help. Run a server: aclgrad serve. The tab key completes
words after: eval "$(aclgrad completion)"
"""
_TLS: Final = """\
ACLGRAD_CA=ca.crt, or ACLGRAD_TLS=true for public authorities; a client certificate: ACLGRAD_CERTIFICATE and
ACLGRAD_KEY; a token: ACLGRAD_TOKEN; a server certificate for another name: ACLGRAD_SERVER_NAME"""
_LONGEST_SENTENCE: Final = 1000  # in characters
_OVERVIEW: Final = "aclgrad.overview"
_WORDS: Final = "aclgrad.words"


class Command(click.Command):
    """A command whose whole first sentence is in the list of commands."""

    def get_short_help_str(self, limit: int = 0) -> str:
        return super().get_short_help_str(_LONGEST_SENTENCE)


class Group(click.Group):
    """A group that shows the overview without arguments, and has exit codes and the variables of TLS below its help."""

    command_class = Command

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        context.meta[_OVERVIEW] = not args
        context.meta[_WORDS] = tuple(args)
        return super().parse_args(context, args)

    def get_help(self, context: click.Context) -> str:
        return OVERVIEW.rstrip() if context.meta.get(_OVERVIEW) else super().get_help(context)

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(int(code)), meaning) for code, meaning in MEANINGS.items()])
        with formatter.section("Servers with TLS"):
            formatter.write_text(_TLS)

    def invoke(self, context: click.Context) -> Any:
        """Prints errors of usage as JSON too, if that is asked for; click prints its lines and exits."""
        try:
            return super().invoke(context)
        except click.ClickException as error:
            if "--json" in context.meta[_WORDS]:
                # With click alone, a word that completes or is wrong would wait for gRPC.
                from aclgrad.exits import print_error

                print_error(error, error.exit_code)
            raise
