"""The virtual channels of a link: what one end may send, the other has room for."""

import pytest

from hdl.config import CORES, PRESETS, SwitchConfig
from hdl.interfaces import VIRTUAL_CHANNELS, MessageClass, virtual_channel
from hdl.transport import channels

CONFIGS = {name: SwitchConfig.preset(name) for name in PRESETS}
CONFIGS |= {f"tiny, core {core}": SwitchConfig.preset("tiny", core=core) for core in CORES}
each_preset = pytest.mark.parametrize("config", CONFIGS.values(), ids=list(CONFIGS))


def test_every_class_has_two_channels_of_its_own():
    numbers = {virtual_channel(c, inc) for c in MessageClass for inc in (False, True)}
    assert numbers == set(range(VIRTUAL_CHANNELS))


@each_preset
@pytest.mark.parametrize(
    ("receives", "credits"),
    [
        (channels.endpoint_channels, channels.credits_to_rank),
        (channels.port_channels, channels.credits_to_switch),
    ],
)
def test_credits_are_the_room_at_the_other_end(config, receives, credits):
    """A queue's depth is exactly what its sender starts with; a channel without one sinks."""
    rooms, given = receives(config), credits(config)
    assert rooms.keys() == given.keys()
    for number, room in rooms.items():
        assert given[number] == room or room == 0
        assert given[number] > 0


@each_preset
@pytest.mark.parametrize(
    ("sources", "credits"),
    [
        (channels.endpoint_sources, channels.credits_to_switch),
        (channels.accelerator_sources, channels.credits_to_rank),
        (channels.core_sources, channels.credits_to_rank),
    ],
)
def test_every_source_can_send_its_longest_packet(config, sources, credits):
    for source in sources(config):
        assert credits(config)[source.channel] >= config.header_flits + source.payload_flits


@each_preset
def test_full_rate_channels_have_credits_for_a_round_trip(config):
    """Flits that are under way, there and back, at the longest latency that is built."""
    trip = 2 * config.link_latency_max
    assert channels.credits_to_rank(config)[channels.WRITE_DATA] > trip
    assert channels.credits_to_switch(config)[channels.READ_DATA] > trip
    packets = trip / config.packet_flits
    requests = channels.credits_to_rank(config)[channels.READ_REQUEST] / config.header_flits
    answers = channels.credits_to_switch(config)[channels.WRITE_RESPONSE] / config.header_flits
    # Beside each packet of data to the rank goes a request, so their rate is lower by a header.
    assert requests >= packets * config.packet_flits / (config.packet_flits + config.header_flits)
    assert answers >= packets * config.packet_flits / (config.packet_flits + config.header_flits)


def test_without_a_core_links_have_no_ordinary_channels():
    config = SwitchConfig.preset("tiny", core="none")
    ordinary = {virtual_channel(c, False) for c in MessageClass}
    for table in (channels.endpoint_channels, channels.port_channels, channels.credits_to_rank,
                  channels.credits_to_switch):  # fmt: skip
        assert not ordinary & set(table(config))
    assert not channels.core_sources(config)
