"""How many examples each property is asked of: few with the quick tests, many with the slow ones.

Examples are the same in every run, and nothing is kept between runs. A test that takes a share of the examples says
so by `settings(max_examples=settings.default.max_examples // 4)`.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings

FEW, MANY = 6, 200
_COMMON = {
    "deadline": None,
    "derandomize": True,
    "phases": [Phase.explicit, Phase.generate],
    "database": None,
    # A program is compiled at the first example of a shape.
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
}
settings.register_profile("few", max_examples=FEW, **_COMMON)
settings.register_profile("many", max_examples=MANY, **_COMMON)


def pytest_configure(config):
    settings.load_profile("many" if _is_slow(config) else "few")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Where slow tests are asked for, every property is one: the same test with more examples."""
    if not _is_slow(config):
        return
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.slow)


def _is_slow(config):
    return config.option.markexpr == "slow"
