"""Against printed tables of Student's t."""

from __future__ import annotations

import math

import pytest

from stoker.trials.ab.student import two_sided_p, two_sided_t

TABLE = {  # degrees of freedom: t for a two-sided p of 0.10, 0.05, 0.02, 0.01, 0.001
    1: (6.3138, 12.7062, 31.8205, 63.6567, 636.6192),
    2: (2.9200, 4.3027, 6.9646, 9.9248, 31.5991),
    3: (2.3534, 3.1824, 4.5407, 5.8409, 12.9240),
    4: (2.1318, 2.7764, 3.7469, 4.6041, 8.6103),
    5: (2.0150, 2.5706, 3.3649, 4.0321, 6.8688),
    7: (1.8946, 2.3646, 2.9980, 3.4995, 5.4079),
    8: (1.8595, 2.3060, 2.8965, 3.3554, 5.0413),
    15: (1.7531, 2.1314, 2.6025, 2.9467, 4.0728),
    30: (1.6973, 2.0423, 2.4573, 2.7500, 3.6460),
    120: (1.6577, 1.9799, 2.3578, 2.6174, 3.3735),
}


@pytest.mark.parametrize("freedom", TABLE)
def test_quantiles_are_those_of_the_tables(freedom: int) -> None:
    for p, expected in zip((0.10, 0.05, 0.02, 0.01, 0.001), TABLE[freedom], strict=True):
        assert two_sided_t(p, freedom) == pytest.approx(expected, abs=6e-5 * max(1.0, expected))


@pytest.mark.parametrize("freedom", [1, 2, 7, 100, 100_000])
def test_p_and_t_are_each_others_inverse(freedom: int) -> None:
    for p in (1e-6, 0.003, 0.2, 0.9):
        assert two_sided_p(two_sided_t(p, freedom), freedom) == pytest.approx(p, rel=1e-8)


def test_closed_forms() -> None:
    assert two_sided_p(1.0, 1) == pytest.approx(0.5, rel=1e-12)  # Cauchy
    assert two_sided_p(2.0, 2) == pytest.approx(1 - 2 / math.sqrt(6), rel=1e-12)
    assert two_sided_p(0.0, 5) == 1.0
    assert two_sided_p(-3.0, 5) == two_sided_p(3.0, 5)
    assert two_sided_p(math.inf, 5) == 0.0


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        two_sided_t(0.0, 3)
    with pytest.raises(ValueError, match="degree of freedom"):
        two_sided_p(1.0, 0)
