from __future__ import annotations

import pytest

from stoker.outside import host, pressure
from stoker.outside.host import CoreTicks, Traffic

STAT = """cpu  100 10 50 800 40 0 0 0 0 0
cpu0 90 0 10 100 0 0 0 0 0 0
cpu1 10 10 40 700 40 0 0 0 0 0
intr 1 2 3
procs_running 3
procs_blocked 1
"""


def test_machine_stat() -> None:
    stat = host.parse_stat(STAT)
    assert stat is not None
    assert stat.whole == CoreTicks(busy=160, iowait=40, total=1000)
    assert stat.cores[0] == CoreTicks(100, 0, 200)
    assert (stat.running, stat.blocked) == (3, 1)


def test_shares_between_two_looks() -> None:
    before, after = CoreTicks(100, 10, 1000), CoreTicks(150, 30, 1100)
    assert host.busy_pct(before, after) == 50.0
    assert host.iowait_pct(before, after) == 20.0


def test_counters_that_run_backwards_stay_in_bounds() -> None:
    before, after = CoreTicks(100, 30, 1000), CoreTicks(90, 10, 1010)
    assert host.busy_pct(before, after) == 0.0
    assert host.iowait_pct(before, after) == 0.0
    assert host.busy_pct(after, after) is None, "no time has passed: nothing is known"


@pytest.mark.parametrize("text", ["", "garbage", "cpu x y z", "cpu 1 2"])
def test_machine_stat_garbage(text: str) -> None:
    assert host.parse_stat(text) is None


def test_meminfo() -> None:
    text = (
        "MemTotal: 1000 kB\nMemAvailable:    600 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\nHugePages_Total: 0\n"
    )
    assert host.parse_meminfo(text) == host.Memory(1024000, 614400, 30720)
    assert host.parse_meminfo("") == host.Memory(None, None, None)


def test_whole_disks_are_counted_once() -> None:
    line = "{} 0 {} 1 0 {} 0 1 0 {} 0 0 0 0\n"
    names = ["sda", "sda1", "nvme0n1", "nvme0n1p2", "dm-0", "md127", "loop3", "vdb"]
    text = "".join(line.format(8, name, 10, 20) for name in names)
    assert host.parse_diskstats(text) == Traffic(3 * 10 * 512, 3 * 20 * 512)
    assert host.parse_diskstats("") is None
    assert host.parse_diskstats("8 0 sda x x x x x x x\n") is None


def test_network_without_loopback() -> None:
    head = "Inter-|   Receive  |  Transmit\n face |bytes packets errs\n"
    lo = "    lo: 999 1 0 0 0 0 0 0 999 1 0 0 0 0 0 0\n"
    eth = "  eth0: 100 1 0 0 0 0 0 0 40 1 0 0 0 0 0 0\n"
    assert host.parse_net_dev(head + lo + eth) == Traffic(100, 40)
    assert host.parse_net_dev(head + lo) is None


def test_disk_bytes_of_a_process() -> None:
    text = "rchar: 9\nwchar: 9\nread_bytes: 4096\nwrite_bytes: 512\ncancelled_write_bytes: 0\n"
    assert host.parse_process_io(text) == Traffic(4096, 512)
    assert host.parse_process_io("") is None


def test_load() -> None:
    assert host.parse_loadavg("1.25 0.5 0.1 2/300 4312\n") == 1.25
    assert host.parse_loadavg("") is None


def test_pressure() -> None:
    text = "some avg10=1.22 avg60=0.47 avg300=0.22 total=4500000\nfull avg10=0.00 avg60=0.00 total=1000000\n"
    assert pressure.parse(text) == pressure.Pressure(4.5, 1.0)


@pytest.mark.parametrize("text", ["", "garbage", "some avg10=1"])
def test_no_pressure_is_not_zero_pressure(text: str) -> None:
    assert pressure.parse(text) == pressure.NOT_MEASURED


def test_an_old_kernel_knows_no_full_pressure_of_the_cpu() -> None:
    assert pressure.parse("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n") == pressure.Pressure(0.0, None)
