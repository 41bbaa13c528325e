import torch

from naq import device as memory


def test_a_share_of_what_is_free(monkeypatch):
    monkeypatch.setattr(memory, "_machine", lambda: 10e9)
    monkeypatch.setattr(memory, "_group", lambda: float("inf"))
    assert memory.free_bytes(torch.device("cpu")) == memory.SHARE * 10e9
    monkeypatch.setattr(memory, "_group", lambda: 4e9)
    assert memory.free_bytes(torch.device("cpu")) == memory.SHARE * 4e9


def test_limits_of_a_container(tmp_path):
    assert memory._group(str(tmp_path)) == float("inf"), "no files, no limit"
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert memory._group(str(tmp_path)) == float("inf")
    (tmp_path / "memory.max").write_text("5000\n")
    assert memory._group(str(tmp_path)) == 4000


def test_this_machine_has_some():
    assert 1e7 < memory._machine() < 1e14


def test_pages_are_kept_and_arithmetic_stays_the_same():
    before = torch.ones(1 << 21).cumsum(0)
    kept = memory.keep_pages()
    assert kept or not memory.Path("/proc/meminfo").exists()
    assert torch.equal(torch.ones(1 << 21).cumsum(0), before)
