"""What a netlist takes of a device, counted in the units that the device is sold by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from .errors import BuildError, OverDevice

__all__ = ["Resources", "check_fit", "count_7_series", "count_cells", "count_ecp5"]


@dataclass(frozen=True)
class Resources:
    """LUTs, flip-flops, block RAMs and multipliers.

    ``lut`` counts distributed RAM and shift registers as the LUTs that they take. ``bram`` is in
    the device's units: 36 kbit on 7-series, where a half block counts as 0.5; DP16KD on ECP5.
    """

    lut: float = 0
    ff: float = 0
    bram: float = 0
    dsp: float = 0

    def plus(self, other: Resources, times: float) -> Resources:
        """This and `times` the other."""
        sums = {name: value + times * getattr(other, name) for name, value in asdict(self).items()}
        return Resources(**sums)

    def as_json(self) -> dict:
        """The numbers, whole ones as integers."""
        return {
            name: int(value) if value == int(value) else value
            for name, value in asdict(self).items()
        }


def _each(names: str, **each) -> dict[str, Resources]:
    return {name: Resources(**each) for name in names.split()}


#: What one cell of a 7-series netlist takes (7 Series FPGAs, UG474 for logic, UG473 for memory).
_7_SERIES = {
    **_each("LUT1 LUT2 LUT3 LUT4 LUT5 LUT6", lut=1),
    **_each("SRL16E SRLC16E SRLC32E RAM32X1S RAM64X1S", lut=1),
    **_each("RAM32X1D RAM64X1D RAM128X1S", lut=2),
    **_each("RAM32M RAM64M RAM128X1D RAM256X1S", lut=4),
    **_each("FDRE FDSE FDCE FDPE LDCE LDPE", ff=1),
    **_each("FDRE_1 FDSE_1 FDCE_1 FDPE_1", ff=1),
    **_each("RAMB36E1", bram=1),
    **_each("RAMB18E1", bram=0.5),
    **_each("DSP48E1", dsp=1),
    # Beside the LUTs: carry chains, wide multiplexers, buffers; inverters go into LUTs.
    **_each("CARRY4 MUXF7 MUXF8 INV BUFG IBUF OBUF GND VCC"),
}

#: The same of an ECP5 netlist before placement (ECP5 and ECP5-5G Family Data Sheet, FPGA-DS-02012).
#: CCU2C is two LUTs with carry; DPR16X4C is four LUTs and the two that its write port blocks.
_ECP5 = {
    **_each("LUT4", lut=1),
    **_each("CCU2C", lut=2),
    **_each("TRELLIS_DPR16X4", lut=6),
    **_each("TRELLIS_FF", ff=1),
    **_each("DP16KD", bram=1),
    **_each("MULT18X18D", dsp=1),
    **_each("PFUMX L6MUX21 EHXPLLL GSR SGSR"),
}


def _count(cells: Mapping[str, int], weights: Mapping[str, Resources]) -> Resources:
    total = Resources()
    for cell, times in cells.items():
        if cell.startswith("$"):  # notes of Yosys about scopes, no hardware
            continue
        if cell not in weights:
            raise BuildError(f"resources: cell {cell} has no known size")
        total = total.plus(weights[cell], times)
    return total


def _cells(stat: str) -> dict[str, int]:
    """Cells by type, of the whole design, from Yosys' ``stat -json``."""
    return json.loads(stat)["design"]["num_cells_by_type"]


def count_cells(cells: Mapping[str, int]) -> Resources:
    """Resources of 7-series cells, their number by type."""
    return _count(cells, _7_SERIES)


def count_7_series(stat: str) -> Resources:
    """Resources of a netlist that ``synth_xilinx -family xc7`` made, from ``stat -json``."""
    return _count(_cells(stat), _7_SERIES)


def count_ecp5(stat: str) -> Resources:
    """Resources of a netlist that ``synth_ecp5`` made, from ``stat -json``."""
    return _count(_cells(stat), _ECP5)


def check_fit(used: Resources, available: Resources, device: str):
    """Refuse what a device has not.

    Raises
    ------
    OverDevice
        One line with everything that is over.
    """
    need, have = used.as_json(), available.as_json()
    over = [f"{need[name]} {name} of {have[name]}" for name in need if need[name] > have[name]]
    if over:
        raise OverDevice(f"{device}: must fit the device, not take {', '.join(over)}")
