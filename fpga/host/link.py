"""From ``--port`` to a board that answers: a serial port, or the board's twin in simulation."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from hdl import __version__
from hdl.config import PRESETS, SwitchConfig
from sim.cli.arguments import configuration
from sim.cli.errors import UsageError

from .client import Client
from .errors import NoAnswer
from .frames import Identity
from .ports import open_serial

__all__ = [
    "DEFAULT_CONFIG",
    "SELF_TEST_SECONDS",
    "SIMULATED",
    "Link",
    "UnknownBoardError",
    "called",
    "differences",
]

#: The port of the twin.
SIMULATED = "sim"
#: The twin's configuration unless told.
DEFAULT_CONFIG = "arty"
#: For so long the board's own test is waited for, which takes a board a millisecond and a twin on a
#: crowded machine a minute, and this long between two looks.
SELF_TEST_SECONDS, SELF_TEST_PAUSE = 120.0, 0.02
#: Digits of a configuration's digest that a board tells.
DIGEST_DIGITS = 8


class UnknownBoardError(UsageError):
    """The board's digest is that of no configuration that was named or is a preset."""


def _told(digest: str) -> int:
    """A configuration's digest as a board tells it."""
    return int(digest[:DIGEST_DIGITS], 16)


def differences(identity: Identity, config: SwitchConfig) -> list[str]:
    """What a board says of itself, and this checkout's `config` otherwise; empty if they agree."""
    version = tuple(int(part) for part in __version__.split("."))
    pairs = {
        "ranks": (identity.ranks, config.ranks),
        "flit_bytes": (identity.flit_bytes, config.flit_bytes),
        "memory_bytes": (identity.memory_bytes, config.memory_bytes),
        "digest": (f"{identity.config_digest:08x}", config.digest[:DIGEST_DIGITS]),
        "version": (".".join(map(str, identity.version)), ".".join(map(str, version))),
    }
    return [
        f"{name}: the board has {board}, this checkout's configuration {ours}"
        for name, (board, ours) in pairs.items()
        if board != ours
    ]


def called(config: SwitchConfig, preset: str | None) -> str:
    """A configuration for people: its preset, and whether settings changed that; or its digest."""
    if preset is None:
        return f"configuration {config.digest[:DIGEST_DIGITS]}"
    return preset if config == SwitchConfig.preset(preset) else f"{preset} with --set"


class Link:
    """The board of a command, or its twin.

    Parameters
    ----------
    given
        Options of every command: ``port``, ``config``, ``settings``, ``any_digest``, ``baud``,
        ``timeout``, ``retries``.

    Attributes
    ----------
    config, preset : once `configure` is through
    added : a line of what the twin's preset got, or None
    """

    def __init__(self, given: argparse.Namespace):
        self._given = given
        self.port: str = given.port
        self.simulated = given.port == SIMULATED
        self.any_digest: bool = given.any_digest
        self._twin = None
        self._client: Client | None = None
        self._identity: Identity | None = None
        self.config: SwitchConfig | None = None
        self.preset: str | None = None
        self.added: str | None = None

    # -- which configuration --------------------------------------------------------------------

    def configure(self, dtype: str | None = None, **fields):
        """Settle the configuration: the twin's, or the one that the board was built of.

        Parameters
        ----------
        dtype
            A format that it must have; a twin's preset gets it, as in `sim.allreduce`.
        fields
            What a twin gets where its preset and ``--set`` say nothing of it.

        Raises
        ------
        UsageError, ConfigError
            There is no such configuration.
        BoardError
            The board does not answer, or is another one than told.
        """
        if self.simulated:
            self._configure_twin(dtype, fields)
        else:
            self._match(self.identify())
            if dtype is not None and dtype not in self.config.formats:
                formats = ", ".join(self.config.formats)
                raise UsageError(
                    f"dtype: must be one that the board has ({formats}), not {dtype!r}"
                )

    def _configure_twin(self, dtype, fields):
        source = DEFAULT_CONFIG if self._given.config is None else self._given.config
        settings = list(self._given.settings)
        named = {SwitchConfig.parse_setting(text)[0] for text in settings}
        if source in PRESETS:
            settings += [f"{name}={value}" for name, value in fields.items() if name not in named]
        if dtype is None:
            parsed = dict(SwitchConfig.parse_setting(text) for text in settings)
            self.config, self.preset = SwitchConfig.load(source, parsed)
        else:
            self.config, self.preset, self.added = configuration(source, settings, dtype)

    def _match(self, identity: Identity):
        """Find the board's configuration, or refuse the board."""
        settings = dict(SwitchConfig.parse_setting(text) for text in self._given.settings)
        if self._given.config is not None:
            self.config, self.preset = SwitchConfig.load(self._given.config, settings)
        else:
            self.config, self.preset = self._known(identity, settings)
        found = differences(identity, self.config)
        sizes = [line for line in found if not line.startswith(("digest", "version"))]
        if sizes:
            raise UsageError(f"{sizes[0]}; name the board's with --config and --set")
        if found and not self.any_digest:
            raise UsageError(
                f"{found[0]}; load a bitstream of this checkout, name the board's configuration "
                "with --config and --set, or go on with --any-digest"
            )

    @staticmethod
    def _known(identity: Identity, settings: dict) -> tuple[SwitchConfig, str]:
        """The preset, with `settings`, that the board was built of."""
        tried = 0
        for name in PRESETS:
            try:
                config = SwitchConfig.preset(name, **settings)
            except ValueError:  # settings that do not suit this preset
                continue
            tried += 1
            if _told(config.digest) == identity.config_digest:
                return config, name
        what = "no preset with these settings" if settings else "no preset"
        raise UnknownBoardError(
            f"digest: the board's, {identity.config_digest:08x}, is that of {what} of this "
            "checkout; name its configuration with --config and --set (another's with --any-digest "
            "too), or load another bitstream"
        )

    # -- the line -------------------------------------------------------------------------------

    def open(self, phases: Callable[[str], None] = lambda phase: None) -> Client:
        """The board's client, with its session open; at first a twin is made for it.

        Parameters
        ----------
        phases
            Called with the name of each phase of the twin's making as it begins.
        """
        if self._client is None:
            given = self._given
            device = self._make_twin(phases) if self.simulated else self.port
            serial = open_serial(device, given.baud)
            self._client = Client(serial, timeout=given.timeout, retries=given.retries)
        if self._identity is None:
            self._identity = self._ask()
            self._await_self_test()
        return self._client

    def identify(self) -> Identity:
        """What the board says of itself."""
        self.open()
        return self._identity

    def _make_twin(self, phases) -> str:
        from fpga.twin import Twin  # brings the simulator with it, which a board does not need

        self._twin = Twin(self.config, phases=phases)
        return self._twin.device

    def _ask(self) -> Identity:
        try:
            return self._client.identify()
        except NoAnswer:
            heard = self._client.statistics.damaged
            hint = (
                "what it sends is no frame: another design, or another rate"
                if heard
                else "is it on, and loaded with a Tidegate bitstream?"
            )
            raise NoAnswer(
                f"port: {self.port} does not answer at {self._given.baud} baud; {hint}"
            ) from None

    def _await_self_test(self):
        """The test of power-up: a millisecond on a board, seconds in a twin."""
        give_up = time.monotonic() + SELF_TEST_SECONDS
        while self._identity.self_test.busy and time.monotonic() < give_up:
            time.sleep(SELF_TEST_PAUSE)
            self._identity = self._client.identify()

    def close(self):
        """Give back port and twin."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._twin is not None:
            self._twin.close()
            self._twin = None

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *exception):
        self.close()
