import numpy as np
import pytest


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that depend on the test's name only, so that a test gives the same result alone."""
    return np.random.default_rng(list(request.node.name.encode()))
