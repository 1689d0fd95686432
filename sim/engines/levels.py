"""Amaranth's simulator with its combinational statements run in the order of their dependencies.

Amaranth runs all combinational statements of a module again whenever one of their inputs changes:
with valid and ready going to and fro between modules, some five times a cycle. Here statements that
assign no signal in common are processes of their own, each at the level behind all that it depends
on, and one sweep over the levels runs what has changed, once. What settles is the same.
"""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

from amaranth.hdl._ast import SignalDict, SignalSet, _StatementList
from amaranth.hdl._mem import MemoryInstance
from amaranth.hdl._xfrm import LHSMaskCollector
from amaranth.sim import _pyrtl
from amaranth.sim.pysim import PySimEngine, _PyEngineState, _PyMemoryState

__all__ = ["LevelEngine"]


class _Process(_pyrtl.PyRTLProcess):
    """A process and the list that it joins when it must run."""

    __slots__ = ("bucket",)

    def __init__(self, *, is_comb):
        super().__init__(is_comb=is_comb)
        self.bucket = []

    def wake(self):
        if not self.runnable:
            self.runnable = True
            self.bucket.append(self)


def _comb_waker(process):
    def waker(curr, next):
        if not process.runnable:
            process.runnable = True
            process.bucket.append(process)
        return True

    waker.process = process
    return waker


def _edge_waker(process, polarity):
    def waker(curr, next):
        if next == polarity:
            process.wake()
        return True

    return waker


def _memory_waker(process):
    def waker():
        process.wake()
        return True

    return waker


@contextmanager
def _own_processes():
    """Let Amaranth's compiler make processes and wakers of this file."""
    own = {
        "PyRTLProcess": _Process,
        "comb_waker": _comb_waker,
        "edge_waker": _edge_waker,
        "memory_waker": _memory_waker,
    }
    kept = {name: getattr(_pyrtl, name) for name in own}
    for name, value in own.items():
        setattr(_pyrtl, name, value)
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(_pyrtl, name, value)


class _QuietMemoryState(_PyMemoryState):
    """A memory that a write of no bits leaves asleep."""

    __slots__ = ()

    def write(self, addr, value, mask=None):
        if mask != 0:
            super().write(addr, value, mask)


class _PieceCompiler(_pyrtl._FragmentCompiler):
    """Compiles a module's combinational statements in pieces, and knows what each assigns."""

    def __init__(self, state):
        super().__init__(state)
        self.outputs: dict[_Process, SignalSet] = {}

    def __call__(self, fragment):
        if isinstance(fragment, MemoryInstance):
            processes = super().__call__(fragment)
            signals = SignalSet(
                signal
                for port in fragment._read_ports
                if port._domain == "comb"
                for signal in port._data._lhs_signals()
            )
            self.outputs |= {process: signals for process in processes if process.is_comb}
            return processes
        statements = dict(fragment.statements)
        combinational = statements.pop("comb", ())
        processes = super().__call__(_part(fragment, statements, fragment.subfragments))
        for signals, piece in _pieces(combinational):
            (process,) = super().__call__(_part(fragment, {"comb": piece}, ()))
            self.outputs[process] = signals
            processes.add(process)
        return processes


def _part(fragment, statements, subfragments):
    return SimpleNamespace(
        statements=statements, subfragments=subfragments, domains=fragment.domains
    )


def _pieces(statements):
    """(signals, statements) for each set of statements that assign signals in common."""
    owner = SignalDict()  # of each signal, the piece that assigns it
    pieces: dict[int, tuple[SignalSet, list[int]]] = {}
    for index, statement in enumerate(statements):
        collector = LHSMaskCollector()
        collector.visit_stmt(statement)
        signals = SignalSet(signal for signal, _mask in collector.masks())
        members = [index]
        for piece in {owner[signal] for signal in signals if signal in owner}:
            more_signals, more_members = pieces.pop(piece)
            signals.update(more_signals)
            members += more_members
        pieces[index] = signals, members
        for signal in signals:
            owner[signal] = index
    for signals, members in pieces.values():
        yield signals, _StatementList(statements[i] for i in sorted(members))


def _depths(followers: dict[_Process, list[_Process]]) -> dict[_Process, int]:
    """For each process one more than the most of what it depends on.

    Where some depend on each other in a circle, any order of these: further sweeps settle them.
    """
    finished: dict[_Process, None] = {}
    seen = set()
    for root in followers:
        stack = [] if root in seen else [(root, iter(followers[root]))]
        seen.add(root)
        while stack:
            process, rest = stack[-1]
            following = next((f for f in rest if f not in seen), None)
            if following is None:
                finished[process] = None
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(followers[following])))
    depths = dict.fromkeys(finished, 0)
    for process in reversed(finished):
        for following in followers[process]:
            depths[following] = max(depths[following], depths[process] + 1)
    return depths


class LevelEngine(PySimEngine):
    """Amaranth's engine, settling by sweeps over levels."""

    def __init__(self, design):
        self._design = design
        self._state = _PyEngineState()
        self._testbenches = []
        self._delta_cycles = 0
        self._vcd_writers = []
        self._active_triggers = set()
        with _own_processes():
            compiler = _PieceCompiler(self._state)
            self._compiled = compiler(design.fragment)
        self._processes = set()  # Amaranth looks through these at every advance
        for state in self._state.slots:
            if isinstance(state, _PyMemoryState):
                state.__class__ = _QuietMemoryState
        self._edges: list[_Process] = []
        self._assign_levels(compiler.outputs)

    def _assign_levels(self, outputs: dict[_Process, SignalSet]):
        """Give each process its list, and put the combinational ones there for the first sweep."""
        slots = self._state.slots
        followers = {}
        for process, signals in outputs.items():
            wakers = [w for s in signals for w in slots[self._state.get_signal(s)].wakers]
            followers[process] = [w.process for w in wakers if hasattr(w, "process")]
        depths = _depths(followers)
        self._levels = [[] for _ in range(max(depths.values(), default=-1) + 1)]
        for process in self._compiled:
            process.bucket = self._levels[depths[process]] if process.is_comb else self._edges
            if process.runnable:
                process.bucket.append(process)

    def step_design(self):
        if self._vcd_writers:
            # Amaranth's own way, which tells the writers of every change.
            self._processes = self._compiled
            super().step_design()
            self._processes = set()
            for bucket in [self._edges, *self._levels]:
                bucket.clear()
            return
        state = self._state
        unsettled = True
        while unsettled:
            for trigger in self._active_triggers:
                trigger.run()
            self._active_triggers.clear()
            state.commit()  # inputs, among them the clock
            _run(self._edges)
            state.commit()
            for bucket in self._levels:
                if bucket:
                    _run(bucket)
                    state.commit()
            self._delta_cycles += 1
            unsettled = bool(self._edges or self._active_triggers or any(self._levels))


def _run(bucket: list[_Process]):
    for process in bucket:
        process.runnable = False
        process.run()
    bucket.clear()
