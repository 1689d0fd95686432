"""Arguments of the command, checked before anything is built."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hdl.accelerator.layouts import STATUS_MEANINGS, Status
from hdl.config import PRESETS, ConfigError, SwitchConfig, unknown_name
from sim.engines import ENGINES, default_engine
from sim.engines.base import EngineError
from sim.engines.build import require_compiler
from sim.plan import ALL_REDUCE, Plan
from sim.quantized import QUANTIZED, element_bytes
from sim.testbed import place
from sim.waves.groups import VIEW_SUFFIX

from .errors import UsageError
from .operands import Activations, Input, RandomInput, load_npz
from .parser import Parser, all_writable, writable
from .quantized_file import load_codes
from .stalls import parse_stalls, patterns_help

__all__ = [
    "DEFAULT_BYTES",
    "DEFAULT_CONFIG",
    "DTYPES",
    "CODES",
    "EXIT_STATUS",
    "Options",
    "add_configuration_arguments",
    "add_engine_arguments",
    "add_run_arguments",
    "check_json",
    "choose_engine",
    "configuration",
    "finish",
    "output_files",
    "parse",
    "run_options",
    "vcd_window",
    "whole",
]

DEFAULT_CONFIG = "demo"
#: Bytes a rank (of inq8: codes), where they fit.
DEFAULT_BYTES = 16 << 10
#: Repetitions of one command.
MOST_RUNS = 1_000_000
#: Formats and engines of the command line; an engine that is not built gives an error that says so.
DTYPES = ("fp16", "bf16", QUANTIZED)
ENGINE_NAMES = (*ENGINES, "model")
#: Registers that options go to: bits of `delay`, of `jitter` and of `seed`.
DELAY_BITS, JITTER_BITS, SEED_BITS = 31, 10, 32


@dataclass(frozen=True)
class Options:
    """What to run, complete and checked.

    `sizes` has the bytes of each rank's operand for each repetition; `stalls` the thresholds by
    AXI4 channel, of 256; `fallback` says why the default engine is not the fast one, and `added`
    that the preset does not have what is asked for. `collective` says that the report names the
    `plan`.
    """

    config: SwitchConfig
    preset: str | None
    dtype: str
    sizes: tuple[int, ...]
    input: Input
    seed: int
    engine: str
    out_of_place: bool = False
    skew: tuple[int, ...] | None = None
    jitter: int = 0
    stalls: dict[str, int] = field(default_factory=dict)
    stalls_text: str = "none"
    vcd: Path | None = None
    vcd_window: tuple[int, int] | None = None
    max_cycles: int | None = None
    json: str | None = None
    fallback: str | None = None
    added: str | None = None
    arguments: tuple[str, ...] = ()
    plan: Plan = ALL_REDUCE
    collective: bool = False


def add_configuration_arguments(parser: argparse.ArgumentParser, default: str, **options):
    """``--config`` and ``--set``; `options` are argparse's, for both."""
    parser.add_argument(
        "--config",
        metavar="PRESET|FILE.json",
        help=f"one of {', '.join(PRESETS)}, or a file of fields (default: {default})",
        **options,
    )
    parser.add_argument(
        "--set",
        metavar="FIELD=VALUE",
        action="append",
        dest="settings",
        help="replace a field of the configuration; may be repeated",
        **options,
    )


def add_run_arguments(parser: argparse.ArgumentParser, dtypes: Sequence[str] = DTYPES):
    """What to run, wherever it runs; `run_options` takes what comes out."""
    add = parser.add_argument
    add(
        "--bytes",
        metavar="N[,N...]",
        help="bytes of each rank's operand, whole elements; for inq8 the number of codes, whose "
        "scales come on top. A list gives a size a repetition (default: all of --input, else "
        "16384, or as many whole waves as fit the memory)",
    )
    add(
        "--dtype",
        metavar="|".join(dtypes),
        default="fp16",
        help="number format (default: fp16). inq8 is block-quantized: int8 codes, and a scale a "
        "block. A preset gets the format added if it lacks it and --set names no formats",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--input",
        metavar="FILE.npz",
        help="operands: data (ranks, elements) of float16, of float32 (rounded once), or of uint16 "
        "with format = 'bf16'; for inq8 codes (ranks, n) of int8 and scales (ranks, ceil(n / "
        "block)) of float16, or their bits as uint16 (bf16) or uint8 (E8M0) (default: the "
        "committed activations of a language model, for inq8 quantized once)",
    )
    source.add_argument(
        "--seed",
        metavar="S",
        help="operands: standard normal numbers of this seed. It also seeds jitter and stalls, "
        "which otherwise have seed 0",
    )
    add("--out-of-place", action="store_true", help="write results behind the operands")
    add(
        "--repeat",
        metavar="R",
        help="run so many All-Reduces one after another without a reset, each on other data "
        "(default: the number of sizes in --bytes)",
    )
    add(
        "--skew",
        metavar="C0,C1,...",
        help="cycles that each rank waits before it arrives (default: none)",
    )
    add(
        "--latency-jitter",
        metavar="J",
        default="0",
        help="memories answer each burst up to so many cycles later, at random (0..1023)",
    )
    add(
        "--stalls",
        metavar="PATTERN",
        default="none",
        help=f"beats that memories refuse or hold back, at random. {patterns_help()}. Or fractions "
        "of cycles by AXI4 channel, as in ar=0.25,r=0.5,aw=0,w=0.1,b=0.9",
    )
    add(
        "--max-cycles",
        metavar="C",
        help="end a run that takes more cycles (default: more than any healthy run takes)",
    )
    add(
        "--json",
        metavar="FILE|-",
        help="write the report as JSON to FILE; - is standard output, and all else then goes to "
        "standard error",
    )


def add_engine_arguments(parser: argparse.ArgumentParser):
    """The simulator, and waveforms; `finish` takes what comes out."""
    add = parser.add_argument
    add(
        "--engine",
        metavar="pysim|cxxrtl|model",
        help="simulator (default: cxxrtl where a C++ compiler is found, else pysim; model is not "
        "built yet)",
    )
    add(
        "--vcd",
        metavar="FILE",
        help="write waveforms to FILE, and a GTKWave save file of the same name ending in .gtkw",
    )
    add(
        "--vcd-window",
        metavar="FROM:TO",
        help="only these cycles, both included, counted from the start of the simulation",
    )


#: What a run may end with, from the hardware's own table.
CODES = {code.name: STATUS_MEANINGS[code][0].replace("`", "") for code in Status}
#: What every command that runs a simulated switch ends with.
EXIT_STATUS = (
    "Exit status: 0 all equal; 1 a difference, or the hardware ended with a code; 2 a "
    "bad argument; 3 a run did not end within its cycles. A run that fails leaves its seed, "
    "configuration and the waveform of its last 2,000 cycles in a folder under "
    "build/failures."
)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m sim.allreduce",
        description="Run one All-Reduce, or several in a row, in a simulated switch with emulated "
        "ranks, and compare every byte of every rank's memory with the golden model.",
        epilog=EXIT_STATUS,
        codes=CODES,
        allow_abbrev=False,
    )
    add_configuration_arguments(parser, DEFAULT_CONFIG)
    add_run_arguments(parser)
    add_engine_arguments(parser)
    return parser


def whole(name: str, text: str, low: int, high: int | None = None) -> int:
    """A whole number from `low` to `high`; decimal, or hexadecimal as in 0x10."""
    try:
        value = int(text, 0)
    except ValueError:
        value = None
    if value is None or value < low or (high is not None and value > high):
        limits = f"of {low} or more" if high is None else f"of {low}..{high}"
        raise UsageError(f"{name}: must be a whole number {limits}, not {text!r}")
    return value


def choose_engine(name: str | None) -> tuple[str, str | None]:
    """The engine, and why it is not the fast one."""
    if name is None:
        engine = default_engine()
        return engine, None if engine == ENGINES[0] else "no C++ compiler was found"
    if name not in ENGINE_NAMES:
        raise UsageError(unknown_name("engine", name, ENGINES))
    if name not in ENGINES:
        built = ", ".join(ENGINES)
        raise UsageError(f"engine: must be one of {built}, not {name!r}, which is not built yet")
    if name == "cxxrtl":
        require_compiler()
    return name, None


def configuration(
    source: str,
    settings: Sequence[str],
    dtype: str,
    *,
    dtypes: Sequence[str] = DTYPES,
    extend: Callable[[SwitchConfig, dict], list[str]] = lambda preset, fields: [],
) -> tuple[SwitchConfig, str | None, str | None]:
    """The configuration, its preset's name, and a line where a preset got what it lacks.

    Parameters
    ----------
    dtypes
        Formats to choose from; the one that is asked for is added to a preset's.
    extend
        Called with the preset and the fields that are set: adds others, and gives a clause for
        each.
    """
    if dtype not in dtypes:
        raise UsageError(unknown_name("dtype", dtype, dtypes))
    fields = dict(SwitchConfig.parse_setting(text) for text in settings)
    added = []
    if source in PRESETS:
        own = SwitchConfig.preset(source)
        if "formats" not in fields and dtype not in own.formats:
            fields["formats"] = (*own.formats, dtype)
            added.append(f"formats: {dtype} added to those of {source} ({', '.join(own.formats)})")
        added += extend(own, fields)
    config, preset = SwitchConfig.load(source, fields)
    if dtype not in config.formats:
        raise UsageError(
            f"dtype: must be one of the configuration's formats ({', '.join(config.formats)}), "
            f"not {dtype!r}"
        )
    return config, preset, "; ".join(added) or None


def _default_bytes(config: SwitchConfig, dtype: str, out_of_place: bool) -> int:
    size = DEFAULT_BYTES
    while size > 0:
        try:
            place(config, size, dtype, out_of_place=out_of_place)
            return size
        except ValueError:
            size = (size - 1) // config.wave_bytes * config.wave_bytes
    return 0


def _sizes(given, repeat_text, default: int) -> tuple[int, ...]:
    """Bytes of each repetition."""
    repeat = None if repeat_text is None else whole("repeat", repeat_text, 1, MOST_RUNS)
    sizes = [default]
    if given is not None:
        sizes = [whole("bytes", text, 0) for text in given.split(",")]
    if repeat is None:
        return tuple(sizes)
    if len(sizes) not in (1, repeat):
        raise UsageError(f"bytes: must be one size or one for each of {repeat} runs, not {given!r}")
    return tuple(sizes * (repeat // len(sizes)))


def _check_size(size: int, config: SwitchConfig, dtype: str, out_of_place: bool):
    if size % element_bytes(dtype):
        raise UsageError(
            f"bytes: must be whole elements of {element_bytes(dtype)} bytes, not {size}"
        )
    try:
        place(config, size, dtype, out_of_place=out_of_place)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _skew(text: str | None, ranks: int) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) != ranks:
        raise UsageError(f"skew: must be one number for each of {ranks} ranks, not {text!r}")
    return tuple(whole("skew", part, 0, (1 << DELAY_BITS) - 1) for part in parts)


def vcd_window(text: str | None, vcd: str | None) -> tuple[int, int] | None:
    """The cycles FROM:TO of ``--vcd-window``, which comes with ``--vcd`` alone."""
    if text is None:
        return None
    if vcd is None:
        raise UsageError(f"vcd-window: must come with --vcd, not {text!r} alone")
    first, separator, last = text.partition(":")
    if not separator:
        raise UsageError(f"vcd-window: must be FROM:TO, not {text!r}")
    window = whole("vcd-window", first, 0), whole("vcd-window", last, 0)
    if window[0] > window[1]:
        raise UsageError(f"vcd-window: must have FROM at most TO, not {text!r}")
    return window


def output_files(vcd: str | None, json: str | None) -> Path | None:
    """The waveform file, tried out with its view beside it and with the report's file."""
    files = []
    if vcd is not None:
        if Path(vcd).suffix == VIEW_SUFFIX:
            raise UsageError(f"vcd: must not end in {VIEW_SUFFIX}, as its view does, not {vcd!r}")
        files = [("vcd", vcd), ("vcd", str(_view(vcd)))]
    if json not in (None, "-"):
        if Path(json).resolve() in [Path(text).resolve() for _, text in files]:
            raise UsageError(f"json: must not be the file of --vcd or of its view, not {json!r}")
        files.append(("json", json))
    paths = all_writable(files)
    return None if vcd is None else paths[0]


def _view(vcd: str) -> Path:
    try:
        return Path(vcd).with_suffix(VIEW_SUFFIX)
    except ValueError:
        rule = "must be a file that can be written (it has no name)"
        raise UsageError(f"vcd: {rule}, not {vcd!r}") from None


def run_options(
    given: argparse.Namespace,
    arguments: Sequence[str],
    config: SwitchConfig,
    **where,
) -> Options:
    """The run that `given` asks for (see `add_run_arguments`).

    Parameters
    ----------
    arguments
        The command line that it came from.
    where
        Fields of `Options` that say where it runs, ``preset`` and ``engine`` at least.

    Raises
    ------
    UsageError
        It breaks a rule; see `parse`.
    """
    dtype = given.dtype
    seed = 0 if given.seed is None else whole("seed", given.seed, 0, (1 << SEED_BITS) - 1)
    source: Input = Activations() if given.seed is None else RandomInput(seed)
    default = _default_bytes(config, dtype, given.out_of_place)
    if given.input is not None:
        if dtype == QUANTIZED:
            source = load_codes(given.input, config)
        else:
            source = load_npz(given.input, config, dtype)
        default = source.elements * element_bytes(dtype)
    sizes = _sizes(given.bytes, given.repeat, default)
    for size in sizes:
        _check_size(size, config, dtype, given.out_of_place)
    if given.input is not None and max(sizes) and not source.elements:
        raise UsageError(f"bytes: must be 0 for an input without elements, not {max(sizes)}")
    skew = _skew(given.skew, config.ranks)
    jitter = whole("latency-jitter", given.latency_jitter, 0, (1 << JITTER_BITS) - 1)
    stalls = parse_stalls(given.stalls)
    max_cycles = None
    if given.max_cycles is not None:
        max_cycles = whole("max-cycles", given.max_cycles, 1)
    return Options(
        config=config,
        dtype=dtype,
        sizes=sizes,
        input=source,
        seed=seed,
        out_of_place=given.out_of_place,
        skew=skew,
        jitter=jitter,
        stalls=stalls,
        stalls_text=given.stalls,
        max_cycles=max_cycles,
        json=given.json,
        arguments=tuple(arguments),
        **where,
    )


def check_json(name: str | None):
    """Refuse a file that the report cannot go to. Last of all checks, for it makes folders."""
    if name not in (None, "-"):
        writable("json", name)


def finish(given: argparse.Namespace, options: Options) -> Options:
    """`options` with waveform files, and the report's file tried out.

    Last of all, for it makes folders: nothing is made for a command that is refused.
    """
    window = vcd_window(given.vcd_window, given.vcd)
    return replace(options, vcd=output_files(given.vcd, given.json), vcd_window=window)


def _options(given, arguments) -> Options:
    config, preset, added = configuration(
        DEFAULT_CONFIG if given.config is None else given.config,
        given.settings or (),
        given.dtype,
    )
    engine, fallback = choose_engine(given.engine)
    options = run_options(
        given, arguments, config, preset=preset, engine=engine, fallback=fallback, added=added
    )
    return finish(given, options)


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
