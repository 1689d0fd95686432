"""Waveforms: reading a VCD's header, and writing the GTKWave view that belongs to it."""
