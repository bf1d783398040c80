"""Excerpts of PyTorch: they stand in the installed release, and what is said of them holds."""

import pytest
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.debug import CommDebugMode
from torch.nn.parallel import DistributedDataParallel

from course_utils.distributed import run_ranks
from course_utils.instruments.installed_source import FOLDER, installed_lines
from course_utils.show.side_by_side import DDP_STEPS, FSDP_STEPS
from course_utils.show.torch_source import DDP, DDP_SOURCE, FSDP_SOURCE, Excerpts


@pytest.mark.parametrize(
    "quote",
    [each.quote for each in (*DDP_SOURCE, *FSDP_SOURCE, *DDP_STEPS, *FSDP_STEPS)],
    ids=lambda quote: quote.first,
)
def test_quoted_lines_stand_where_the_page_says(quote):
    found = installed_lines(*quote)
    installed = (FOLDER / found.file).read_text(encoding="utf-8").splitlines()
    there = installed[found.line - 1 :][: quote.num_lines]
    assert [line.strip() for line in there] == [line.strip() for line in found.text.splitlines()]
    assert there[0].strip() == quote.first


def test_a_line_that_is_not_there_once_is_refused():
    for line, count in (("no such line", 0), ("else:", "")):
        with pytest.raises(ValueError, match=f"{count}.* times, not once"):
            installed_lines(DDP, line)


def test_a_page_shows_question_place_and_lines():
    table = Excerpts(DDP_SOURCE)
    for each in DDP_SOURCE:
        assert each.question in table._repr_html_()
        assert f"{each.quote.file}:{installed_lines(*each.quote).line}" in repr(table)


def hooks_and_gradients(comm):
    """What the page says of division, comm hooks, no_sync and bucket views, seen on real ranks."""

    def made(**options):
        model = nn.Linear(3, 2, bias=False)
        nn.init.ones_(model.weight)
        return DistributedDataParallel(model, **options)

    rows, seen = torch.full((1, 3), 1.0 + comm.rank), []

    def hook(state, bucket):
        seen.append(bucket.buffer().tolist())
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    averaged, hooked = made(), made(gradient_as_bucket_view=True)
    averaged(rows).sum().backward()
    hooked.register_comm_hook(None, hook)
    hooked(rows).sum().backward()
    alone = made()
    with alone.no_sync():
        alone(rows).sum().backward()
    return {
        "averaged": averaged.module.weight.grad.flatten().tolist(),
        "hook": seen,
        "no_sync": alone.module.weight.grad.flatten().tolist(),
        "is_view": hooked.module.weight.grad._is_view(),
    }


def test_what_the_page_says_of_division_hooks_and_views_is_so():
    for rank, seen in enumerate(run_ranks(hooks_and_gradients, 2)):
        assert seen["averaged"] == [1.5] * 6  # the mean of the ranks' gradients 1 and 2
        assert seen["hook"] == [[1.0 + rank] * 6]  # not divided yet
        assert seen["no_sync"] == [1.0 + rank] * 6  # nothing was sent
        assert seen["is_view"]


def error_without_a_gradient(comm):
    layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
    layers.forward = layers[0].forward  # the second is not used
    model = DistributedDataParallel(layers)
    model(torch.ones(1, 3)).sum().backward()
    try:
        model(torch.ones(1, 3))
    except RuntimeError as error:
        return str(error)
    return ""


def test_a_parameter_without_a_gradient_makes_the_next_forward_pass_raise():
    for message in run_ranks(error_without_a_gradient, 2):
        assert "Expected to have finished reduction in the prior iteration" in message


def collectives_of_groups(comm, num_blocks, are_blocks_groups):
    blocks = nn.Sequential(
        *(nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 4)) for _ in range(num_blocks))
    )
    model = nn.Sequential(nn.Embedding(5, 4), blocks, nn.Linear(4, 5, bias=False))
    if are_blocks_groups:
        for each in blocks:
            fully_shard(each)
    fully_shard(model)
    with CommDebugMode() as seen:
        model(torch.arange(5)).sum().backward()
    return sorted(seen.get_comm_counts().values())


# A block is gathered for forward and again for backward; the root, with what is left, only once.
@pytest.mark.parametrize(
    ("num_blocks", "are_groups", "wanted"),
    [(2, True, [3, 5]), (4, True, [5, 9]), (4, False, [1, 1])],
)
def test_each_group_is_gathered_as_the_page_says(num_blocks, are_groups, wanted):
    for counts in run_ranks(collectives_of_groups, 2, num_blocks, are_groups):
        assert counts == wanted
