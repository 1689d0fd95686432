"""The design: one Amaranth description of the switch, its accelerator and emulated ranks."""

__version__ = "0.1.0"
