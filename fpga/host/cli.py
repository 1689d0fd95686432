"""The command line of the host tool: options of every command, which command, what went wrong."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence

from hdl.config import ConfigError, unknown_name
from sim.cli.arguments import add_configuration_arguments
from sim.cli.errors import UsageError
from sim.cli.output import EXIT_DIFFERENT, EXIT_INTERRUPTED, EXIT_USAGE
from sim.cli.parser import Parser
from sim.engines.base import EngineError
from sim.register_host import HostError
from sim.waves.events import EventsError

from .commands import COMMANDS, Command
from .errors import BoardError
from .frames import BAUD
from .link import DEFAULT_CONFIG, SIMULATED, Link

__all__ = ["EXIT_BOARD", "main"]

PROGRAM = "python -m fpga.host"
#: Exit status where the board does not answer, or not as it must.
EXIT_BOARD = 4
DEFAULT_TIMEOUT, DEFAULT_RETRIES = 0.25, 8
#: However busy the machine is that simulates.
SIMULATED_TIMEOUT = 30.0
#: The longest that makes sense; the operating system refuses some beyond.
MOST_SECONDS = 3600.0
#: As a shell has it of a program whose reader has gone.
EXIT_PIPE = 141


def _common() -> Parser:
    """Options of every command; they may stand before its name or behind it."""
    parser = Parser(add_help=False, allow_abbrev=False)
    add = parser.add_argument
    add(
        "--port",
        metavar=f"DEVICE|{SIMULATED}",
        help="the board's serial port, as /dev/ttyUSB1 or COM4; "
        f"{SIMULATED}: the same design in simulation, behind a pseudo-terminal",
    )
    add_configuration_arguments(
        parser, f"the preset that the board was built of; with --port {SIMULATED} {DEFAULT_CONFIG}"
    )
    add(
        "--any-digest",
        action="store_true",
        help="go on with a board whose configuration digest or version is not this checkout's",
    )
    add("--baud", type=int, default=BAUD, metavar="N", help=f"bits a second (default: {BAUD})")
    add(
        "--timeout",
        type=float,
        metavar="S",
        help="seconds after which a request without an answer is sent again "
        f"(default: {DEFAULT_TIMEOUT}; with --port {SIMULATED}, which loses nothing, "
        f"{SIMULATED_TIMEOUT:g})",
    )
    add(
        "--retries",
        type=int,
        default=DEFAULT_RETRIES,
        metavar="N",
        help=f"how often it is sent again (default: {DEFAULT_RETRIES})",
    )
    return parser


def _overview() -> Parser:
    """Only for its help."""
    width = max(map(len, COMMANDS))
    commands = "\n".join(
        f"  {name:{width}}  {command.summary}" for name, command in COMMANDS.items()
    )
    parser = Parser(
        prog=PROGRAM,
        usage=f"{PROGRAM} --port DEVICE|{SIMULATED} COMMAND [options]",
        description="Drives a Tidegate board over its serial port.",
        epilog=f"commands (COMMAND --help has their options):\n{commands}\n\n"
        "exit status: 0 all well; 1 a difference, or the hardware ended with a code; 2 a bad\n"
        "argument, or another board than told; 3 a run did not end within its cycles; 4 the board "
        "does\nnot answer, or not as it must",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[_common()],
        allow_abbrev=False,
    )
    return parser


def _command(words: Sequence[str]) -> tuple[Command, list[str]]:
    """The command that `words` name, and the rest of them."""
    if not words or words[0].startswith("-"):
        _overview().parse_args(words)  # tells of an option that there is not, or helps
        raise UsageError(f"command: must be one of {', '.join(COMMANDS)}")
    if words[0] not in COMMANDS:
        raise UsageError(unknown_name("command", words[0], COMMANDS))
    return COMMANDS[words[0]], list(words[1:])


def _run(arguments: Sequence[str]) -> int:
    common, words = _common().parse_known_args(arguments)
    command, rest = _command(words)
    parser = Parser(
        prog=f"{PROGRAM} --port DEVICE|{SIMULATED} {words[0]}",
        description=command.description,
        epilog=f"Options of every command: {PROGRAM} --help",
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    given = parser.parse_args(rest)
    if common.port is None:
        raise UsageError(f"port: must be given, a serial port or {SIMULATED}")
    if common.timeout is None:
        common.timeout = SIMULATED_TIMEOUT if common.port == SIMULATED else DEFAULT_TIMEOUT
    for name, most in (("baud", math.inf), ("timeout", MOST_SECONDS)):
        if not 0 < getattr(common, name) <= most:
            rule = "a number above 0" + ("" if most == math.inf else f" and at most {most:g}")
            raise UsageError(f"{name}: must be {rule}, not {getattr(common, name)}")
    if common.retries < 0:
        raise UsageError(f"retries: must be 0 or more, not {common.retries}")
    common.settings = common.settings or []
    given.arguments = tuple(arguments)
    with Link(common) as link:
        return command.run(link, given)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status."""
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except (UsageError, ConfigError, EngineError) as error:
        return _fail(error, EXIT_USAGE)
    except EventsError as error:
        return _fail(error, EXIT_DIFFERENT)
    except (BoardError, HostError) as error:
        return _fail(error, EXIT_BOARD)
    except BrokenPipeError:
        # What is still to be written has nobody to read it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE
    except OSError as error:  # of a file that was tried out before: a full disk, say
        where = error.filename or "output"
        return _fail(f"{where}: cannot be written: {error.strerror or error}", EXIT_USAGE)
    except KeyboardInterrupt:
        print("interrupted; the next command finds the board as ever", file=sys.stderr)
        return EXIT_INTERRUPTED


def _fail(error: object, status: int) -> int:
    print(f"error: {error}", file=sys.stderr)
    return status
