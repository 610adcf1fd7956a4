"""Under pytest, everything in this folder carries the mark `gpu`; the tests themselves do not know pytest."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.gpu)
