"""Every storage from creation to free, in its category; checked against torch's own counts."""

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable
from itertools import accumulate

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from course_utils.configs import Kernels, ModelConfig
from course_utils.instruments import (
    MemoryTrace,
    TracedStorage,
    count_flops,
    count_saved_bytes,
    fake_tensors,
    trace_memory,
)
from course_utils.reference import Transformer, token_loss
from tests.random_models import KINDS, random_model

# Without dropout, whose random masks change no size.
ATTENTION = {"fused": Kernels(), "every score": Kernels(is_attention_fused=False)}


def training(
    sizes: ModelConfig, kernels: Kernels = ATTENTION["fused"], foreach: bool = False
) -> tuple[Callable[[], None], nn.Module, torch.optim.Optimizer]:
    """A training step of a small model, and its owners."""
    model = Transformer(sizes, kernels=kernels)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=foreach)
    ids, targets = torch.zeros(2, 2, 16, dtype=torch.long)

    def step() -> None:
        token_loss(model(ids), targets).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step, model, optimizer


def weights_of(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, requires_grad=True)


# By hand, for w of 3 * 5 numbers of 4 bytes and x of 2 * 3: what lives right after each operation.
#
#    operation            live beside w, 60      what is new, and what becomes of it
#    0  -                 0
#    1  x = ones          24                     activation: the product keeps it for w's gradient
#    2  y = x @ w         24 + 40                temporary: relu keeps its result, not its input
#    3  z = relu          24 + 40 + 40           activation
#    4  detach            24 + 40 + 40           a view of z
#    5  sum               24 + 40 + 4            the loss; y is freed, as nothing holds it
#    6  ones_like         24 + 40 + 4 + 4        the gradient of the loss
#    7  expand, 8 detach  24 + 40 + 4 + 4        views: here the backward pass begins
#    9  relu's backward   24 + 40 + 4 + 4 + 40   temporary
#    10 t                 24 + 4 + 4 + 40        a view; z is freed
#    11 mm                24 + 4 + 4 + 40 + 60   the gradient of w: the peak
#    12 detach            4 + 4 + 60             what becomes w.grad is a view
def test_a_step_by_hand():
    w = weights_of(3, 5)
    trace = trace_memory(lambda: (torch.ones(2, 3) @ w).relu().sum().backward(), w)
    made = [(each.operation, each.category, each.storage_bytes) for each in trace.storages]
    assert made == [
        ("", "parameters", 60),
        ("ones", "activations", 24),
        ("mm", "temporaries", 40),
        ("relu", "activations", 40),
        ("sum", "activations", 4),
        ("ones_like", "activations", 4),
        ("threshold_backward", "temporaries", 40),
        ("mm", "gradients", 60),
    ]
    beside_w = [0, 24, 64, 104, 104, 68, 72, 72, 72, 112, 72, 132, 68]
    assert trace.total_bytes == [60 + each for each in beside_w]
    assert (trace.peak_bytes, trace.peak_at, trace.peak_phase.name) == (192, 11, "backward")
    assert trace.live_at(trace.peak_at) == {
        "parameters": 60,
        "optimizer_states": 0,
        "gradients": 60,
        "activations": 24 + 4 + 4,
        "temporaries": 40,
    }
    assert [each.operation for each in trace.storages_at(3)] == ["", "mm", "relu", "ones"]
    assert [(phase.name, phase.end_bytes) for phase in trace.phases] == [
        ("forward", 60 + 24 + 40 + 4 + 4),
        ("backward", 120),
    ]


@pytest.fixture(scope="module")
def two_steps() -> MemoryTrace:
    return trace_memory(*training(random_model("grouped", 1)), num_steps=2)


def test_requests_replay_the_live_bytes(two_steps):
    """In order and by their numbers: as sizes of storages, and as a script of whole numbers."""
    live, levels, blocks = {}, [], []
    every = zip(
        two_steps.requests(), two_steps.script(), two_steps.request_operations(), strict=True
    )
    for (number, num_bytes), request, at in every:
        each = two_steps.storages[number]
        if num_bytes is None:
            del live[number]
            assert (blocks[-request - 1], at) == (number, each.died)
        else:
            assert (request, at) == (num_bytes, each.born)
            live[number] = num_bytes
            blocks.append(number)
        levels.append(sum(live.values()))
    assert max(levels) == two_steps.peak_bytes
    outliving = (each.storage_bytes for each in two_steps.storages if each.died is None)
    assert levels[-1] == sum(outliving)


def test_live_bytes_are_those_of_the_storages(two_steps):
    for operation in range(two_steps.num_operations + 1):
        live = sum(each.storage_bytes for each in two_steps.storages_at(operation))
        assert live == two_steps.total_bytes[operation]
        assert live == sum(two_steps.live_at(operation).values())


@pytest.mark.parametrize(
    ("kind", "attention"), [*((kind, "fused") for kind in KINDS), ("GPT", "every score")]
)
def test_fake_tensors_have_the_trace_of_real_ones(kind, attention):
    sizes, kernels = random_model(kind, 3), ATTENTION[attention]
    real = trace_memory(*training(sizes, kernels), num_steps=2)
    with fake_tensors():
        fake = trace_memory(*training(sizes, kernels), num_steps=2)
    assert fake.storages == real.storages
    assert fake.phases == real.phases


def test_two_traces_are_equal():
    """Whenever the collector would run, and whatever an earlier trace left."""
    step, *owners = training(random_model("grouped", 1))
    step()
    first, second = (trace_memory(step, *owners, num_steps=2) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_allocator_of_the_cpu_agrees(kind, foreach):
    """An independent oracle: what the allocator reports to torch's profiler."""
    step, model, optimizer = training(random_model(kind, 4), ATTENTION["every score"], foreach)
    before = sum(parameter.untyped_storage().nbytes() for parameter in model.parameters())
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        step()
        step()
    events = profiled.profiler.kineto_results.events()
    memory = sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns())
    allocated = before + max(accumulate(event.nbytes() for event in memory))
    step, model, optimizer = training(random_model(kind, 4), ATTENTION["every score"], foreach)
    trace = trace_memory(step, model, optimizer, num_steps=2)
    # Not traced: workspace of kernels while they run, some bytes of some 100,000.
    assert 0.9997 * allocated <= trace.peak_bytes <= allocated


@pytest.mark.parametrize("attention", ATTENTION)
@pytest.mark.parametrize("kind", KINDS)
def test_activations_are_what_autograd_keeps(kind, attention):
    """Plus two numbers of four bytes: the loss, and its gradient, which is one."""
    model = Transformer(random_model(kind, 6), kernels=ATTENTION[attention])
    ids, targets = torch.zeros(2, 2, 16, dtype=torch.long)
    saved = count_saved_bytes(lambda: token_loss(model(ids), targets), model, ids, targets)
    trace = trace_memory(lambda: token_loss(model(ids), targets).backward(), model)
    end = trace.phases[0].stop - 1
    assert trace.phases[0].name == "forward"
    assert trace.live_at(end)["activations"] == saved.total_bytes + 8


def test_the_first_step_makes_optimizer_states_and_later_steps_reuse_them():
    step, model, optimizer = training(random_model("grouped", 1))
    trace = trace_memory(step, model, optimizer, num_steps=4)
    num_tensors = len(list(model.parameters()))
    num_bytes = sum(parameter.nbytes for parameter in model.parameters())
    ends = [(p.step, p.name, p.end_bytes) for p in trace.phases if p.name == "step"]
    # weights, two moments, and a step count for each tensor; gradients are freed
    assert ends == [(n, "step", 3 * num_bytes + 4 * num_tensors) for n in (1, 2, 3, 4)]
    assert [phase.name for phase in trace.phases] == 4 * ["forward", "backward", "step"]
    assert trace.live_at(0) == {
        "parameters": num_bytes,
        "optimizer_states": 0,
        "gradients": 0,
        "activations": 0,
        "temporaries": 0,
    }
    assert (
        trace.live_at(trace.num_operations)["optimizer_states"] == 2 * num_bytes + 4 * num_tensors
    )
    assert trace.peak_bytes_of(1) < trace.peak_bytes_of(2)
    assert trace.peak_bytes_of(2) == trace.peak_bytes_of(3) == trace.peak_bytes_of(4)
    assert trace.peak_bytes == max(trace.peak_bytes_of(step) for step in (1, 2, 3, 4))


def test_phases_of_a_step_with_everything():
    """Two micro-batches, losses read, gradients clipped, gradients zeroed in place."""
    _, model, optimizer = training(random_model("grouped", 1))
    ids, losses = torch.zeros(1, 4, dtype=torch.long), []

    def step():
        for _ in range(2):
            loss = token_loss(model(ids), ids)
            loss.backward()
            losses.append(loss.item())
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    trace = trace_memory(step, model, optimizer, num_steps=2)
    names = ["forward", "backward", "forward", "backward", "step"]
    assert [phase.name for phase in trace.phases] == 2 * names
    assert [phase.start for phase in trace.phases[1:]] == [p.stop for p in trace.phases[:-1]]
    gradients = sum(parameter.nbytes for parameter in model.parameters())
    assert trace.live_at(trace.num_operations)["gradients"] == gradients


def test_what_is_recomputed_is_temporary():
    layers, x = nn.Sequential(*(nn.Linear(8, 8) for _ in range(4))), weights_of(16, 8)

    def call(is_recomputed):
        y = checkpoint(layers, x, use_reentrant=False) if is_recomputed else layers(x)
        y.sum().backward()

    plain, recomputed = (
        trace_memory(lambda flag=flag: call(flag), layers, x) for flag in (False, True)
    )
    # inputs of the second to the fourth layer and y, 16 * 8 numbers each; the loss, its gradient
    assert plain.live_at(plain.phases[0].stop - 1)["activations"] == 4 * 512 + 8
    assert recomputed.live_at(recomputed.phases[0].stop - 1)["activations"] == 512 + 8
    assert recomputed.live_at(recomputed.peak_at)["temporaries"] > 3 * 512


def test_in_inference_everything_is_temporary():
    model = Transformer(random_model("grouped", 1))
    with torch.no_grad():
        trace = trace_memory(lambda: model(torch.zeros(1, 4, dtype=torch.long)), model)
    assert {each.category for each in trace.storages} == {"parameters", "temporaries"}
    assert [phase.name for phase in trace.phases] == ["forward"]
    assert trace.phases[0].end_bytes == sum(parameter.nbytes for parameter in model.parameters())


def test_older_gradients_and_states_are_live_from_the_beginning():
    step, model, optimizer = training(random_model("grouped", 1))
    step()
    token_loss(model(torch.zeros(1, 4, dtype=torch.long)), torch.zeros(1, 4, dtype=int)).backward()
    num_bytes = sum(parameter.nbytes for parameter in model.parameters())
    start = trace_memory(step, optimizer, model).live_at(0)  # in either order
    assert (start["parameters"], start["gradients"]) == (num_bytes, num_bytes)
    assert start["optimizer_states"] == 2 * num_bytes + 4 * len(list(model.parameters()))


def test_weight_copies_that_only_the_optimizer_holds_are_its_states():
    layer = nn.Linear(3, 5, bias=False, dtype=torch.bfloat16)
    master = nn.Parameter(layer.weight.detach().float())
    optimizer = torch.optim.SGD([master], lr=0.1)

    def step():
        layer(torch.ones(2, 3, dtype=torch.bfloat16)).sum().backward()
        master.grad = layer.weight.grad.float()
        optimizer.step()
        with torch.no_grad():
            layer.weight.copy_(master)

    trace = trace_memory(step, layer, optimizer)
    last = trace.live_at(trace.num_operations)
    assert (last["parameters"], last["optimizer_states"], last["gradients"]) == (30, 60, 30 + 60)
    with pytest.raises(ValueError, match=r"parameter of shape \(5, 3\) is used that the trace was"):
        trace_memory(step, layer)


def test_a_state_that_is_also_a_gradient_stays_a_state():
    """As in trainers whose optimizer sums gradients up in a buffer of its own."""
    w = weights_of(3, 5)
    optimizer = torch.optim.SGD([w])
    w.grad = torch.zeros(3, 5)
    optimizer.state[w]["sum"] = w.grad
    trace = trace_memory(lambda: w.sum().backward(), w, optimizer)
    (state,) = [each for each in trace.storages if each.category == "optimizer_states"]
    assert state.storage_bytes == 60
    assert "gradients" not in {each.category for each in trace.storages}


def test_what_backward_made_and_somebody_holds_is_no_activation_of_the_next_step():
    w = weights_of(3, 5)
    held = []

    def step() -> None:
        doubled = w * 2
        doubled.register_hook(lambda gradient: held.append(gradient * 3))
        doubled.sum().backward()

    trace = trace_memory(step, w, num_steps=2)
    held_at_end = [each.category for each in trace.storages if each.died is None]
    assert sorted(held_at_end) == ["gradients", "parameters", "temporaries", "temporaries"]


def test_a_resized_storage_counts_with_its_new_size():
    out = torch.empty(0)

    def call():
        x = torch.ones(6)
        x.resize_(20)
        torch.add(x, 1, out=out)
        x.untyped_storage().resize_(0)
        x.detach()

    trace = trace_memory(call, out)
    assert trace.total_bytes == [0, 24, 80, 160, 80]
    assert trace.live_at(3)["parameters"] == 80
    assert {each.operation for each in trace.storages} == {"", "ones"}


def test_views_and_older_tensors_add_nothing():
    data = torch.ones(5, 3)
    trace = trace_memory(lambda: data[:2].t().add_(1).flatten())
    # flatten copies a tensor that is not contiguous: 6 numbers
    assert [each.storage_bytes for each in trace.storages] == [24]
    fresh = [trace_memory(lambda: torch.tensor([1.0, 2.0])).peak_bytes]
    with fake_tensors():
        fresh.append(trace_memory(lambda: torch.tensor([1.0, 2.0])).peak_bytes)
    assert fresh == [8, 8]


def test_a_cycle_lives_to_the_end():
    def call():
        cycle = [torch.ones(6)]
        cycle.append(cycle)
        del cycle
        return torch.ones(1)

    thresholds = gc.get_threshold()
    gc.set_threshold(1)  # the collector would run at once
    try:
        trace = trace_memory(call, num_steps=2)
    finally:
        gc.set_threshold(*thresholds)
    assert [each.died for each in trace.storages if each.storage_bytes == 24] == [None, None]
    assert gc.isenabled()


def test_models_outlive_their_trace_and_traces_their_models():
    step, model, optimizer = training(random_model("grouped", 1))
    trace = trace_memory(step, model, optimizer)
    step()  # no hook is left behind
    assert not any(parameter._post_accumulate_grad_hooks for parameter in model.parameters())
    storages = [parameter.untyped_storage() for parameter in model.parameters()]
    assert not any(map(weakref.getweakrefcount, storages))
    peak, gone = trace.peak_bytes, weakref.ref(model)
    del step, model, optimizer
    gc.collect()
    assert gone() is None
    assert trace.peak_bytes == peak


def test_a_step_that_fails_leaves_nothing_behind():
    step, model, optimizer = training(random_model("grouped", 1))

    def failing():
        model(torch.zeros(1, 4, dtype=torch.long)).sum().backward()
        raise KeyError("a student's error")

    with pytest.raises(KeyError, match="a student's error"):
        trace_memory(failing, model, optimizer)
    assert gc.isenabled()
    assert not any(parameter._post_accumulate_grad_hooks for parameter in model.parameters())
    optimizer.zero_grad()
    assert trace_memory(step, model, optimizer).peak_phase.step == 1


@pytest.mark.parametrize(
    ("inner", "name"),
    [
        (lambda: count_flops(lambda: torch.ones(1, 1) @ torch.ones(1, 1)), "count_flops"),
        (lambda: count_saved_bytes(lambda: torch.ones(1)), "count_saved_bytes"),
        (lambda: trace_memory(lambda: torch.ones(1)), "trace_memory"),
    ],
)
def test_instruments_refuse_to_be_nested(inner, name):
    with pytest.raises(ValueError, match=f"{name} cannot run inside trace_memory"):
        trace_memory(inner)
    with pytest.raises(ValueError, match=f"{name} cannot run inside count_flops"):
        count_flops(inner)
    assert inner()  # on its own it runs again


def test_a_missing_gpu_is_reported():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    for call in (lambda: torch.ones(3, device="cuda"), lambda: torch.ones(3).cuda()):
        with pytest.raises(ValueError, match="there is no GPU here"):
            trace_memory(call)


def test_wrong_arguments_are_rejected():
    layer = nn.Linear(3, 5)
    with pytest.raises(
        TypeError, match="must be a module, optimizer or tensor, got <class 'list'>"
    ):
        trace_memory(lambda: None, [layer])
    with pytest.raises(ValueError, match="num_steps must be an int above zero, got 0"):
        trace_memory(lambda: None, num_steps=0)
    with pytest.raises(ValueError, match="saw no operation"):
        trace_memory(lambda: None, layer)
    with pytest.raises(ValueError, match="needs the model too"):
        trace_memory(lambda: None, torch.optim.SGD(layer.parameters()))
    with pytest.raises(ValueError, match=r"parameter of shape \(5, 3\) is used that the trace was"):
        trace_memory(lambda: layer(torch.ones(2, 3)))
    with pytest.raises(ValueError, match="has one of layout"):
        trace_memory(lambda: torch.eye(3).to_sparse())
    with pytest.raises(ValueError, match="no step 2: give one from 1 to 1"):
        trace_memory(lambda: torch.ones(1)).peak_bytes_of(2)


def test_a_trace_shows_its_peak():
    trace = trace_memory(lambda: torch.ones(500) + 1)
    assert repr(trace) == (
        "MemoryTrace: 4,000 bytes at operation 2 of 2, in phase 'forward' of step 1"
    )
    assert isinstance(trace, MemoryTrace)
    assert trace.storages[0] == TracedStorage(
        "temporaries", "ones", (500,), torch.float32, 2000, 1, 3
    )


FIRST_TRACE = """
import torch
from course_utils.instruments import trace_memory

layer, x, kept = torch.nn.Linear(3, 4), torch.ones(2, 3), []


def call():
    result = layer(x)
    kept.append(torch.tanh(result).sum())


trace = trace_memory(call, layer)
print(trace.phases[-1].end_bytes - trace.total_bytes[0])
"""


def test_the_first_trace_of_a_process_is_like_every_other():
    """The eight numbers that tanh keeps and their sum outlive the call, the layer's output not."""
    command = [sys.executable, "-c", FIRST_TRACE]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.stdout == "36\n", run.stderr


def test_kept_and_working_bytes():
    layer, x = nn.Linear(4, 4, bias=False), torch.ones(2, 4)
    trace = trace_memory(lambda: layer(x * 1).tanh().sum().backward(), layer)
    assert trace.kept_bytes == 2 * 32 + 2 * 4  # the input, tanh's output, a sum, its gradient
    assert max(trace.working_bytes) == 3 * 32 + 2 * 4  # and the gradient of tanh's input


def test_the_backward_pass_of_a_loss_in_fp32_needs_its_logits_once_more():
    """So who has served the request of the log-softmax has not served the step."""
    logits = torch.randn(64, 500, requires_grad=True, dtype=torch.bfloat16)
    targets = torch.zeros(64, dtype=torch.long)

    def forward() -> torch.Tensor:
        return nn.functional.cross_entropy(logits.float(), targets)

    in_forward = trace_memory(forward)
    whole = trace_memory(lambda: forward().backward())
    more_bytes = whole.peak_bytes - in_forward.peak_bytes
    assert more_bytes // (4 * logits.numel()) == 1
