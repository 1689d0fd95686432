"""The host's bridge: bytes to frames, requests, registers and memories, and back."""
