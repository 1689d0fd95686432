"""Arguments of ``sim.collective``: those of ``sim.allreduce``, and which collective over whom."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from hdl.accelerator.layouts import LENGTH_BITS
from hdl.config import (
    KNOWN_FORMATS,
    KNOWN_OPERATIONS,
    OPERATIONS_OF,
    ConfigError,
    SwitchConfig,
    unknown_name,
)
from sim.engines.base import EngineError
from sim.golden.collectives import COLLECTIVES
from sim.plan import ALL_REDUCE, Plan
from sim.quantized import QUANTIZED

from .arguments import (
    CODES,
    DEFAULT_CONFIG,
    EXIT_STATUS,
    Options,
    add_configuration_arguments,
    add_engine_arguments,
    add_run_arguments,
    choose_engine,
    configuration,
    finish,
    run_options,
    whole,
)
from .errors import UsageError
from .parser import Parser

__all__ = ["parse"]

#: Whose rank ``--root`` is, by collective, and the option that says so of others.
ROOTS = {"reduce": "destinations", "broadcast": "sources"}
#: Collectives that quantized operands have.
QUANTIZED_COLLECTIVES = ("all-reduce", "reduce", "barrier")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m sim.collective",
        description="Run one collective, or several in a row, in a simulated switch with emulated "
        "ranks, and compare every byte of every rank's memory with the golden model. What each "
        "reads and writes is in docs/collectives.md. A preset gets what it lacks for that, unless "
        "--set names the field.",
        epilog=EXIT_STATUS,
        codes=CODES,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--collective",
        metavar="|".join(COLLECTIVES),
        default="all-reduce",
        help="what to run (default: all-reduce). A barrier has no operand",
    )
    add(
        "--operation",
        metavar="|".join(KNOWN_OPERATIONS),
        help="what becomes of the operands (default: sum). fp16 and bf16 have all, int32 all but "
        "average, inq8 sum; broadcast and all-gather copy bits",
    )
    add("--sources", metavar="R0,R1,...", help="ranks that are read, ascending (default: all)")
    add("--destinations", metavar="R0,R1,...", help="ranks that are written (default: all)")
    add(
        "--root",
        metavar="R",
        help="the rank that a reduce writes, or that a broadcast reads (default: 0)",
    )
    add(
        "--chunk",
        metavar="BYTES",
        help="bytes of each rank's chunk in all-gather and reduce-scatter, whole flits; the last "
        "rank has what is left (default: an even share, rounded up to flits)",
    )
    add_configuration_arguments(parser, DEFAULT_CONFIG)
    add_run_arguments(parser, KNOWN_FORMATS)
    add_engine_arguments(parser)
    return parser


def _operation(given: argparse.Namespace) -> str:
    """The operation, which the collective and the format have."""
    kind, dtype, operation = given.collective, given.dtype, given.operation
    if operation is None:
        return ALL_REDUCE.operation
    if operation not in KNOWN_OPERATIONS:
        raise UsageError(unknown_name("operation", operation, KNOWN_OPERATIONS))
    if Plan(kind).copies or kind == "barrier":
        raise UsageError(f"operation: must not be given for {kind}, which adds nothing")
    if operation not in OPERATIONS_OF.get(dtype, KNOWN_OPERATIONS):
        names = ", ".join(OPERATIONS_OF[dtype])
        raise UsageError(f"operation: must be one of {names} for {dtype}, not {operation!r}")
    return operation


def _check_kind(given: argparse.Namespace):
    kind = given.collective
    if kind not in COLLECTIVES:
        raise UsageError(unknown_name("collective", kind, COLLECTIVES))
    if given.dtype == QUANTIZED and kind not in QUANTIZED_COLLECTIVES:
        names = ", ".join(QUANTIZED_COLLECTIVES)
        raise UsageError(f"collective: must be one of {names} for {QUANTIZED}, not {kind!r}")
    if given.root is not None and kind not in ROOTS:
        raise UsageError(f"root: must come with {' or '.join(ROOTS)}, not with {kind}")
    if kind in ROOTS and getattr(given, ROOTS[kind]) is not None:
        raise UsageError(f"{ROOTS[kind]}: must be said by --root for {kind}")
    if given.chunk is not None and not Plan(kind).cuts:
        raise UsageError(f"chunk: must come with all-gather or reduce-scatter, not with {kind}")
    if kind == "barrier" and given.bytes not in (None, "0"):
        raise UsageError(f"bytes: must be 0 for barrier, not {given.bytes!r}")


def _ranks(name: str, text: str | None, ranks: int) -> tuple[int, ...] | None:
    """Ranks out of a list; None for all of them."""
    if text is None:
        return None
    found = tuple(whole(name, part, 0, ranks - 1) for part in text.split(","))
    if list(found) != sorted(set(found)):
        raise UsageError(f"{name}: must be ascending ranks, each once, not {text!r}")
    return None if len(found) == ranks else found


def _plan(given: argparse.Namespace, config: SwitchConfig) -> Plan:
    """The plan, once the number of ranks is known."""
    members = {
        name: _ranks(name, getattr(given, name), config.ranks)
        for name in ("sources", "destinations")
    }
    if given.collective in ROOTS:
        root = whole("root", "0" if given.root is None else given.root, 0, config.ranks - 1)
        members[ROOTS[given.collective]] = (root,)
    chunk = None
    if given.chunk is not None:
        most = (1 << LENGTH_BITS) - config.flit_bytes
        chunk = whole("chunk", given.chunk, config.flit_bytes, most)
        if chunk % config.flit_bytes:
            flit = config.flit_bytes
            raise UsageError(f"chunk: must be a multiple of flit_bytes ({flit}), not {chunk}")
    return Plan(given.collective, _operation(given), **members, chunk=chunk)


def _extension(given: argparse.Namespace):
    """What a preset gets that lacks something: at once all, so that one build serves many runs."""
    everyone = given.sources is None and given.destinations is None
    sums = given.operation in (None, "sum")

    def extend(preset: SwitchConfig, fields: dict) -> list[str]:
        if everyone and sums and given.collective in ("all-reduce", "barrier"):
            return []
        clauses = []
        if "operations" not in fields and preset.operations != KNOWN_OPERATIONS:
            fields["operations"] = KNOWN_OPERATIONS
            clauses.append(f"operations: {', '.join(KNOWN_OPERATIONS)}")
        if "collectives" not in fields and preset.collectives != "all":
            fields["collectives"] = "all"
            clauses.append("collectives: all")
        return clauses

    return extend


def _check_built(config: SwitchConfig, plan: Plan, dtype: str):
    """The configuration has what the plan needs."""
    if plan.operation not in config.operations_of(dtype):
        names = ", ".join(config.operations_of(dtype))
        raise UsageError(
            f"operation: must be one of those that the configuration has for {dtype} ({names}), "
            f"not {plan.operation!r}"
        )
    if config.subsets and (config.chunks or not (plan.cuts or plan.copies)):
        return
    everyone = plan.sources is None and plan.destinations is None
    if not everyone or plan.kind not in ("all-reduce", "barrier"):
        raise UsageError(
            f"collectives: must be all for {plan.kind} over these ranks, not {config.collectives!r}"
        )


def _options(given: argparse.Namespace, arguments: Sequence[str]) -> Options:
    _check_kind(given)
    _operation(given)
    config, preset, added = configuration(
        DEFAULT_CONFIG if given.config is None else given.config,
        given.settings or (),
        given.dtype,
        dtypes=KNOWN_FORMATS,
        extend=_extension(given),
    )
    plan = _plan(given, config)
    _check_built(config, plan, given.dtype)
    engine, fallback = choose_engine(given.engine)
    if given.collective == "barrier":
        given.bytes = "0"
    options = run_options(
        given, arguments, config, preset=preset, engine=engine, fallback=fallback, added=added
    )
    return finish(given, replace(options, plan=plan, collective=True))


def parse(arguments: list[str]) -> Options:
    """The options that `arguments` ask for.

    Raises
    ------
    UsageError
        One of them breaks a rule; the message is one line that names it, the rule and the value.
    SystemExit
        ``--help`` was asked for.
    """
    try:
        return _options(_parser().parse_args(arguments), arguments)
    except (ConfigError, EngineError) as error:
        raise UsageError(str(error)) from None
