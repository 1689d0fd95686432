"""The smallest system that the command is tested on, and the one model that it is compiled to."""

import json

import pytest

from hdl.config import SwitchConfig
from sim.allreduce import main
from sim.cli import session
from sim.engines import build
from sim.engines.build import find_compiler
from sim.testbed import Testbed

FIELDS = {
    "ranks": 2,
    "formats": "fp16",
    "waves": 2,
    "wave_bytes": 128,
    "memory_bytes": 4096,
    "link_latency_max": 8,
}
#: The system as arguments of the command.
SMALL = ["--config", "tiny"] + [
    word for field, value in FIELDS.items() for word in ("--set", f"{field}={value}")
]
CONFIG = SwitchConfig.preset("tiny", **FIELDS)

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler: apt g++")
each_engine = pytest.mark.parametrize(
    "engine", [pytest.param("cxxrtl", marks=needs_compiler), "pysim"]
)


#: What configurations were generated to, by digest.
_generated: dict[str, str] = {}


def use_one_model(monkeypatch, *, waves: bool = True):
    """Generate and compile the system once: this takes most of these tests' time.

    The model with waveforms runs the same cycles as the one without; it is made where any test
    draws some.
    """
    generate = build._rtlil

    def generate_once(harness):
        digest = harness.top.config.digest
        if digest not in _generated:
            _generated[digest] = generate(harness)
        for unused in (harness, harness.top):  # on purpose: no warning
            unused._MustUse__used = True
        return _generated[digest]

    def testbed(config, engine, *, vcd, phases):
        return Testbed(config, engine, vcd=waves, phases=phases)

    monkeypatch.setattr(build, "_rtlil", generate_once)
    monkeypatch.setattr(session, "Testbed", testbed)


def reported(capsys, arguments: list[str]):
    """Exit status, the JSON report, and what went to standard error."""
    status = main([*arguments, "--json", "-"])
    captured = capsys.readouterr()
    return status, json.loads(captured.out), captured.err
