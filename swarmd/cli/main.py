"""`swarmd`: the entry point, its errors and exit codes."""

import os
import sys
import traceback

import click

from swarmd import __version__
from swarmd.cli.bootstrap import bootstrap
from swarmd.cli.contribute import contribute
from swarmd.cli.doctor import doctor
from swarmd.cli.experiment import experiment
from swarmd.cli.look import healthcheck, show_id, status, stop
from swarmd.cli.maintain import config, export
from swarmd.cli.manifest import manifest
from swarmd.cli.peers import peers
from swarmd.cli.run import start
from swarmd.cli.unforeseen import keep_traceback
from swarmd.errors import SwarmdError, cause
from swarmd.printable import readable

EPILOG = """\b
Examples:
  swarmd start --model tiny                    try it on any laptop, offline
  swarmd start --model Qwen2.5-0.5B --bootstrap /ip4/203.0.113.7/tcp/4810/p2p/12D3KooW...
  swarmd status                                what the node does and how well
"""


@click.group(
    epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, prog_name="swarmd")
def swarmd() -> None:
    """Post-train your own language model by reinforcement learning, together with a swarm of peers.

    A node generates answers, shares them as signed text, learns from its own and from those of others. Nobody coordinates.
    """


for command in (
    start,
    status,
    peers,
    bootstrap,
    show_id,
    stop,
    healthcheck,
    doctor,
    export,
    config,
    manifest,
    experiment,
    contribute,
):
    swarmd.add_command(command)


def main() -> None:
    """Run a command; expected failures print three lines and exit with their code, others leave a traceback in a file."""
    try:
        swarmd.main(standalone_mode=False)
    except SwarmdError as error:
        _fail(error)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        _interrupted()
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), 1
        )  # the reader of our output went away; the flush at exit must not fail
    # The outermost edge: whatever happens, the operator gets a readable end. Nurseries put even an interrupt into a group.
    except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001
        expected = cause(error)
        if isinstance(expected, SwarmdError):
            _fail(expected)
        if isinstance(expected, KeyboardInterrupt):
            _interrupted()
        path = keep_traceback(traceback.format_exc())
        click.echo(
            readable(f"swarmd: unexpected {type(error).__name__}: {error}\n  please report it with {path}"),
            err=True,
        )
        sys.exit(1)


def _fail(error: SwarmdError) -> None:
    click.echo(
        f"swarmd: {readable(str(error))}\n  (exit {error.exit_code}, docs/reference/exit-codes.md)", err=True
    )
    sys.exit(error.exit_code)


def _interrupted() -> None:
    click.echo("stopped at once; a start resumes from the last checkpoint", err=True)
    sys.exit(130)


if __name__ == "__main__":
    main()
