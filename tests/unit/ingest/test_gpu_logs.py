"""GPU samples in all their dialects give the same traces."""

from __future__ import annotations

from array import array
from itertools import pairwise

import pytest

from stoker.ingest import nvidia_smi_csv, source
from stoker.model.evidence import Stage

DIALECT_A = """=== 2026-02-17 13:41:08 ===
0, 57 %, 4225 MiB, 24564 MiB, 120.10 W
1, 66 %, 2057 MiB, 24564 MiB, 99.00 W
{"done": 1, "total": 32}
add_g1_args.txt\tadd\ttrainable
current_case_note add_g1_args.txt in_progress_long
budget_progress_sec 10 / 86400

=== 2026-02-17 13:44:08 ===
0, 59 %, 4000 MiB, 24564 MiB, 120.10 W
1, 60 %, 2000 MiB, 24564 MiB, 99.00 W
current_case_note add_g1_args.txt in_progress_test

"""
DIALECT_B = """2026-02-17 13:41:08
0, 57, 4225, 24564, 120.1
1, 66, 2057, 24564, 99.0
current_case add_g1_args.txt
2026-02-17 13:44:08
0, 59, 4000, 24564, 120.1
1, 60, 2000, 24564, 99.0
current_case add_g1_args.txt
"""
DIALECT_C = """2026-02-24 15:11:39 | long | GPU0=57% mem GPU1=66%
2026-02-24 15:14:39 | long | GPU0=59% mem GPU1=60%
"""
CSV = "timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB]\n"


def utils(reading):
    return {trace.gpu: list(trace.util_pct) for trace in reading.items}


def test_monitor_with_units_keeps_case_and_stage_apart(read):
    name, reading = read(DIALECT_A)
    assert name == "monitor log"
    found = {(trace.case, trace.stage, trace.gpu): list(trace.util_pct) for trace in reading.items}
    assert found == {
        ("add_g1_args.txt", Stage.LONG, "0"): [57],
        ("add_g1_args.txt", Stage.LONG, "1"): [66],
        ("add_g1_args.txt", Stage.TEST, "0"): [59],
        ("add_g1_args.txt", Stage.TEST, "1"): [60],
    }
    assert reading.items[0].mem_peak_mib == 4225
    assert reading.items[0].mem_total_mib == 24564
    assert reading.ledger.count == 0


def test_monitor_without_units(read):
    name, reading = read(DIALECT_B)
    assert (name, utils(reading)) == ("monitor log", {"0": [57, 59], "1": [66, 60]})
    first = reading.items[0]
    assert (first.case, first.mem_peak_mib) == ("add_g1_args.txt", 4225)
    assert first.times_s[1] - first.times_s[0] == 180


def test_monitor_in_one_line(read):
    name, reading = read(DIALECT_C)
    assert (name, utils(reading)) == ("monitor log", {"0": [57, 59], "1": [66, 60]})
    assert reading.items[0].case is None
    assert reading.items[0].mem_peak_mib is None


def test_monitor_counts_rows_it_cannot_read(read):
    _, reading = read(DIALECT_A + "0, [Unknown Error], 1\n1, 101 %, 1 MiB, 2 MiB\n")
    assert [bad.why for bad in reading.ledger.kept] == [
        "a GPU row that cannot be read",
        "utilisation outside 0-100",
    ]
    assert reading.ledger.kept[0].line == 14


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_bench_samples_split_on_a_literal_backslash_n(read, newline):
    sample = "27.0,4000.0,24564.0,148.44,30.0,4100.0,24564.0,117.98"
    name, reading = read(("\\n".join([sample] * 3)) + newline + sample + "\\n")
    assert name == "bench GPU samples"
    assert utils(reading) == {"0": [27] * 4, "1": [30] * 4}
    assert (reading.items[1].mem_peak_mib, reading.items[1].warm_up_samples) == (4100, 0)


def test_bench_samples_mark_the_20_that_the_bench_drops(read):
    _, reading = read("\\n".join(["1,2,3000,4,5,6,7000,8"] * 21))
    assert reading.items[0].warm_up_samples == 20


def csv_rows(count, *, units=True):
    forms = ("{} %", "{} MiB", "24564 MiB") if units else ("{}", "{}", "24564")
    for second in range(count):
        for gpu in range(2):
            util, used = forms[0].format(second % 100), forms[1].format(4000 + second)
            yield f"2026/02/17 13:00:{second % 60:02}.5, {gpu}, {util}, {used}, {forms[2]}\n"


@pytest.mark.parametrize("units", [True, False])
@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("polls", [3, 60])
def test_nvidia_smi_csv_long_or_short_with_or_without_units_and_header(read, units, header, polls):
    name, reading = read((CSV if header else "") + "".join(csv_rows(polls, units=units)))
    assert name == "nvidia-smi CSV"
    assert utils(reading) == {"0": list(range(polls)), "1": list(range(polls))}
    assert reading.items[0].mem_peak_mib == 4000 + polls - 1
    assert reading.items[0].mem_total_mib == 24564
    assert reading.items[0].times_s[1] - reading.items[0].times_s[0] == 1
    assert bool(reading.notes) is not header  # a guess is said to be one


def test_a_bad_line_in_a_long_csv_costs_one_line_and_is_numbered(read):
    rows = list(csv_rows(59))
    rows.insert(70, "Unable to determine the device handle\n")
    rows.insert(80, "2026/02/17 13:00:00.5, 0, 400 %, 1 MiB, 2 MiB\n")
    _, reading = read(CSV + "".join(rows))
    assert [bad.line for bad in reading.ledger.kept] == [72, 82]
    assert [len(trace.util_pct) for trace in reading.items] == [59, 59]


def test_blocks_that_begin_in_the_middle_of_a_poll_keep_every_gpu_on_its_clock(read, monkeypatch):
    rows = list(csv_rows(60))
    cuts = [rows[:65], rows[65:]]  # the second block begins with GPU 1
    blocks = ["".join(cut).encode() for cut in cuts]
    monkeypatch.setattr(source.Source, "blocks", lambda self: iter([CSV.encode() + blocks[0], blocks[1]]))
    monkeypatch.setattr(nvidia_smi_csv, "_FEWEST_ROWS", 16)
    _, reading = read(CSV + "".join(rows))
    assert [len(trace.times_s) for trace in reading.items] == [60, 60]
    for trace in reading.items:
        assert {later - earlier for earlier, later in pairwise(trace.times_s)} == {1.0}


def test_an_absent_figure_is_nan_and_no_bad_line(read):
    text = CSV + "".join(csv_rows(40)).replace(" 7 %", " [N/A]")
    _, reading = read(text)
    assert reading.ledger.count == 0
    assert sum(value != value for value in reading.items[0].util_pct) == 1


def test_csv_without_a_gpu_column_tells_gpus_by_their_order_in_a_poll(read):
    header = "timestamp, utilization.gpu [%], memory.used [MiB]\n"
    rows = "".join(f"2026/02/17 13:00:0{s}, {10 * g + s} %, 100 MiB\n" for s in range(3) for g in range(2))
    _, reading = read(header + rows)
    assert utils(reading) == {"0": [0, 1, 2], "1": [10, 11, 12]}


DMON = "# gpu     sm    mem    enc    dec     fb   bar1\n# Idx      %      %      %      %     MB     MB\n"


@pytest.mark.parametrize("polls", [2, 100])
def test_dmon_without_a_clock_counts_seconds(read, polls):
    rows = [DMON if poll % 10 == 0 else "" for poll in range(polls)]
    text = "".join(
        head
        + f"    0    {poll % 90}     12      0      0   4225     12\n"
        + "    1     -     12      0      0   2057     12\n"
        for poll, head in enumerate(rows)
    )
    name, reading = read(text)
    assert name == "nvidia-smi dmon"
    assert list(reading.items[0].util_pct) == [poll % 90 for poll in range(polls)]
    assert all(value != value for value in reading.items[1].util_pct)
    assert (reading.items[0].poll_s, reading.items[0].times_s) == (1.0, None)
    assert reading.items[0].mem_peak_mib == 4225


def test_dmon_with_a_column_named_twice(read):
    _, reading = read("# gpu gpu sm  mem   fb\n# Idx    %    %   MB\n" + "    0   45   12 4225\n" * 3)
    assert not reading.items
    assert reading.ledger.count == 3


def test_dmon_with_date_and_time(read):
    head = "#Date       Time        gpu     sm     fb\n#YYYYMMDD   HH:MM:SS    Idx      %     MB\n"
    rows = "".join(
        f" 20260217   13:41:{second:02}      0     {second}   4225\n" for second in range(0, 60, 2)
    )
    _, reading = read(head + rows + " 20260217   13:42:00      0     x   4225\n")
    assert reading.items[0].times_s[1] - reading.items[0].times_s[0] == 2
    assert reading.ledger.count == 1


def test_the_drawn_table_of_nvidia_smi(read):
    one = """Mon Feb 17 13:41:0{s} 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 4090        Off |   00000000:01:00.0 Off |                  Off |
| 30%   45C    P2            120W /  450W |    4225MiB /  24564MiB |     {u}%      Default |
"""
    name, reading = read(one.format(s=0, u=57) + one.format(s=5, u=59))
    assert (name, utils(reading)) == ("nvidia-smi table", {"0": [57, 59]})
    assert (reading.items[0].mem_peak_mib, reading.items[0].times_s) == (
        4225,
        array("d", reading.items[0].times_s),
    )
    assert reading.items[0].times_s[1] - reading.items[0].times_s[0] == 5


def test_utf16_of_a_powershell_redirect(read):
    name, reading = read((CSV + "".join(csv_rows(3))).encode("utf-16"))
    assert (name, utils(reading)["0"]) == ("nvidia-smi CSV", [0, 1, 2])
