"""Where faults are planted, and who must notice them: a component's own bench, tests and proofs."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.lib import wiring

from cocotb_tests.lib.configs import FORWARDING, INQ, TENANTS, TINY
from hdl.building.components import COMPONENTS as NAMED
from hdl.config import SwitchConfig

__all__ = ["COMPONENTS", "Bench", "Component"]

#: All that a small switch can have, for parts that few switches have.
EVERYTHING = SwitchConfig.preset(
    "tiny", contexts=2, collectives="all", operations=("sum", "max", "min", "average"),
    formats=("fp16", "bf16", "int32", "inq8"), core="forward", register_slices="all",
)  # fmt: skip
#: Codes and sums on the same multipliers.
SHARED = SwitchConfig.preset("tiny", ranks=2, formats=("fp16", "inq8"), inq_reducer="shared")
#: A switch that keeps records of what happens.
TRACED = SwitchConfig.preset("tiny", trace_records=64)


@dataclass(frozen=True)
class Bench:
    """A cocotb module that judges a component.

    Parameters
    ----------
    module
        Of `cocotb_tests`.
    scale
        Multiplies the number of random cases.
    """

    module: str
    scale: int = 1


@dataclass(frozen=True, kw_only=True)
class Component:
    """One component whose faults are looked for.

    Parameters
    ----------
    name
        As `hdl.build` knows it, where it can be built on its own.
    files
        Its source, in which faults are planted.
    config
        What faults are looked for in; the bench runs at it.
    also
        Configurations with more of it, in which faults are looked for, too.
    bench
        None where there is none.
    tests
        Its unit tests: files, and names where only some of them are about it.
    proofs
        Names of proofs that speak of it; of several sizes, the smallest, and of contexts.
    inside
        What `hdl.build` knows that has it; itself where that is empty.
    compared
        What survives is compared with the design without it; too large for a solver where it is
        not.
    """

    name: str
    files: tuple[str, ...]
    config: SwitchConfig = TINY
    also: tuple[SwitchConfig, ...] = (EVERYTHING,)
    bench: Bench | None = None
    tests: tuple[str, ...] = ()
    proofs: tuple[str, ...] = ()
    inside: str = ""
    compared: bool = True

    @property
    def configs(self) -> tuple[SwitchConfig, ...]:
        """All that faults are looked for in, the bench's first."""
        return tuple(dict.fromkeys((self.config, *self.also)))

    def create(self, config: SwitchConfig) -> wiring.Component:
        """A design of a configuration with the component in it."""
        return NAMED[self.inside or self.name].create(config)


def _files(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(f"hdl/{folder}{name}.py" for name in names)


def _accelerator(*names: str) -> tuple[str, ...]:
    return _files("accelerator/", *names)


def _transport(*names: str) -> tuple[str, ...]:
    return _files("transport/", *names)


def _tests(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(f"tests/{folder}test_{name}.py" for name in names)


COMPONENTS: dict[str, Component] = {
    component.name: component
    for component in (
        Component(
            name="endpoint",
            files=_transport("endpoint"),
            bench=Bench("tb_endpoint"),
            tests=_tests("transport/", "endpoint", "endpoint_ordinary", "link_end"),
        ),
        Component(
            name="read-engine",
            files=_transport("read_engine"),
            tests=_tests("transport/", "read_engine", "link_end"),
            proofs=("read-engine", "streams-of-read-engine"),
        ),
        Component(
            name="write-engine",
            files=_transport("write_engine"),
            tests=_tests("transport/", "write_engine", "link_end"),
            proofs=("write-engine",),
        ),
        Component(
            name="receiver",
            files=_transport("receiver"),
            tests=_tests("transport/", "receiver", "link_end"),
            proofs=("receiver",),
        ),
        Component(
            name="transmitter",
            files=_transport("transmitter"),
            tests=_tests("transport/", "transmitter", "link_end"),
            proofs=("transmitter-endpoint",),
        ),
        Component(
            name="link",
            files=_transport("link"),
            bench=Bench("tb_link"),
            tests=_tests("transport/", "link"),
        ),
        Component(
            name="port",
            files=_transport("port", "arbiter"),
            bench=Bench("tb_port"),
            tests=_tests("transport/", "port", "arbiter", "forwarding", "link_end"),
            proofs=("link-arbiter",),
        ),
        Component(
            name="core",
            config=FORWARDING,
            files=_transport("core"),
            bench=Bench("tb_core"),
            tests=_tests("transport/", "core"),
            proofs=("core-output",),
        ),
        Component(
            name="core-stub",
            files=_transport("core_stub"),
            bench=Bench("tb_core_stub"),
            tests=_tests("transport/", "core_stub"),
            proofs=("streams-of-core-stub",),
        ),
        Component(
            name="barrier",
            files=_accelerator("barrier"),
            bench=Bench("tb_barrier"),
            tests=_tests("accelerator/", "barrier"),
            proofs=("barrier", "barrier-of-members"),
        ),
        Component(
            name="doorbell",
            files=_accelerator("doorbell"),
            tests=_tests("accelerator/", "doorbell"),
            proofs=("doorbell",),
        ),
        Component(
            name="instruction-queue",
            files=_accelerator("instruction_queue", "address_check"),
            tests=_tests("accelerator/", "instruction_queue", "instruction_choice"),
            proofs=("instruction-queue", "address-check"),
        ),
        Component(
            name="operation-table",
            files=_accelerator("operation_table"),
            tests=_tests("accelerator/", "operation_table"),
            proofs=("operation-table", "operation-table-of-contexts"),
        ),
        Component(
            name="wave-controller",
            files=_accelerator("wave_controller", "scales"),
            bench=Bench("tb_wave_controller"),
            tests=_tests("accelerator/", "wave_controller"),
            proofs=(
                "wave-controller", "wave-controller-of-contexts", "streams-of-wave-controller",
            ),
        ),
        Component(
            name="request-issuer",
            files=_accelerator("request_issuer"),
            tests=_tests("accelerator/", "request_issuer"),
            proofs=("request-issuer-of-contexts", "streams-of-request-issuer"),
        ),
        Component(
            name="wave-table",
            files=_accelerator("wave_table"),
            bench=Bench("tb_wave_table"),
            tests=_tests("accelerator/", "wave_table", "wave_table_scales", "slices"),
            proofs=("wave-table-small",),
        ),
        Component(
            name="read-out",
            files=_accelerator("read_out"),
            tests=_tests("accelerator/", "read_out", "read_out_codes", "slices"),
            proofs=("read-out", "read-out-of-contexts"),
        ),
        Component(
            name="write-back",
            files=_accelerator("write_back"),
            bench=Bench("tb_write_back"),
            tests=_tests("accelerator/", "write_back", "write_back_codes", "slices"),
            proofs=("write-back",),
        ),
        Component(
            name="write-tracker",
            files=_accelerator("write_tracker"),
            tests=_tests("accelerator/", "write_tracker", "slices"),
            proofs=("write-tracker-small", "write-tracker-of-contexts"),
        ),
        Component(
            name="flag-writer",
            files=_accelerator("flag_writer"),
            tests=_tests("accelerator/", "flag_writer"),
            proofs=("flag-writer", "flag-writer-of-members", "streams-of-flag-writer"),
        ),
        Component(
            name="counters",
            files=_accelerator("counters"),
            tests=_tests("accelerator/", "counters"),
        ),
        *(
            Component(
                name=name.replace("_", "-"),
                config=TENANTS,
                files=_accelerator(name),
                tests=_tests("accelerator/", "recovery_blocks"),
                proofs=tuple(proofs),
            )
            for name, *proofs in (
                ("recovery",), ("late_flags", "late-flags", "streams-of-late-flags"),
                ("entry_shares", "entry-shares"), ("outstanding", "outstanding"),
                ("packet_drop", "packet-drop", "streams-of-packet-drop"),
                ("packet_merge", "packet-merge", "streams-of-packet-merge"),
            )
        ),
        Component(
            name="member-posts",
            config=TENANTS,
            files=_accelerator("member_posts"),
            tests=_tests("accelerator/", "member_posts"),
        ),
        Component(
            name="link-end",
            config=TENANTS,
            files=_transport("link_end"),
            tests=_tests("transport/", "link_end"),
            proofs=("link_end",),
        ),
        Component(
            name="axi4-lite-bridge",
            files=("hdl/registers.py",),
            bench=Bench("tb_registers"),
            tests=_tests("", "registers"),
        ),
        Component(
            name="reducer",
            files=_files(
                "arithmetic/", "reducer", "decode", "align", "adder_tree", "largest", "normalize",
                "round",
            ),
            bench=Bench("tb_reducer"),
            tests=_tests("arithmetic/", "reducer", "operations"),
            proofs=("fp16-align", "fp16-round", "adder-tree", "largest-exponent"),
        ),
        Component(
            name="inq-reducer",
            config=INQ,
            files=_files(
                "arithmetic/", "inq_reducer", "align_scales", "block_maximum", "block_scale",
                "dot_product", "new_scale", "quantize", "reciprocal", "requantize",
            ),
            bench=Bench("tb_inq_reducer"),
            tests=_tests("arithmetic/", "inq_reducer", "inq_blocks"),
            proofs=("block-maximum",),
        ),
        Component(
            name="multi-reducer",
            config=EVERYTHING,
            files=_files(
                "arithmetic/", "multi_reducer", "copy", "integer_sum", "extremum", "divide"
            ),
            tests=_tests("arithmetic/", "operations", "divide"),
        ),
        Component(
            name="shared-reducer",
            also=(),
            config=SHARED,
            files=_files(
                "arithmetic/", "shared_reducer", "product_chain", "pipeline", "delay_line"
            ),
            tests=_tests("arithmetic/", "inq_shared", "inq_blocks"),
        ),
        Component(
            name="arithmetic",
            config=EVERYTHING,
            files=_accelerator("arithmetic"),
            tests=_tests("accelerator/", "arithmetic"),
        ),
        Component(
            name="scale-packer",
            config=INQ,
            files=_accelerator("scale_packer"),
            tests=_tests("accelerator/", "scale_packer"),
        ),
        Component(
            name="scale-packets",
            config=INQ,
            files=_accelerator("scale_packets"),
            tests=_tests("accelerator/", "scale_packets"),
            proofs=("streams-of-scale-packets",),
        ),
        Component(
            name="trace-buffer",
            also=(),
            config=TRACED,
            files=_accelerator("trace_buffer"),
            tests=_tests("accelerator/", "trace_buffer"),
        ),
        Component(
            name="accelerator",
            compared=False,
            config=EVERYTHING.replace(read_request_bytes=2 * EVERYTHING.payload_bytes),
            files=_accelerator("accelerator", "merge"),
            tests=_tests(
                "system/", "totals", "tenants", "member_posts", "links", "recovery",
                "tenant_collectives", "inq", "counters",
            ),
        ),
        Component(
            name="context",
            compared=False,
            inside="accelerator",
            config=EVERYTHING,
            files=_accelerator("context", "chunks"),
            tests=(
                *_tests("accelerator/", "chunks"),
                *_tests(
                    "system/", "member_posts", "links", "recovery", "tenants",
                    "tenant_collectives", "inq", "counters",
                ),
            ),
        ),
        Component(
            name="turns",
            inside="accelerator",
            config=EVERYTHING,
            files=_accelerator("issue_turns", "read_out_turns"),
            tests=_tests("accelerator/", "turns"),
            proofs=("issue-turns", "read-out-turns", "read-out-turns-codes"),
        ),
        Component(
            name="queue",
            inside="emulated-rank",
            config=EVERYTHING,
            files=("hdl/stream.py",),
            tests=_tests("", "stream"),
            proofs=("queue", "streams-of-slice"),
        ),
        Component(
            name="packet-slice",
            inside="port",
            config=EVERYTHING,
            files=_transport("packet_slice"),
            tests=_tests("transport/", "packet_slice"),
            proofs=("streams-of-packet-slice",),
        ),
        Component(
            name="axi-slice",
            inside="emulated-rank",
            config=EVERYTHING,
            files=("hdl/axi_slice.py",),
            tests=_tests("", "axi_slice"),
        ),
        Component(
            name="route",
            inside="port",
            config=FORWARDING,
            files=_transport("route"),
            tests=_tests("transport/", "route"),
            proofs=("streams-of-route-of-writes",),
        ),
        Component(
            name="totals",
            compared=False,
            inside="switch",
            config=EVERYTHING,
            files=_accelerator("totals"),
            tests=(
                *_tests("accelerator/", "totals"),
                *_tests("system/", "port_totals", "totals"),
            ),
        ),
        Component(
            name="switch",
            compared=False,
            config=EVERYTHING,
            files=("hdl/switch.py",),
            tests=_tests(
                "system/", "port_totals", "totals", "sticky", "arrivals", "tenants", "links",
                "refusals", "counters", "ordinary",
            ),
        ),
        Component(
            name="system",
            compared=False,
            config=FORWARDING,
            files=("hdl/system.py",),
            tests=_tests("system/", "timing", "tenants", "links", "ordinary", "counters"),
        ),
        Component(
            name="axi-share",
            inside="emulated-rank",
            config=FORWARDING,
            files=_transport("axi_share"),
            tests=_tests("transport/", "axi_share"),
        ),
        Component(
            name="traffic",
            inside="emulated-rank",
            config=FORWARDING,
            files=_files("traffic/", "checker", "generator", "requester", "sequence", "words"),
            tests=_tests("traffic/", "generator", "sequence"),
        ),
        Component(
            name="emulated-rank",
            config=TENANTS,
            files=("hdl/emulated_rank.py",),
            tests=_tests("", "emulated_rank"),
        ),
        Component(
            name="emulated-memory",
            files=("hdl/emulated_memory.py", "hdl/due_queue.py"),
            tests=_tests("", "emulated_memory", "due_queue"),
            proofs=("streams-of-due-queue",),
        ),
    )
}  # fmt: skip
