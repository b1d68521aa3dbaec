from __future__ import annotations

import pytest

from stoker.outside import cgroup

V2_MOUNTS = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNTS = (
    "25 24 0:22 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n"
    "30 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "31 25 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)
MIXED_MOUNTS = V1_MOUNTS + "32 25 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"


def test_version_2_with_parents() -> None:
    place = cgroup.place_of("cpu", "0::/user.slice/job.scope\n", V2_MOUNTS)
    assert place == cgroup.Place(
        2, ("/sys/fs/cgroup/user.slice/job.scope", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup")
    )


def test_version_1() -> None:
    membership = "4:memory:/job\n3:cpu,cpuacct:/slurm/job_7\n"
    place = cgroup.place_of("cpu", membership, V1_MOUNTS)
    assert place is not None
    assert place.version == 1
    assert place.folders[0] == "/sys/fs/cgroup/cpu,cpuacct/slurm/job_7"
    memory = cgroup.place_of("memory", membership, V1_MOUNTS)
    assert memory is not None
    assert memory.folders[0] == "/sys/fs/cgroup/memory/job"


def test_mixed_layout_takes_the_controller_from_version_1() -> None:
    place = cgroup.place_of("cpu", "3:cpu,cpuacct:/a\n0::/b\n", MIXED_MOUNTS)
    assert place is not None
    assert place.version == 1


def test_a_container_sees_a_part_of_the_tree() -> None:
    """Docker without a cgroup namespace: the path is the host's, the mount shows our part alone."""
    mounts = "30 25 0:27 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
    place = cgroup.place_of("cpu", "3:cpu:/docker/abc\n", mounts)
    assert place == cgroup.Place(1, ("/sys/fs/cgroup/cpu",))
    inner = cgroup.place_of("cpu", "3:cpu:/docker/abc/train\n", mounts)
    assert inner is not None
    assert inner.folders[0] == "/sys/fs/cgroup/cpu/train"
    elsewhere = cgroup.place_of("cpu", "3:cpu:/other\n", mounts)
    assert elsewhere == cgroup.Place(1, ("/sys/fs/cgroup/cpu",))


def test_a_path_above_our_namespace_stays_within_the_mount() -> None:
    place = cgroup.place_of("cpu", "0::/../../etc\n", V2_MOUNTS)
    assert place == cgroup.Place(2, ("/sys/fs/cgroup",))


@pytest.mark.parametrize(
    ("membership", "mounts"), [("", ""), ("0::/a\n", ""), ("", V2_MOUNTS), ("garbage", "garbage - x")]
)
def test_absent(membership: str, mounts: str) -> None:
    assert cgroup.place_of("cpu", membership, mounts) is None


@pytest.mark.parametrize(
    ("text", "cores"),
    [("200000 100000\n", 2.0), ("50000 100000\n", 0.5), ("max 100000\n", None), ("", None), ("x y z", None)],
)
def test_quota_of_version_2(text: str, cores: float | None) -> None:
    assert cgroup.parse_quota_v2(text) == cores


@pytest.mark.parametrize(
    ("quota", "period", "cores"),
    [("150000\n", "100000\n", 1.5), ("-1\n", "100000\n", None), ("", "", None), ("100", "0", None)],
)
def test_quota_of_version_1(quota: str, period: str, cores: float | None) -> None:
    assert cgroup.parse_quota_v1(quota, period) == cores


def test_throttling_in_the_units_of_both_versions() -> None:
    v2 = "usage_usec 9\nnr_periods 10\nnr_throttled 4\nthrottled_usec 2500000\n"
    v1 = "nr_periods 10\nnr_throttled 4\nthrottled_time 2500000000\n"
    expected = cgroup.Throttling(10, 4, 2.5)
    assert cgroup.parse_throttling(v2) == expected
    assert cgroup.parse_throttling(v1) == expected
    assert cgroup.parse_throttling("usage_usec 9\n") is None


def test_no_limit_on_memory_is_none_not_a_huge_number() -> None:
    assert cgroup.parse_bytes("1073741824\n") == 2**30
    assert cgroup.parse_bytes("max\n") is None
    assert cgroup.parse_bytes("9223372036854771712\n") is None
    assert cgroup.parse_bytes("") is None


def test_the_tightest_limit_on_the_way_up_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "/proc/7/cgroup": "0::/slice/job\n",
        "/proc/7/mountinfo": V2_MOUNTS,
        "/sys/fs/cgroup/slice/job/cpu.max": "800000 100000",
        "/sys/fs/cgroup/slice/cpu.max": "400000 100000",
        "/sys/fs/cgroup/slice/cpu.stat": "nr_periods 3\nnr_throttled 1\nthrottled_usec 10\n",
        "/sys/fs/cgroup/slice/job/memory.max": "4096",
        "/sys/fs/cgroup/slice/job/memory.current": "2048",
    }
    monkeypatch.setattr(cgroup, "read_text", files.get)
    group = cgroup.find(7)
    assert (group.version, group.quota_cores, group.memory_limit_bytes) == (2, 4.0, 4096)
    assert group.throttling() == cgroup.Throttling(3, 1, 1e-05)
    assert group.memory_used_bytes() == 2048


def test_without_cgroups_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "read_text", lambda path: None)
    group = cgroup.find(7)
    assert group == cgroup.NO_CGROUP
    assert group.throttling() is None
    assert group.memory_used_bytes() is None
