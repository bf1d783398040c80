"""What unit 10 says of PyTorch's own tracker: above its parts, a rank peaks at four whole layers.

The tracker and the process group without processes are private modules, so they stay in a test.
"""

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

MIB = 2**20


@pytest.fixture
def mesh_of_64() -> Iterator[DeviceMesh]:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=64)
    yield init_device_mesh("cpu", (64,))
    dist.destroy_process_group()


# A layer of 8,192² in fp32 is 256 MiB; a 64th of eight is 32. At the peak six of the parts of the
# gradient are there.
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
def test_a_rank_peaks_at_four_whole_layers(mesh_of_64):
    with FakeTensorMode():
        model = nn.Sequential(*(nn.Linear(8192, 8192, bias=False) for _ in range(8)))
        for each in (*model, model):
            fully_shard(each, mesh=mesh_of_64)
        optimizer = torch.optim.Adam(model.parameters())
        tracker, x = FSDPMemTracker(model, optimizer), torch.ones(8, 8192)
        tracker.track_inputs((x,))
        with tracker:
            for _ in range(2):
                model(x).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        peak = next(iter(tracker.get_tracker_snapshot("peak").values()))
    mib = {str(kind).rpartition(".")[-1]: num_bytes / MIB for kind, num_bytes in peak.items()}
    assert [round(mib[name]) for name in ("SHARDED_PARAM", "SHARDED_GRAD", "OPT")] == [32, 24, 64]
    wholes = ("UNSHARDED_PARAM", "ALL_GATHER", "REDUCE_SCATTER", "TEMP")  # the last, a gradient
    assert [round(mib[name] / 256) for name in wholes] == [1, 1, 1, 1]
    assert round(mib["Total"]) == 1145
