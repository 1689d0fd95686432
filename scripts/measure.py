"""Remake the measured figures of the docs: run the design in CXXRTL and keep what it counted.

Each measurement writes docs/data/NAME.json; `python -m scripts.make_figures` makes tables and
pictures of them. A measurement takes minutes, most of it compiling models; see --help.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from rich.console import Console

from hdl import __version__
from hdl.config import SwitchConfig
from sim.activations import partial_sums, round_once
from sim.contention import contend, saturating
from sim.formula import data_cycles, reducer_delay
from sim.neighbours import CASES, Neighbours
from sim.quantized import QUANTIZED, Quantized, element_bytes
from sim.testbed import Outcome, Testbed

DATA = Path(__file__).resolve().parent.parent / "docs" / "data"
KIB, MIB = 1 << 10, 1 << 20

console = Console(stderr=True)


class NotExactError(RuntimeError):
    """A run did not give golden's bytes; its figures are worth nothing."""


def run(testbed: Testbed, data_bytes: int, format: str = "fp16", **options) -> Outcome:
    """One All-Reduce of the committed activations, which must be bit exact."""
    config = testbed.config
    values = partial_sums(config.ranks, data_bytes // element_bytes(format))
    if format == QUANTIZED:
        operands = Quantized.of(values, config)
    else:
        operands = round_once(values, format)
    outcome = testbed.all_reduce(operands, format, **options)
    if outcome.status != "ok":
        raise NotExactError(
            f"{data_bytes} bytes: status {outcome.status} {outcome.differences[:1]}"
        )
    return outcome


def figures(config: SwitchConfig, outcome: Outcome) -> dict:
    """What every table needs of a run."""
    cycles = outcome.figures.data
    seconds = cycles / config.clock_hz
    return {
        "bytes": outcome.bytes,
        "cycles": {"data": cycles, "arrive_to_flag": outcome.figures.arrive_to_flag},
        "ns": cycles * 1e9 / config.clock_hz,
        "utilization": config.payload_cycles(outcome.bytes) / cycles,
        "bound": config.utilization_bound(outcome.bytes, outcome.format),
        "GBps": outcome.bytes / seconds / 1e9,
        "reading_max": outcome.figures.reading_max,
        "writing_max": outcome.figures.writing_max,
        "digest": config.digest,
    }


def paper_fpga() -> Iterable[dict]:
    """The paper's prototype: time by size, beside the closed form."""
    config = SwitchConfig.preset("paper-fpga")
    with Testbed(config) as testbed:
        for size in (4 * KIB, 8 * KIB, 16 * KIB, 64 * KIB, MIB, 16 * MIB):
            outcome = run(testbed, size)
            yield figures(config, outcome) | {"formula": data_cycles(config, size)}


def wave_curve(size: int, wave_bytes: Callable[[int], int]) -> Iterable[dict]:
    for waves in (1, 2, 4, 8, 16, 32):
        config = SwitchConfig.preset("paper-8gpu", waves=waves, wave_bytes=wave_bytes(waves))
        with Testbed(config) as testbed:
            yield figures(config, run(testbed, size)) | {
                "waves": waves,
                "wave_bytes": config.wave_bytes,
            }


def waves_fixed_buffer() -> Iterable[dict]:
    """One of the paper's four planes, 4 MiB: waves in flight, 64 KiB of buffer a rank."""
    return wave_curve(4 * MIB, lambda waves: 64 * KIB // waves)


def waves_fixed_wave() -> Iterable[dict]:
    """The same with waves of 4 KiB, so the buffer grows with their number."""
    return wave_curve(4 * MIB, lambda waves: 4 * KIB)


#: Cycles by which one rank is late, and up to which memories answer later, in `latency`.
STRAGGLER, JITTER = 1000, 64


def latency() -> Iterable[dict]:
    """4 KiB on `demo` against the number of ranks: plain, with a straggler, with jitter."""
    size = 4 * KIB
    for ranks in range(2, 9):
        config = SwitchConfig.preset("demo", ranks=ranks)
        with Testbed(config) as testbed:
            plain = run(testbed, size)
            late = run(testbed, size, delays=[STRAGGLER] + [0] * (ranks - 1))
            for rank in range(ranks):
                testbed.set_memory(rank, jitter=JITTER, seed=rank + 1)
            shaken = run(testbed, size)
            yield {
                "ranks": ranks,
                "reducer": reducer_delay(config),
                "digest": config.digest,
                "plain": figures(config, plain)["cycles"],
                "straggler": figures(config, late)["cycles"],
                "jitter": figures(config, shaken)["cycles"],
            }


def inq_bandwidth() -> Iterable[dict]:
    """One of the paper's four planes, 4 Mi codes, and as many fp16 values."""
    codes = 4 * MIB
    for format in ("fp16", "inq8"):
        config = SwitchConfig.preset("paper-8gpu", formats=(format,))
        with Testbed(config) as testbed:
            size = codes * element_bytes(format)
            yield figures(config, run(testbed, size, format)) | {"dtype": format, "values": codes}


def inq_latency() -> Iterable[dict]:
    """Ki codes beside KiB of fp16, on the paper's prototype and on `demo`, by the closed form."""
    for preset in ("paper-fpga", "demo"):
        config = SwitchConfig.preset(preset, formats=("fp16", "inq8"))
        with Testbed(config) as testbed:
            for size in (4 * KIB, 8 * KIB, 64 * KIB):
                for format in ("fp16", "inq8"):
                    yield figures(config, run(testbed, size, format)) | {
                        "preset": preset,
                        "dtype": format,
                        "formula": data_cycles(config, size, format),
                    }


#: Ordinary traffic that an All-Reduce is measured beside: payload flits of a request, and whether
#: they are writes. None is a payload's.
CONTENDERS = {
    "writes of a payload": (None, True),
    "writes of a flit": (1, True),
    "reads of a flit": (1, False),
    "reads of a payload": (None, False),
}
#: Cycles before the window in which flits are counted, and of the window.
FAIRNESS_RAMP, FAIRNESS_WINDOW = 300, 2000


def fairness() -> Iterable[dict]:
    """An All-Reduce beside ordinary traffic at saturation: shares of links, on `tiny`."""
    config = SwitchConfig.preset("tiny", core="forward", traffic_requests=16, formats=("fp16",))
    size = config.memory_bytes * 3 // 8
    operands = round_once(partial_sums(config.ranks, size // 2), "fp16")
    with Testbed(config) as testbed:
        alone = run(testbed, size).figures.data
        for name, (payload_flits, writes) in CONTENDERS.items():
            request = config.payload_bytes if payload_flits is None else config.flit_bytes
            traffics = saturating(
                testbed, bytes=request, writes=writes, base=config.memory_bytes // 2
            )
            found = contend(testbed, operands, traffics, ramp=FAIRNESS_RAMP, window=FAIRNESS_WINDOW)
            yield {
                "traffic": name,
                "bytes": size,
                "shares": found.shares,
                "busy": found.busy,
                "cycles": {"beside": found.operation, "alone": alone},
                "latency_mean": [total.latency_mean for total in found.totals],
                "digest": config.digest,
            }


#: All-Reduces of the tenant whose neighbour is dead.
NEIGHBOUR_OPERATIONS = 1000


def neighbours() -> Iterable[dict]:
    """1,000 All-Reduces of a tenant beside another one whose rank is dead, on `tiny`."""
    config = SwitchConfig.preset("tiny", contexts=2)
    own = None  # cycles beside a tenant that is well: the share of the switch that it has
    scene = Neighbours(config)
    for case in CASES:
        scene.disturb(case)
        cycles = scene.run(NEIGHBOUR_OPERATIONS)
        own = own or cycles
        yield {
            "neighbour": case,
            "operations": NEIGHBOUR_OPERATIONS,
            "cycles": cycles,
            "of_share": cycles / own,
            "aborts": scene.other.read("aborts"),
            "digest": config.digest,
        }
    scene.bed.close()


#: Cycles over which each engine's speed is measured.
SPEED_CYCLES = {"cxxrtl": 400_000, "pysim": 1_500}


def speed() -> Iterable[dict]:
    """Cycles a second of both engines on `demo`, busy with All-Reduces back to back."""
    config = SwitchConfig.preset("demo")
    for engine, least in SPEED_CYCLES.items():
        with Testbed(config, engine) as testbed:
            size = 256 * KIB if engine == "cxxrtl" else 8 * KIB
            run(testbed, size)
            cycles, seconds = testbed.engine.clock_cycles, testbed.engine.clock_seconds
            while testbed.engine.clock_cycles - cycles < least:
                run(testbed, size)
            cycles = testbed.engine.clock_cycles - cycles
            seconds = testbed.engine.clock_seconds - seconds
        yield {
            "engine": engine,
            "cycles": cycles,
            "seconds": seconds,
            "cycles_per_second": cycles / seconds,
            "digest": config.digest,
        }


MEASUREMENTS = {
    "paper-fpga": paper_fpga,
    "waves-fixed-buffer": waves_fixed_buffer,
    "waves-fixed-wave": waves_fixed_wave,
    "latency": latency,
    "inq-bandwidth": inq_bandwidth,
    "inq-latency": inq_latency,
    "fairness": fairness,
    "neighbours": neighbours,
    "speed": speed,
}


def measure(name: str, folder: Path):
    """Run one measurement and write its rows, whole or not at all."""
    rows, start = [], time.monotonic()
    for row in MEASUREMENTS[name]():
        rows.append(row)
        console.print(
            f"{name}: {time.monotonic() - start:6.0f} s: {json.dumps(row)}", soft_wrap=True
        )
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"name": name, "version": __version__, "rows": rows}, indent=1) + "\n"
    target = folder / f"{name}.json"
    temporary = target.with_suffix(".json.new")
    temporary.write_text(text)
    temporary.replace(target)
    console.print(f"{name}: wrote {target}")


def main(arguments: list[str] | None = None) -> int:
    listed = "\n".join(f"  {name:20} {function.__doc__}" for name, function in MEASUREMENTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m scripts.measure",
        description=__doc__,
        epilog=f"measurements:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", choices=[*MEASUREMENTS, []], metavar="NAME",
                        help="which; without any, all")  # fmt: skip
    parser.add_argument("--out", type=Path, default=DATA, metavar="DIR",
                        help="folder of the results (default: docs/data)")  # fmt: skip
    options = parser.parse_args(arguments)
    try:
        for name in options.names or MEASUREMENTS:
            measure(name, options.out)
    except NotExactError as error:
        print(f"measure: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
