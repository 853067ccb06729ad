"""Fake backends of torch.distributed, where a run finds them."""

from pathlib import Path

_FAKES = Path(__file__).parent / "fakes"


def find_fakes(directory: Path, *names: str) -> Path:
    """Runs in this directory import these modules, without a PYTHONPATH of their own."""
    for name in names:
        (directory / f"{name}.py").symlink_to(_FAKES / f"{name}.py")
    return directory
