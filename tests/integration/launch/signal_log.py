"""A command that writes down each signal it gets as `NAME sender`, and ends on SIGUSR2 with code 7."""

from __future__ import annotations

import os
import signal
import sys

KERNEL = 0x80
HEARD = {
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
}

signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(log, b"ready\n")
while True:
    event = signal.sigwaitinfo(HEARD)
    sender = "kernel" if event.si_code == KERNEL else "process"
    os.write(log, f"{signal.Signals(event.si_signo).name} {sender}\n".encode())
    if event.si_signo == signal.SIGUSR2:
        sys.exit(7)
