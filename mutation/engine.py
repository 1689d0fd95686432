"""Faults in compiled models: a model is built once with all of them, and told which one it has."""

from __future__ import annotations

import inspect
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

from amaranth import Signal
from amaranth.hdl import Fragment

from hdl.building.cache import digest
from sim.engines import cxxrtl
from sim.engines.base import Harness, Port

from .faults import ROOT, SELECT, Fault, nearest, plant, select_bits

__all__ = ["EngineFaults"]

#: What a model is made of, besides its faults: below the repository's root.
SOURCES = ("hdl/**/*.py", "sim/engines/**/*.*", "mutation/faults.py", "mutation/engine.py")


class EngineFaults:
    """Stands between tests and the compiled engine, so that each model that they make is faulty.

    A fault is an input of the model more, set before the first cycle; so all faults of a component
    share one build for each configuration that its tests use.

    Parameters
    ----------
    faults
        All that are ever asked for, numbered from 1.
    folder
        Where the models are kept.
    """

    def __init__(self, faults: Sequence[Fault], folder: Path):
        self._faults = list(faults)
        self._folder = folder.resolve()
        #: A model is built just now, with its faults.
        self.building = False

    @contextmanager
    def planted(self, number: int) -> Iterator[None]:
        """Models that are made have fault `number`; 0 is none."""
        engine = cxxrtl.CxxrtlEngine
        begin, create, build = engine.__init__, engine._create, cxxrtl.build_library

        def begins(self_, harness: Harness, **options):
            select = Signal(select_bits(len(self._faults)), name=SELECT)
            harness.ports[SELECT] = Port(SELECT, len(select), True, select)
            begin(self_, harness, **options)

        def created(self_):
            create(self_)
            self_.set(SELECT, number)

        def built(harness: Harness, **options) -> Path:
            return self._library(harness, build, options)

        with ExitStack() as patches:
            patches.enter_context(mock.patch.object(engine, "__init__", begins))
            patches.enter_context(mock.patch.object(engine, "_create", created))
            patches.enter_context(mock.patch.object(cxxrtl, "build_library", built))
            yield

    def _library(self, harness: Harness, build, options) -> Path:
        """The model of `harness`, without elaborating it if it is there."""
        library = self._folder / f"{self._key(harness, options['waves'])}.so"
        if not library.exists():
            select = harness.ports[SELECT].signal
            fragment = Fragment.get(harness.top, platform=None)
            plant(fragment, [nearest(fragment, fault) for fault in self._faults], select)
            harness.top = fragment
            self.building = True
            try:
                made = build(harness, **options)
            finally:
                self.building = False
            self._folder.mkdir(parents=True, exist_ok=True)
            whole = library.with_suffix(f".{os.getpid()}")
            shutil.copy2(made, whole)
            os.replace(whole, library)
        return library

    def _key(self, harness: Harness, waves: bool) -> str:
        top = harness.top
        paths = sorted(path for source in SOURCES for path in ROOT.glob(source) if path.is_file())
        return digest(
            [
                type(top).__name__, top.config.to_json(), str(waves),
                os.environ.get("TIDEGATE_CXXFLAGS", ""),
                *_replaced(),
                *(fault.key for fault in self._faults),
                *(path.read_text(errors="replace") for path in paths),
            ]
        )  # fmt: skip


def _replaced() -> list[str]:
    """What a test has put into the design's modules just now, by its name and its own source."""
    found = []
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] != "hdl":
            continue
        for attribute, value in sorted(vars(module).items()):
            place = getattr(value, "__module__", None) or ""
            if callable(value) and place.partition(".")[0] == "tests":
                source = inspect.getsource(inspect.getmodule(value))
                found.append(f"{name}.{attribute} {value.__qualname__} {source}")
    return found
