"""Appends rows to this process's files. One `os.write` per row, so a kill leaves at most one torn line.

A full disk or a vanished folder never reaches the training: rows are dropped, counted, and the count is
written as soon as writing works again.
"""

import json
import os

from . import wire
from .ticks import TICK_HEADER

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)


class File:
    """Held open. A script may close all descriptors there are (a daemon does), and open files of its own
    under our number: so ours is looked at before each use, and opened again where it is another's by now."""

    def __init__(self, path, flags=_FLAGS):
        self.path = path
        self._take(flags)

    def _take(self, flags):
        self.descriptor = os.open(self.path, flags, 0o644)
        self.identity = _identity(self.descriptor)

    def is_ours(self):
        try:
            return _identity(self.descriptor) == self.identity
        except OSError:
            return False

    def number(self):
        if not self.is_ours():
            self._take(_FLAGS)
        return self.descriptor

    def close(self):
        if self.is_ours():
            os.close(self.descriptor)


def _identity(descriptor):
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def _plainly(function, *args):
    return function(*args)


class Writer:
    def __init__(self, folder):
        self.calling = _plainly  # a write may hang, on a server that does not answer
        self.folder = os.path.join(folder, "inside")
        self.stem = None
        self.stream = None
        self.lost = 0
        self.ticks = {}
        self.slow_rows = 0
        self.tail_turn = 0
        self.first_since = self.tail_since = None

    def open(self, header):
        """Take a name nobody has (a PID comes back within days) and write the header."""
        os.makedirs(self.folder, exist_ok=True)
        if sum(name.endswith(".jsonl") for name in os.listdir(self.folder)) >= wire.PROCESSES_MAX:
            raise OSError("more than %d processes recorded" % wire.PROCESSES_MAX)
        for number in range(1000):
            stem = os.path.join(self.folder, "%d-%d" % (os.getpid(), number))
            try:
                self.stream = File(stem + ".jsonl", _FLAGS | os.O_EXCL)
            except FileExistsError:
                continue
            self.stem = stem
            self.row(wire.HEADER, header)
            return

    def row(self, kind, content):
        content = dict(content, k=kind)
        self._append(self.stream, json.dumps(content, separators=(",", ":")) + "\n")

    def shared_row(self, name, content):
        """One line into a file that several processes append to."""
        file = File(os.path.join(self.folder, name))
        try:
            if os.fstat(file.descriptor).st_size < wire.SHARED_BYTES_MAX:
                self._append(file, json.dumps(content, separators=(",", ":")) + "\n")
        finally:
            file.close()

    def side_file(self, name, text):
        """A file of its own beside the rows, whole; returns its name."""
        if self.stem is None:
            raise OSError("nothing is recorded of this process")
        path = "%s.%s.tsv" % (self.stem, name)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
        return os.path.basename(path)

    def _append(self, file, text):
        if file is None:
            return
        try:
            data = text.encode("utf-8", "backslashreplace")
            descriptor = file.number()
            written = self.calling(os.write, descriptor, data)
            if written < len(data):  # the disk filled up half-way: end the torn line when it can be ended
                self.lost += 1
                os.write(descriptor, b"\n")
        except OSError:
            self.lost += 1

    def report_lost(self):
        if self.lost and self.stream is not None:
            lost, self.lost = self.lost, 0
            self.row(wire.LOST, {"rows": lost})
            if self.lost:  # that row was lost too
                self.lost += lost

    # -- ticks -----------------------------------------------------------------------------------------

    def tick_rows(self, ticks, median_s):
        """`ticks`: (end, duration, line of text), oldest first."""
        if not ticks or self.stem is None:
            return
        lines = "".join([line for _, _, line in ticks])
        start, end = ticks[0][0], ticks[-1][0]
        if self.first_since is None:
            self.first_since = start
        if start - self.first_since <= wire.FIRST_S:
            self._append(self._tick_file("first"), lines)
        self._append(self._tick_file(self._tail_name(start, end)), lines)
        limit = median_s * wire.SLOW_FACTOR if median_s else float("inf")
        slow = [line for _, duration, line in ticks if duration > limit]
        if slow and self.slow_rows < wire.SLOW_ROWS_MAX:
            self.slow_rows += len(slow)
            self._append(self._tick_file("slow"), "".join(slow))

    def _tail_name(self, start, end):
        """The files take turns; those not in use hold the ten minutes before."""
        if self.tail_since is None:
            self.tail_since = start
        elif end - self.tail_since > wire.TAIL_S:
            self.tail_turn = (self.tail_turn + 1) % len(wire.TAILS)
            self.tail_since = start
            name = wire.TAILS[self.tail_turn]
            if self.ticks.get(name) is not None:
                try:
                    os.ftruncate(self.ticks[name].number(), 0)
                    self._append(self.ticks[name], TICK_HEADER)
                except OSError:
                    self.lost += 1
        return wire.TAILS[self.tail_turn]

    def _tick_file(self, name):
        if name not in self.ticks:
            try:
                self.ticks[name] = File("%s.%s.tsv" % (self.stem, name))
                self._append(self.ticks[name], TICK_HEADER)
            except OSError:
                self.lost += 1
                return None
        return self.ticks[name]

    def close(self):
        for file in [self.stream, *self.ticks.values()]:
            if file is not None:
                try:
                    file.close()
                except OSError:
                    pass
        self.stream, self.ticks = None, {}
