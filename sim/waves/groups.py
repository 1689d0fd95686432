"""The view of a system's waveforms: its signals in the order in which data meets them."""

from __future__ import annotations

from pathlib import Path

from hdl.accelerator.layouts import Status
from hdl.config import SwitchConfig
from hdl.interfaces import Format, MessageClass, Response

from .gtkw import Group, Trace, write_save_file

__all__ = ["VIEW_SUFFIX", "system_view", "waves_in_flight", "write_view"]

#: Ending of a view's name; the rest is the name of its waveforms.
VIEW_SUFFIX = ".gtkw"

ACCELERATOR = "switch.accelerator"
#: What the first tenant has for itself.
CONTEXT = f"{ACCELERATOR}.context_0"


def _traces(prefix: str, *names: str, **options) -> list[Trace]:
    """Signals of one module, labelled by their own names."""
    return [Trace(f"{prefix}.{name}", label=name, **options) for name in names]


def _link(prefix: str, title: str) -> Group:
    """One direction of a link, where it enters or leaves."""
    flit = f"{prefix}__flit"
    return Group(
        title,
        [
            Trace(f"{prefix}__valid", label="valid"),
            Trace(f"{flit}.channel", format="dec", label="virtual channel"),
            Trace(f"{flit}.first", label="first"),
            Trace(f"{flit}.last", label="last"),
            Trace(f"{flit}.response", enum=Response, label="response"),
            Trace(f"{flit}.data", label="data"),
            Trace(f"{prefix}__credit", format="bin", label="credits returned"),
        ],
    )


def _axi(prefix: str) -> list[Group]:
    return [
        Group(
            title,
            [
                Trace(
                    f"{prefix}.axi__{name}",
                    enum=Response if name.endswith("resp") else None,
                    format="dec" if name.endswith("len") else "hex",
                    label=name,
                )
                for name in names.split()
            ],
        )
        for title, names in (
            ("read addresses", "arvalid arready araddr arlen"),
            ("read data", "rvalid rready rdata rlast rresp"),
            ("write addresses", "awvalid awready awaddr awlen"),
            ("write beats", "wvalid wready wdata wstrb wlast"),
            ("write responses", "bvalid bready bresp"),
        )
    ]


def _rank(rank: int) -> Group:
    prefix = f"rank_{rank}"
    return Group(
        f"rank {rank}",
        [
            *_traces(prefix, "go", "arriving", "seen", "done"),
            *_traces(prefix, "flag"),
            Group("AXI4", _axi(prefix), closed=True),
        ],
        closed=rank > 0,
    )


def _port(rank: int) -> Group:
    prefix = f"switch.port_{rank}"
    return Group(
        f"port {rank}",
        [
            _link(f"{prefix}.rx", "from the rank"),
            _link(f"{prefix}.tx", "to the rank"),
            Trace(f"{prefix}.starved", label="requests wait for credits"),
        ],
        closed=rank > 0,
    )


def _entry(rank: int, entry: int) -> Group:
    prefix = f"{ACCELERATOR}.table_{rank}"
    return Group(
        f"entry {entry}",
        [
            Trace(f"{prefix}.arrived_{entry}", format="bin", label="packets there"),
            Trace(f"{prefix}.generation_{entry}", format="dec", label="generation"),
            Trace(f"{prefix}.response_{entry}", enum=Response, label="worst response"),
        ],
    )


def _wave_table(config: SwitchConfig, rank: int) -> Group:
    prefix = f"{ACCELERATOR}.table_{rank}"
    header = f"{prefix}.i__payload.header"
    return Group(
        f"wave table {rank}",
        [
            Trace(f"{prefix}.i__valid", label="read data comes"),
            Trace(f"{header}.message_class", enum=MessageClass, label="message class"),
            Trace(f"{header}.tag", label="tag"),
            Trace(f"{prefix}.look_ups__0__ready", label="asked entry is complete"),
            Trace(f"{prefix}.stray", label="stray"),
            *[_entry(rank, entry) for entry in range(config.waves)],
        ],
        closed=rank > 0,
    )


def waves_in_flight(contexts: int = 1) -> Group:
    """Waves in either phase, drawn as curves; of several contexts, those of each."""
    traces = []
    for context in range(contexts):
        prefix, of = ("trace__", "") if contexts == 1 else (f"traces__{context}__", f" {context}")
        traces += [
            Trace(f"{prefix}{phase}", format="dec", analog=True, label=f"{phase}{of}")
            for phase in ("reading", "writing")
        ]
    return Group("waves in flight", traces)


def _barrier_and_controller() -> list[Group]:
    barrier, controller = f"{CONTEXT}.barrier", f"{CONTEXT}.controller"
    return [
        Group(
            "barrier",
            [
                Trace(f"{barrier}.epoch", format="dec", label="epoch"),
                Trace(f"{barrier}.arrived", format="bin", label="arrived"),
                Trace(f"{barrier}.complete", label="complete"),
                Trace(f"{barrier}.refused", format="bin", label="refused"),
            ],
        ),
        Group(
            "wave controller",
            [
                Trace(f"{controller}.take", label="operation starts"),
                Trace(f"{controller}.operation.format", enum=Format, label="format"),
                Trace(f"{controller}.remaining", format="dec", label="bytes to request"),
                Trace(f"{controller}.issue__valid", label="wave issued"),
                Trace(f"{controller}.issue__entry", format="dec", label="entry"),
                Trace(f"{controller}.issue__size", format="dec", label="bytes of the wave"),
                Trace(f"{controller}.release", label="entry released"),
                Trace(f"{controller}.waits_barrier", label="waits for the barrier"),
                Trace(f"{controller}.waits_entry", label="waits for an entry"),
            ],
        ),
    ]


def _read_out(config: SwitchConfig) -> Group:
    prefix = f"{CONTEXT}.read_out"
    traces = [
        Trace(f"{prefix}.entry", format="dec", label="entry read out"),
        Trace(f"{prefix}.waits_data", format="bin", label="waits for data, by rank"),
        Trace(f"{prefix}.waits_room", format="bin", label="waits for room, by port"),
        Trace(f"{prefix}.operands_valid", label="operands"),
        Trace(f"{prefix}.format", enum=Format, label="format"),
        Trace(f"{prefix}.keep", format="bin", label="lanes kept"),
    ]
    if config.quantizes:
        traces += [
            Trace(f"{prefix}.ends_blocks", label="the wave's last block"),
            Trace(f"{prefix}.ends_wave", label="the wave's last flit"),
        ]
    return Group("read-out", traces)


def _reducer(config: SwitchConfig) -> Group:
    prefix = f"{ACCELERATOR}.arithmetic"
    traces = [
        Trace(f"{prefix}.result_valid", label="result"),
        Trace(f"{prefix}.result", label="data"),
        Trace(f"{prefix}.nan", label="a sum is NaN"),
        Trace(f"{prefix}.overflow", label="a sum overflows"),
    ]
    if config.quantizes:
        traces += [
            Trace(f"{prefix}.result_ends", label="a wave's last codes"),
            Trace(f"{prefix}.scales_valid", label="new scales"),
            Trace(f"{prefix}.new_scales.data", label="scales"),
            Trace(f"{prefix}.new_scales.last", label="a wave's last scales"),
            Trace(f"{prefix}.blocks_nan", format="bin", label="scale NaN, by block"),
            Trace(f"{prefix}.blocks_overflow", format="bin", label="codes clamped, by block"),
        ]
    return Group("reducer", traces)


def _scale_packets(config: SwitchConfig, write_back: str) -> list[Trace]:
    if not config.quantizes:
        return []
    prefix = f"{write_back}.scale_packets"
    return [
        Trace(f"{prefix}.o__head__valid", label="scales wait"),
        Trace(f"{prefix}.o__head__payload.header.address", label="address of scales"),
        Trace(f"{prefix}.free", format="dec", label="free flits of scales"),
    ]


def _write_back(config: SwitchConfig) -> Group:
    tracker = f"{CONTEXT}.tracker"
    ports = []
    for rank in range(config.ranks):
        which = rank if config.contexts == 1 else f"0_{rank}"
        prefix = f"{ACCELERATOR}.write_back_{which}"
        ports.append(
            Group(
                f"to port {rank}",
                [
                    Trace(f"{prefix}.o__head__valid", label="packet waits"),
                    Trace(f"{prefix}.o__head__ready", label="packet taken"),
                    Trace(f"{prefix}.o__head__payload.header.address", label="address"),
                    Trace(f"{prefix}.free", format="dec", label="free flits"),
                    Trace(f"{prefix}.room", label="room for a packet"),
                    *_scale_packets(config, prefix),
                ],
                closed=rank > 0,
            )
        )
    return Group(
        "write-back",
        [
            Trace(f"{tracker}.acknowledge", format="bin", label="acknowledged, by port"),
            Trace(f"{tracker}.retire", label="wave written everywhere"),
            *ports,
        ],
    )


def _end() -> Group:
    return Group(
        "operation over",
        [
            Trace(f"{ACCELERATOR}.ended__0__valid", label="over"),
            Trace(f"{ACCELERATOR}.ended__0__code", enum=Status, label="code"),
            Trace(f"{ACCELERATOR}.ended__0__epoch", format="dec", label="epoch"),
        ],
    )


def system_view(config: SwitchConfig) -> list[Group | Trace]:
    """Groups by rank, port, wave table entry, controller, reducer and write-back."""
    ranks = range(config.ranks)
    return [
        Trace("clk", label="clock"),
        waves_in_flight(config.contexts),
        *[_rank(rank) for rank in ranks],
        *[_port(rank) for rank in ranks],
        *_barrier_and_controller(),
        *[_wave_table(config, rank) for rank in ranks],
        _read_out(config),
        _reducer(config),
        _write_back(config),
        _end(),
    ]


def write_view(vcd: Path, config: SwitchConfig) -> Path:
    """Write the GTKWave save file of a system's waveforms beside them, and name it.

    Raises
    ------
    WaveError
        A signal of the view is not in the file.
    """
    path = vcd.with_suffix(VIEW_SUFFIX)
    write_save_file(path, vcd, system_view(config))
    return path
