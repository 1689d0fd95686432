"""Constraints of every board against the pins and clocks that amaranth-boards states."""

import json
import re

import pytest
from amaranth import Module
from amaranth.build import Attrs, Clock, Pins, Subsignal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from fpga import top
from fpga.boards import BOARDS
from fpga.indicator import LEDS
from hdl.config import SwitchConfig

VIVADO = ["arty", "arty-alone", "arty-100"]
#: Ports of a board's top that are not LEDs: one of each board's clock, reset, UART and button.
PORTS = {
    "arty": ["clk100_0__io", "rst_0__io", "button_0__io"],
    "arty-alone": ["clk100_0__io", "rst_0__io", "button_0__io"],
    "arty-100": ["clk100_0__io", "rst_0__io", "button_0__io"],
    "ulx3s-85f": ["clk25_0__io", "button_fire_0__io"],
    "ecpix5-85f": ["clk100_0__io", "rst_0__io"],
}
UART = ["uart_0__rx__io", "uart_0__tx__io"]
PLAIN_LEDS = [f"led_{number}__io" for number in range(len(LEDS))]
LED_PORTS = {
    "ecpix5-85f": [f"rgb_led_{number}__{c}__io" for number in range(len(LEDS)) for c in "rgb"]
}


class Wires(wiring.Component):
    """Instead of a board's design: the same ports, and no logic."""

    def __init__(self, config, *, host=True):
        self._host = host
        lines = {"rx": In(1), "tx": Out(1)} if host else {}
        super().__init__({**lines, "button": In(1), "leds": Out(len(LEDS))})

    def elaborate(self, platform):
        m = Module()
        if self._host:
            m.d.comb += self.tx.eq(self.rx)
        m.d.sync += self.leds.eq(self.leds + self.button)
        return m


@pytest.fixture(scope="module")
def plans():
    """Files of a board's plan by name of the board, with `Wires` in it."""
    made = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(top, "BoardCore", Wires)
        for name, board in BOARDS.items():
            files = board.plan(SwitchConfig.preset(board.preset)).files
            made[name] = {
                file: text.decode() if isinstance(text, bytes) else text
                for file, text in files.items()
            }
    return made


def stated(platform) -> tuple[dict[str, tuple[str, dict]], dict[str, float]]:
    """By port: its pin and attributes, of every single-pin resource; and the clocks in Hz."""
    pins, clocks = {}, {}

    def walk(node, name, attributes):
        attributes = dict(attributes)
        for part in node.ios:
            if isinstance(part, Attrs):
                attributes.update(part)
        attributes.update(getattr(node, "attrs", {}))
        for part in node.ios:
            if isinstance(part, Subsignal):
                walk(part, f"{name}__{part.name}", attributes)
            elif isinstance(part, Pins) and len(part.names) == 1:
                pins[f"{name}__io"] = part.names[0], attributes
        if isinstance(getattr(node, "clock", None), Clock):
            clocks[f"{name}__io"] = node.clock.frequency

    for resource in platform.resources.values():
        walk(resource, f"{resource.name}_{resource.number}", {})
    return pins, clocks


def parse_xdc(text: str):
    """Pins, attributes and clock frequencies by port."""
    pins, attributes = {}, {}
    for key, value, port in re.findall(
        r'^set_property (\w+) "?(\w+)"? \[get_ports "(\w+)"\]$', text, re.MULTILINE
    ):
        if key == "LOC":
            assert port not in pins, f"{port} twice"
            pins[port] = value
        else:
            attributes.setdefault(port, {})[key] = value
    clocks = {
        port: 1e9 / float(period)
        for period, port in re.findall(
            r'^create_clock .*-period ([\d.]+) \[get_nets "(\w+)"\]$', text, re.MULTILINE
        )
    }
    return pins, attributes, clocks


def parse_lpf(text: str):
    """The same of Lattice's form."""
    located = re.findall(r'^LOCATE COMP "(\w+)" SITE "(\w+)";$', text, re.MULTILINE)
    assert len(dict(located)) == len(located), "a port twice"
    attributes = {
        port: dict(pair.split("=") for pair in pairs.split())
        for port, pairs in re.findall(r'^IOBUF PORT "(\w+)" (.*);$', text, re.MULTILINE)
    }
    clocks = {
        port: float(hertz)
        for port, hertz in re.findall(r'^FREQUENCY PORT "(\w+)" ([\d.]+) HZ;$', text, re.MULTILINE)
    }
    return dict(located), attributes, clocks


PARSERS = {"top.xdc": parse_xdc, "top.lpf": parse_lpf}


@pytest.mark.parametrize("name", BOARDS)
def test_every_port_has_the_pin_that_amaranth_boards_states(plans, name):
    board = BOARDS[name]
    pins, attributes, clocks = PARSERS[board.constraints](plans[name][board.constraints])
    uart = UART if board.host else []
    ports = [*PORTS[name], *uart, *LED_PORTS.get(name, PLAIN_LEDS)]
    assert sorted(pins) == sorted(ports)
    known, frequencies = stated(board.platform())
    for port in ports:
        pin, wanted = known[port]
        assert pins[port] == pin
        assert attributes[port] == wanted, port
    assert len(set(pins.values())) == len(pins), "two ports at one pin"
    oscillator = PORTS[name][0]
    assert clocks == {oscillator: pytest.approx(frequencies[oscillator])}


@pytest.mark.parametrize("name", BOARDS)
def test_constraints_and_verilog_name_the_same_ports(plans, name):
    board, files = BOARDS[name], plans[name]
    pins, _attributes, _clocks = PARSERS[board.constraints](files[board.constraints])
    if "top.v" in files:
        header = re.search(r"^module top\((.*?)\);$", files["top.v"], re.MULTILINE | re.DOTALL)
        ports = re.findall(r"[\w]+", header[1])
    else:
        whole = files["top.il"].split("\nmodule \\top\n", 1)[1].split("\nend\n", 1)[0]
        ports = re.findall(
            r"^  wire width 1 (?:input|output|inout) \d+ +\\(\w+)$", whole, re.MULTILINE
        )
    assert sorted(ports) == sorted(pins)


@pytest.mark.parametrize("name", ["ulx3s-85f", "ecpix5-85f"])
def test_the_plls_clock_is_the_presets(plans, name):
    board = BOARDS[name]
    hertz = re.search(r'^FREQUENCY NET "pll_clock" ([\d.]+) HZ;$', plans[name]["top.lpf"], re.M)
    assert float(hertz[1]) == SwitchConfig.preset(board.preset).clock_hz


@pytest.mark.parametrize("name", VIVADO)
def test_vivados_script_builds_for_the_boards_device(plans, name):
    tcl = plans[name]["top.tcl"]
    assert f"-part {BOARDS[name].device}" in tcl
    for command in (
        "read_xdc top.xdc", "synth_design -top top", "place_design", "route_design",
        "report_timing_summary -datasheet", "write_bitstream -force -bin_file top.bit",
    ):  # fmt: skip
        assert re.search(f"^{command}\\b", tcl, re.MULTILINE), command
    assert re.search(r"^add_files .*top\.v$", tcl, re.MULTILINE)
    assert "top.tcl" in plans[name]["build_top.sh"]


@pytest.mark.parametrize("name", ["ulx3s-85f", "ecpix5-85f"])
def test_open_tools_place_for_the_boards_device(plans, name):
    commands = json.loads(plans[name]["build_top.json"])["commands"]
    (place,) = [arguments for command, *arguments in commands if command == "nextpnr-ecp5"]
    options = {
        "ulx3s-85f": ("--85k", "CABGA381", "6"),
        "ecpix5-85f": ("--um5g-85k", "CABGA554", "8"),
    }
    size, package, speed = options[name]
    assert size in place
    assert place[place.index("--package") + 1] == package
    assert place[place.index("--speed") + 1] == speed


@pytest.mark.parametrize("name", VIVADO)
def test_a_wrong_pin_would_be_found(plans, name):
    """The comparison can fail: one pin moved to its neighbour's place is not what is stated."""
    pins, _attributes, _clocks = parse_xdc(plans[name]["top.xdc"].replace("LOC H5", "LOC J5"))
    known, _frequencies = stated(BOARDS[name].platform())
    assert pins["led_0__io"] != known["led_0__io"][0]
