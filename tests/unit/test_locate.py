"""Where libraries of Python packages are looked for."""

from __future__ import annotations

import sys

from cclmark.run.locate import wheel_files


def test_a_wheel_laid_out_for_the_environment_is_found_without_others(tmp_path, monkeypatch):
    (tmp_path / "lib").mkdir()
    library = tmp_path / "lib" / "libccl.so.2"
    library.write_bytes(b"")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "path", [])
    assert str(library) in wheel_files("oneccl")
    library.unlink()
    assert str(library) not in wheel_files("oneccl")


def test_a_wheel_below_site_packages_is_found(tmp_path, monkeypatch):
    library = tmp_path / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert wheel_files("nccl") == [str(library)]
