"""What all tests share: the switch that rewrites golden files."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

# A shell starts background jobs with the first two ignored, nohup the third: every process of a test would
# inherit that.
_USUAL = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGQUIT: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}
for _number, _usual in _USUAL.items():
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)` compares with tests/golden/name, or writes it under --update-golden."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), (
            f"{name} differs; if it should, run with --update-golden"
        )

    return compare


@pytest.fixture
def recordings() -> Path:
    return Path(__file__).parent / "recordings" / "classify"
