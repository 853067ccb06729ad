from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from cclmark import _engine as engine
from cclmark.rank.torch_backend import _add_devices, module_of, tensor_device
from cclmark.rank.torch_ccl import TorchLibrary


def torch_with(**modules) -> SimpleNamespace:
    return SimpleNamespace(__version__="2.9.0", **modules)


def module(count: int) -> SimpleNamespace:
    chosen: list[object] = []
    return SimpleNamespace(
        is_available=lambda: count > 0,
        device_count=lambda: count,
        set_device=chosen.append,
        chosen=chosen,
    )


@pytest.mark.parametrize(
    ("runtime", "build"),
    [("hip", "for ROCm"), ("maca", "of MetaX"), ("cudart", "of the devices' vendor")],
)
def test_a_torch_without_the_devices_is_refused(runtime, build):
    with pytest.raises(engine.MissingError) as caught:
        _add_devices(torch_with(cuda=module(0)), runtime)
    message = f"torch 2.9.0 has no cuda devices, as torch calls {runtime} devices: install a torch "
    assert str(caught.value) == message + build
    _add_devices(torch_with(cuda=module(1)), runtime)


def test_a_module_that_some_devices_require_is_imported_where_it_is(tmp_path, monkeypatch):
    torch = torch_with(cuda=module(1))
    _add_devices(torch, "cudart")
    (tmp_path / "torch_xmlir.py").write_text("raise OSError('libxpurt.so: not found')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(engine.MissingError, match=r"torch_xmlir.*OSError: libxpurt\.so"):
        _add_devices(torch, "cudart")
    (tmp_path / "torch_xmlir.py").write_text("")
    monkeypatch.delitem(sys.modules, "torch_xmlir", raising=False)
    _add_devices(torch, "cudart")
    assert "torch_xmlir" in sys.modules


def test_a_plug_in_without_its_module_is_refused(tmp_path, monkeypatch):
    (tmp_path / "torch_mlu.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(engine.MissingError, match=r"2\.9\.0 with torch_mlu has no mlu devices"):
        _add_devices(torch_with(), "cnrt")


def test_the_device_is_made_the_current_one():
    torch = torch_with(device=lambda kind, index: SimpleNamespace(type=kind, index=index))
    torch.cuda = module(2)
    device = tensor_device(torch, "hip", 1)
    assert (device.type, device.index) == ("cuda", 1)
    assert torch.cuda.chosen == [device]
    assert module_of(torch, device) is torch.cuda
    with pytest.raises(engine.MissingError, match="torch has 2 cuda devices, but hip:2"):
        tensor_device(torch, "hip", 2)


def test_a_process_group_of_nccl_has_the_options_of_the_communicator():
    config = SimpleNamespace(min_ctas=1, cga_cluster_size=4, net_name="")
    made: list[dict[str, SimpleNamespace]] = []
    library = object.__new__(TorchLibrary)
    library._backend, library._torch = "nccl", torch_with(cuda=module(1))
    library._torch.device = lambda kind, index: SimpleNamespace(type=kind, index=index)
    library._torch.distributed = SimpleNamespace(
        ProcessGroupNCCL=SimpleNamespace(Options=lambda: SimpleNamespace(config=config)),
        PrefixStore=lambda name, store: store,
        init_process_group=lambda *arguments, **named: made.append(named),
    )
    settings = SimpleNamespace(timeout_s=1.0, config={"minCTAs": "32", "netName": "Socket"})
    rank = SimpleNamespace(job=SimpleNamespace(rank=0, ranks=2, hosts=0, settings=settings))
    device = SimpleNamespace(info=SimpleNamespace(runtime="cuda", index=0))
    library._joined = lambda rank, device, group: group
    group = library.join(rank, device, {"cgaClusterSize": "2"})
    group._store = object()
    group.make()
    assert [*vars(made[0]["pg_options"].config).values()] == [32, 2, "Socket"]
    group.options = {"CTAPolicy": "1"}
    with pytest.raises(engine.MissingError, match=r"CTAPolicy.*only cga_cluster_size, min"):
        group.make()
