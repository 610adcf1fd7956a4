"""The page of datasets says what the table of offered datasets says, bound by bound."""

import re

import pytest

from swarmd.questions.datasets import OFFERED
from swarmd.questions.parameters import Real, Whole
from tests.protocol.make_datasets import FILE, text

ROWS = dict(re.findall(r"^\| `(\w+)` (.*)$", FILE.read_text(), re.MULTILINE))


def test_the_page_is_what_the_generator_writes():
    assert FILE.read_text() == text()


def test_every_offered_dataset_is_on_the_page_and_no_other():
    assert set(ROWS) == set(OFFERED)


@pytest.mark.parametrize("name", sorted(OFFERED))
def test_a_row_says_every_bound(name):
    row, offer = ROWS[name], OFFERED[name]
    assert row.startswith("| yes |") == offer.exact_only
    for parameter, bound in offer.bounds.items():
        said = re.search(rf"`{parameter}` ([^;|]+)", row)
        assert said is not None, parameter
        if isinstance(bound, (Whole, Real)):
            low, high = said[1].strip().split(" ", 1)[1].split(" to ")
            assert (float(low), float(high)) == (bound.low, bound.high)
        for option in getattr(bound, "options", ()):
            assert f"`{option}`" in said[1]
