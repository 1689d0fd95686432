"""What boards with an ECP5-85F have in common: the device's size, and how the open tools build."""

from hdl.building.resources import Resources

__all__ = ["ECP5_85F"]

#: Fields of `Board`.
ECP5_85F = dict(
    family="ecp5",
    # ECP5 and ECP5-5G Family Data Sheet, FPGA-DS-02012, as nextpnr counts them.
    available=Resources(lut=83_640, ff=83_640, bram=208, dsp=156),
    bram_bytes=2048,
    constraints="top.lpf",
    # The electrostatic placer needs a quarter less wire than the default one, after which no router
    # ended in reasonable time; the negotiating router then settles. A build that misses its clock
    # still says by how much.
    options={
        "nextpnr_opts": "--report timing.json --timing-allow-fail --placer static --router router2"
    },
)
