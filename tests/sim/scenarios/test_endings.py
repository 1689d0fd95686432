"""Which sequences of codes an expectation takes, and what several causes allow together."""

import pytest

from hdl.accelerator.layouts import Status
from sim.scenarios.endings import ABORTED, OK, Allowed, Ending, Expectation, together

TIMEOUT = Ending(Status.READ_TIMEOUT, 2)
ERROR = Ending(Status.READ_SLVERR, 1)
GONE = Ending(Status.NOT_ARRIVED, 2)
WELL = Allowed()
MAY_STOP = Allowed(frozenset({TIMEOUT}))
MUST_STOP = Allowed(frozenset({TIMEOUT}), well=False)


@pytest.mark.parametrize(
    ("orders", "endings", "right"),
    [
        ([WELL, WELL], [OK, OK], True),
        ([WELL], [TIMEOUT], False),
        ([MAY_STOP], [OK], True),
        ([MAY_STOP], [TIMEOUT], True),
        ([MAY_STOP], [Ending(Status.READ_TIMEOUT, 1)], False),  # another rank is named
        ([MAY_STOP], [ABORTED], False),
        ([MUST_STOP], [OK], False),
        ([MAY_STOP, WELL], [TIMEOUT, ABORTED], True),  # what is queued behind it
        ([MAY_STOP, WELL], [TIMEOUT, OK], False),
        ([MAY_STOP, MAY_STOP], [TIMEOUT, TIMEOUT], False),
        ([Allowed(frozenset({ERROR}), well=False), WELL], [ERROR, OK], True),  # stops nothing
    ],
)
def test_what_a_host_has_queued(orders, endings, right):
    assert (Expectation(tuple(orders)).complaint(endings) is None) == right


@pytest.mark.parametrize(
    ("endings", "right"),
    [
        ([TIMEOUT, OK], True),
        ([TIMEOUT, GONE], True),
        ([TIMEOUT, ABORTED], False),
        ([OK, GONE], False),  # nobody is out of step yet
    ],
)
def test_what_members_post(endings, right):
    expected = Expectation((MAY_STOP, MAY_STOP), in_band=True, astray=frozenset({GONE}))
    assert (expected.complaint(endings) is None) == right


def test_causes_add_up():
    both = together([MAY_STOP, Allowed(frozenset({ERROR}), well=False, written=(2, 3)), WELL])
    assert both.every == {TIMEOUT, ERROR}
    assert both.written == (2, 3)
    assert both.stops
    assert together([]).every == {OK}


def test_a_complaint_names_the_operation_and_what_it_may_end_with():
    complaint = Expectation((WELL, MAY_STOP)).complaint([OK, GONE])
    assert complaint == (
        "operation 1 ended with NOT_ARRIVED of rank 2, and may with OK, READ_TIMEOUT of rank 2"
    )
