"""AXI models by others (cocotbext-axi), made for our port names: the one place that knows them."""

from __future__ import annotations

import logging
import warnings

import numpy as np

from .ports import Ports

__all__ = ["LiteAnswers", "axi_lite_master", "axi_ram"]

with warnings.catch_warnings():
    # It is written for cocotb 1 as well, and calls what cocotb 2 keeps under old names.
    warnings.simplefilter("ignore", DeprecationWarning)
    from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam

#: Our signals: ``axi__awvalid`` and so on.
NAMES = dict(bus_separator="__", case_insensitive=False)


def axi_ram(dut, prefix: str, data: np.ndarray) -> AxiRam:
    """A memory at an AXI4 port, its contents a copy of `data`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        bus = AxiBus.from_prefix(dut, prefix, **NAMES)
        ram = AxiRam(bus, dut.clk, dut.rst, size=len(data))
    for part in (ram.write_if, ram.read_if):
        part.log.setLevel(logging.WARNING)
    ram.write(0, data.tobytes())
    return ram


def axi_lite_master(dut, prefix: str) -> AxiLiteMaster:
    """A manager at an AXI4-Lite port."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, prefix, **NAMES), dut.clk, dut.rst)
    for part in (master.write_if, master.read_if):
        part.log.setLevel(logging.WARNING)
    return master


class LiteAnswers:
    """Counts the answers on an AXI4-Lite port, also those that nobody asked for.

    Members
    -------
    held : cycles in which a transfer waited
    """

    def __init__(self, ports: Ports, prefix: str):
        self._ports, self._prefix = ports, prefix
        self._counts = {"r": 0, "b": 0}
        self.held = 0

    def cycle(self):
        for channel in ("aw", "w", "b", "ar", "r"):
            valid = self._ports.get(f"{self._prefix}__{channel}valid")
            ready = self._ports.get(f"{self._prefix}__{channel}ready")
            self.held += valid and not ready
            if channel in self._counts:
                self._counts[channel] += valid and ready

    def left(self) -> str:
        return ""

    def take(self) -> list[int]:
        """Answers to reads and to writes since the last call."""
        counts = list(self._counts.values())
        self._counts = dict.fromkeys(self._counts, 0)
        return counts
