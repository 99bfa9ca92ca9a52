from __future__ import annotations

import os
import signal

import pytest

from heliograph.cli import session as interrupt
from heliograph.cli.output import Output
from heliograph.cli.session import Interrupts


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_interrupt_raises_where_nothing_can_be_cancelled() -> None:
    with pytest.raises(KeyboardInterrupt), Interrupts(Output()):
        press()


def test_interrupt_cancels_what_is_under_way(capsys: pytest.CaptureFixture[str]) -> None:
    cancelled: list[bool] = []
    with Interrupts(Output()) as interrupts:
        with interrupts.cancelling(lambda: cancelled.append(True)):
            press()
        assert cancelled == [True]
        assert interrupts.is_stopping
    assert "again to stop at once" in capsys.readouterr().err


def test_second_interrupt_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(interrupt.os, "_exit", lambda code: codes.append(code))
    with Interrupts(Output()) as interrupts, interrupts.cancelling(lambda: None):
        press()
        monkeypatch.setattr(interrupts, "_cancel", lambda: None)
        press()
        assert codes == [130]


def test_handler_is_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts(Output()):
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before
