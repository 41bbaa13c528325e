import torch

from naq import device


def test_a_share_of_what_is_free(monkeypatch):
    monkeypatch.setattr(device, "_machine", lambda: 10e9)
    monkeypatch.setattr(device, "_group", lambda: float("inf"))
    assert device.free_bytes(torch.device("cpu")) == device.SHARE * 10e9
    monkeypatch.setattr(device, "_group", lambda: 4e9)
    assert device.free_bytes(torch.device("cpu")) == device.SHARE * 4e9


def test_limits_of_a_container(tmp_path):
    assert device._group(str(tmp_path)) == float("inf"), "no files, no limit"
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert device._group(str(tmp_path)) == float("inf")
    (tmp_path / "memory.max").write_text("5000\n")
    assert device._group(str(tmp_path)) == 4000


def test_this_machine_has_some():
    assert 1e7 < device._machine() < 1e14


def test_pages_are_kept_and_arithmetic_stays_the_same():
    before = torch.ones(1 << 21).cumsum(0)
    kept = device.keep_pages()
    assert kept or not device.Path("/proc/meminfo").exists()
    assert torch.equal(torch.ones(1 << 21).cumsum(0), before)
