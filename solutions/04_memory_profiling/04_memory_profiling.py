# ---
# jupyter:
#   course:
#     title: Memory profiling
#     minutes: 120
#     device: CPU
#     lecture: [E6, E8, S10]
#   jupytext:
#     notebook_metadata_filter: course
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 04 · Memory profiling
#
# Scratch header: E6, E8, S10.

# %% nbgrader={"grade": false, "grade_id": "u04-setup", "locked": true, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
from course_utils.ready import check_setup

check_setup()

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils.checks import answer, check, compare, predict
from course_utils.configs import ModelConfig, RunConfig, precision, preset
from course_utils.instruments import fake_tensors, trace_memory
from course_utils.reference import Block, Training, Transformer
from course_utils.reference.allocator import CachingAllocator
from course_utils.show import allocator_levels, memory_timeline, try_it

# %% [markdown]
# ## SECOND HALF BEGINS HERE

# %% [markdown]
# ## Loops that leak
#
# A step gives back what it took. Where memory grows from step to step all the same, something in the loop holds tensors that nobody will use: a **leak**. A small model to look for some, and an instrument: what a call holds beside what was there before, at its peak and, in the end, while its result is held.


# %% tags=["nbval-check-output"]
torch.manual_seed(0)
tiny = ModelConfig(num_layers=4, hidden_size=64, num_heads=4, ffn_size=256, vocab_size=500)
body = nn.Sequential(nn.Embedding(500, 64), *(Block(tiny, n) for n in range(4)))
head = nn.Linear(64, 500, bias=False)
model = nn.Sequential(body, head)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [torch.randint(500, (2, 2, 32)).unbind() for _ in range(8)]


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def held(call):
    results = []
    trace = trace_memory(lambda: results.append(call()), model, optimizer)
    before = trace.total_bytes[0]
    left = trace.phases[-1].end_bytes
    return {"peak_bytes": trace.peak_bytes - before, "left_bytes": left - before}


print(held(lambda: loss_of(model(batches[0][0]), batches[0][1])))

# %% [markdown]
# The result is one loss of 4 bytes, and 1.7 MB are left: the loss holds its **graph**, and the graph every tensor saved for backward.
#
# **A myth first.** A sum of losses that are not detached is the best-known "leak": PyTorch's own FAQ warns of it. Two loops, over 2, 4 and 8 batches:


# %% tags=["nbval-check-output"]
def summed(num_batches):
    total = 0.0
    for ids, targets in batches[:num_batches]:
        loss = loss_of(model(ids), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total = total + loss
    return total


def collected(num_batches):
    return [loss_of(model(ids), targets) for ids, targets in batches[:num_batches]]


for loop in (summed, collected):
    left = [held(lambda loop=loop, n=n: loop(n))["left_bytes"] for n in (2, 4, 8)]
    print(f"{loop.__name__}: {left[0]:,}, {left[1]:,}, {left[2]:,} bytes left")

# %% [markdown]
# The sum costs nothing worth the name: its graph grows too, but `backward` **frees** the saved tensors that it walks through, and what is left are nodes and a few numbers (in a loop of millions they add up, and `.item()` is good style). The real leak is a graph that *no backward pass ever walks through*. Three loops that have one, or something worse; you repair them.

# %% [markdown]
# ### A loss that nobody differentiates


# %%
def leaking_evaluate(model, batches):
    losses = []
    for ids, targets in batches:
        losses.append(loss_of(model(ids), targets))
    return torch.stack(losses).mean()


memory_timeline(trace_memory(lambda: leaking_evaluate(model, batches), model))

# %% [markdown]
# It climbs with every layer of every batch and never comes down. The trace calls them temporaries, and not activations, for no backward pass follows that would use them.

# %% [markdown] exercise={"id": "u04-repair-evaluation", "title": "Repair the evaluation", "difficulty": 2, "importance": 5, "minutes": 5}
# **Write** `evaluate`: the same mean, a number. At no moment, and not in the end, may the activations of even one whole batch be live. The model comes back as it was: its mode, its weights, their gradients; so does the recording of gradients. All or nothing: the check counts how often what one batch keeps for backward fits into what is live.


# %% nbgrader={"grade": false, "grade_id": "u04-repair-evaluation", "locked": false, "schema_version": 3, "solution": true, "task": false}
def evaluate(model: nn.Module, batches: list[tuple[Tensor, Tensor]]) -> float:
    """The mean of the batches' losses, without a graph.

    Args:
        model: From ids (b, s) to logits (b, s, v).
        batches: Pairs of ids and targets.
    """
    ### BEGIN SOLUTION
    with torch.inference_mode():
        numbers = [loss_of(model(inputs), wanted).item() for inputs, wanted in batches]
    return sum(numbers) / len(numbers)
    ### END SOLUTION


# %%
def held_by(loop):
    return held(lambda: loop(model, batches))


try_it(held_by, leaking_evaluate)
try_it(held_by, evaluate)

# %% nbgrader={"grade": true, "grade_id": "u04-repair-evaluation-test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# Mean, side effects, and live bytes of a model in float64; a model in both modes.
check("u04-repair-evaluation", evaluate)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u04-repair-evaluation", evaluate)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>Nothing is left, and yet two batches are live at the peak</summary>
#
# When the next batch's forward pass runs, which names of the last turn are still bound, and to what?
# </details>
#
# <details><summary>One batch is live, wherever I detach</summary>
#
# `detach` lets go of a graph that is there already. When were its tensors saved? What would have to be said before?
# </details>

# %% [markdown]
# **Measure.** Two half repairs between the two, in batches that are live at the peak:


# %% tags=["nbval-check-output"]
def detached(model, batches):
    return [loss_of(model(ids), targets).item() for ids, targets in batches]


def detached_with_a_name(model, batches):
    numbers = []
    for ids, targets in batches:
        loss = loss_of(model(ids), targets)
        numbers.append(loss.item())
    return numbers


evaluate_of = answer("u04-repair-evaluation", evaluate)
one_batch = held(lambda: loss_of(model(batches[0][0]), batches[0][1]))["left_bytes"]
for loop in (leaking_evaluate, detached_with_a_name, detached):
    print(f"{loop.__name__}: {held_by(loop)['peak_bytes'] / one_batch:.1f}")
print(f"repaired: {held_by(evaluate_of)['peak_bytes'] / one_batch:.1f}")

# %% [markdown]
# A number in place of the loss lets the graph go, but only when it is there; and as long as the name `loss` stands for the last one, the next batch is computed beside it.
#
# **Explain.** On a model of the size that you train, in bf16 at 4,096 tokens, on fake tensors:


# %% tags=["nbval-check-output"]
def left_after(num_batches):
    with fake_tensors():
        llama = Transformer(preset("Llama-3.2-1B"), dtype=torch.bfloat16)
        pairs = [torch.zeros(2, 1, 4096, dtype=torch.long).unbind() for _ in range(num_batches)]
        results = []
        trace = trace_memory(lambda: results.append(leaking_evaluate(llama, pairs)), llama)
    return trace.phases[-1].end_bytes - trace.total_bytes[0]


print(", ".join(f"{left_after(n) / 2**30:.1f} GiB after {n}" for n in (1, 2, 4)))

# %% [markdown]
# A training that fits runs out of memory at its first evaluation, some batches later.

# %% [markdown]
# ### An average that backward never reaches
#
# This loop trains, and keeps a moving average of how far the hidden states spread, to look at it later:


# %% tags=["nbval-check-output"]
def leaking_train(body, head, optimizer, batches):
    average = torch.zeros(())
    for ids, targets in batches:
        hidden = body(ids)
        average = 0.9 * average + 0.1 * hidden.std()
        loss_of(head(hidden), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
    return average


for n in (2, 4, 8):
    left = held(lambda n=n: leaking_train(body, head, optimizer, batches[:n]))["left_bytes"]
    print(f"{n} batches: {left:,} bytes left, {left // (2 * 32 * 64 * 4)} hidden states")

# %% [markdown] exercise={"id": "u04-repair-average", "title": "Repair the average", "difficulty": 3, "importance": 4, "minutes": 7}
# **Write** `train_with_average`: the same training and the same average, a number, without holding a hidden state longer than training itself needs it. Weights and average must be those of the loop above. All or nothing: the check counts hidden states, at the peak and in the end, beyond those of a loop without a leak.


# %% nbgrader={"grade": false, "grade_id": "u04-repair-average", "locked": false, "schema_version": 3, "solution": true, "task": false}
def train_with_average(
    body: nn.Module,
    head: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: list[tuple[Tensor, Tensor]],
) -> float:
    """Train, and average the standard deviation of the hidden states.

    Args:
        body: From ids (b, s) to hidden states (b, s, h).
        head: From hidden states to logits (b, s, v).
        optimizer: Of the weights of both.
        batches: Pairs of ids and targets.

    Returns:
        The moving average: 0.9 of what it was and 0.1 of the new deviation, from 0 on.
    """
    ### BEGIN SOLUTION
    spread = 0.0
    for inputs, wanted in batches:
        states = body(inputs)
        spread = 0.9 * spread + 0.1 * states.detach().std().item()
        loss_of(head(states), wanted).backward()
        optimizer.step(None)
        optimizer.zero_grad(set_to_none=True)
    return spread
    ### END SOLUTION


# %%
def held_by_training(loop):
    return held(lambda: loop(body, head, optimizer, batches))


try_it(held_by_training, leaking_train)
try_it(held_by_training, train_with_average)

# %% nbgrader={"grade": true, "grade_id": "u04-repair-average-test", "locked": true, "points": 1.5, "schema_version": 3, "solution": false, "task": false}
# Weights and average against a twin in float64; live bytes against a loop without a leak.
check("u04-repair-average", train_with_average)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u04-repair-average", train_with_average)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>My body is not trained any more</summary>
#
# The hidden state has two readers. Which of them needs the way back to the weights?
# </details>
#
# <details><summary>`del hidden` changes nothing</summary>
#
# Who else holds the tensor? What did `std` save for its own backward pass?
# </details>

# %% [markdown]
# **Explain.** Backward begins at the loss and frees what it walks through. `std` saved the hidden state for a backward pass of its own; no loss depends on it, so none ever comes, and the average chains the graphs of all steps. Whatever you log (norms, entropies, the load of experts): make it a number before you keep it. An average of the *weights* alone, `0.9 * average + 0.1 * weight`, keeps no tensor even without `no_grad`, since the derivative of a multiple needs the factor only:


# %% tags=["nbval-check-output"]
def averaged_weights(num_steps):
    average = head.weight.detach().clone()
    for _ in range(num_steps):
        average = 0.9 * average + 0.1 * head.weight
    return average


print([held(lambda n=n: averaged_weights(n))["left_bytes"] for n in (1, 10, 100)])

# %% [markdown]
# ### A part that holds the whole
#
# No graph at all: the state of the last token of each sequence, as one keeps it to compare texts.


# %% tags=["nbval-check-output"]
@torch.no_grad()
def leaking_states(body, batches):
    states = []
    for ids, _ in batches:
        hidden = body(ids)
        states.append(hidden[:, -1])
    return states


states = leaking_states(body, batches)
shown = sum(state.numel() * state.element_size() for state in states)
print(f"{shown:,} bytes of numbers; {held(lambda: leaking_states(body, batches))}")

# %% [markdown] exercise={"id": "u04-repair-samples", "title": "Repair the samples", "difficulty": 2, "importance": 3, "minutes": 5}
# **Write** `last_states`: the same list, one tensor of shape (b, h) for each batch, which holds nothing but these numbers; and at no moment are more than the last batch's states whole. One sequence in a batch or many. All or nothing.


# %% nbgrader={"grade": false, "grade_id": "u04-repair-samples", "locked": false, "schema_version": 3, "solution": true, "task": false}
@torch.no_grad()
def last_states(body: nn.Module, batches: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
    """The hidden state of the last token of every sequence.

    Args:
        body: From ids (b, s) to hidden states (b, s, h).
        batches: Pairs of ids and targets.
    """
    ### BEGIN SOLUTION
    return [body(inputs)[:, -1].clone() for inputs, _ in batches]
    ### END SOLUTION


# %%
def held_by_states(loop):
    return held(lambda: loop(body, batches))


try_it(held_by_states, leaking_states)
try_it(held_by_states, last_states)

# %% nbgrader={"grade": true, "grade_id": "u04-repair-samples-test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# One sequence in a batch, and several; live bytes at the peak and in the end.
check("u04-repair-samples", last_states)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u04-repair-samples", last_states)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>Only batches of one sequence are wrong</summary>
#
# `contiguous` copies where it has to. The last row of a *single* sequence: do its numbers lie side by side already?
# </details>

# %% [markdown]
# **Explain.** A view is a window; memory is freed by the **storage**, whole, when its last window closes. `detach`, `view`, slices and mostly `reshape` open another window; `clone` always makes a storage of its own.

# %% [markdown]
# ## What the device is asked for
#
# Four memories, never mixed:
#
# | memory | what it counts | seen with |
# |---|---|---|
# | saved | what autograd keeps for backward | `count_saved_bytes` (unit 03) |
# | allocated | live tensors; in an allocator their blocks, rounded up | `trace_memory`; `torch.cuda.memory_allocated` |
# | reserved | what the allocator has asked of the device and not given back | below; `torch.cuda.memory_reserved` |
# | driver | all that the device is out of: reserved, its context and kernels, other libraries | `nvidia-smi` |
#
# A trace shows the first two. What the driver adds, half a GB to two, is not modelled here. The third is made by PyTorch itself: to ask a device for memory, and to give it back, is slow and can make the device wait, so that PyTorch keeps what it has got, in a **caching allocator**. The course has a small one, with the rules of PyTorch's for CUDA:

# %% tags=["nbval-check-output"]
allocator = CachingAllocator()
for name in ("a", "b", "c"):
    allocator.allocate(name, 1)
allocator.levels

# %% [markdown]
# Three tensors of one byte: blocks are rounded up to 512 B, and a **segment** of 2 MiB was reserved, of which they were **split** off. A larger tensor comes from another **pool**, with larger segments:

# %% tags=["nbval-check-output"]
allocator.allocate("logits", 3 * 2**20)
allocator.levels

# %% [markdown]
# Free everything, and look at what is reserved:

# %% tags=["nbval-check-output"]
for name in ("a", "b", "c", "logits"):
    allocator.free(name)
allocator.levels

# %% [markdown]
# Nothing is allocated and 22 MiB stay reserved: the device thinks that they are in use, and the next request gets them without asking. `empty_cache()` gives them back, which makes the next step slower and no training fit: the allocator does it by itself before it gives up.
#
# Now break it, on a device of 20 MiB:

# %% tags=["nbval-check-output"]
crowded = CachingAllocator(device_bytes=20 * 2**20)
crowded.play([("a", 8 * 2**20), ("b", 4 * 2**20), ("c", 8 * 2**20), ("a", None), ("c", None)])
print(crowded.levels)
try:
    crowded.allocate("d", 9 * 2**20)
except MemoryError as error:
    print(error)

# %% [markdown]
# 16 of 20 MiB are free and 9 cannot be had: they lie in two pieces on both sides of b. This is **fragmentation**, and `inactive_split_bytes` is its measure: free blocks in segments of which a part is in use, so that they cannot go back.
#
# **Predict.** Three steps of Llama-3.2-1B in fp32 at 4,096 tokens have at most 31.00 GiB live. How many GiB are reserved?

# %%
predict("u04-reserved", None, "GiB")

# %% [markdown] exercise={"id": "u04-allocator", "title": "A small caching allocator", "difficulty": 5, "importance": 3, "minutes": 25}
# **Write** `Allocator`, a class with `allocate(num_bytes)`, which returns an address, and `free(address)`. It is made with `reserve`: `reserve(n)` asks the device for a segment of `n` bytes and returns its first address. The device never takes it back, and two segments may lie side by side.
#
# 1. A request becomes a block of `rounded(num_bytes)`.
# 2. Blocks of up to 1 MiB belong to the **small** pool, others to the **large** one; a segment serves one pool.
# 3. Of the free blocks of the pool that are large enough take the smallest; of equal ones that with the lowest address.
# 4. If there is none, reserve `segment_bytes(size)`.
# 5. If at least 512 B (small pool) or *more than* 1 MiB (large pool) of the block would be left over, split them off as a free block behind; otherwise the block is given whole.
# 6. A freed block is joined with free neighbours, before and behind, of the same segment.
#
# A **stream** of requests is a list of whole numbers: one above zero asks for so many bytes, `-n` frees the n-th block that was asked for. Each of three kinds of streams is a third of the points: only small blocks, only large ones, both. The check counts the requests up to the first whose address, or what is reserved after it, is not as the rules say.
#
# *Worked case:* `[1, 1, 1, -2, 600, 400]` gives the addresses **0, 512, 1024, 1536, 512** and reserves **2,097,152** bytes: 600 bytes do not fit into the hole of the second block, 400 do.

# %%
MIB = 2**20


def rounded(num_bytes: int) -> int:
    return -(-num_bytes // 512) * 512


def segment_bytes(size: int) -> int:
    if size <= MIB:
        return 2 * MIB
    return 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB


@dataclass
class Piece:  # for you to use, or not
    address: int
    size: int
    is_free: bool = True


# %% nbgrader={"grade": false, "grade_id": "u04-allocator", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Allocator:
    """Blocks for requests, out of segments that are kept."""

    def __init__(self, reserve: Callable[[int], int]) -> None:
        """Hold no segment yet.

        Args:
            reserve: From a number of bytes to the address of a new segment.
        """
        ### BEGIN SOLUTION
        self.reserve = reserve
        self.small_rows, self.large_rows = [], []  # for each segment its pieces, in order
        ### END SOLUTION

    def allocate(self, num_bytes: int) -> int:
        """The address of a block with at least so many bytes."""
        ### BEGIN SOLUTION
        size = rounded(num_bytes)
        rows = self.small_rows if size <= MIB else self.large_rows
        fitting = [
            (piece.size, piece.address, row)
            for row in rows
            for piece in row
            if piece.is_free and piece.size >= size
        ]
        if fitting:
            _, address, row = min(fitting, key=lambda each: each[:2])
        else:
            address = self.reserve(segment_bytes(size))
            row = [Piece(address, segment_bytes(size))]
            rows.append(row)
        at = next(n for n, piece in enumerate(row) if piece.address == address)
        row[at].is_free = False
        rest = row[at].size - size
        if rest > (MIB if rows is self.large_rows else 0):
            row[at].size = size
            row.insert(at + 1, Piece(address + size, rest))
        return address
        ### END SOLUTION

    def free(self, address: int) -> None:
        """Take back the block at an address."""
        ### BEGIN SOLUTION
        for row in self.small_rows + self.large_rows:
            for at, piece in enumerate(row):
                if piece.address == address and not piece.is_free:
                    piece.is_free = True
                    if at + 1 < len(row) and row[at + 1].is_free:
                        piece.size += row.pop(at + 1).size
                    if at > 0 and row[at - 1].is_free:
                        row[at - 1].size += row.pop(at).size
                    return
        ### END SOLUTION


# %%
def played(allocator_class, stream):
    reserved, addresses, levels = [], [], []

    def reserve(num_bytes):
        reserved.append(num_bytes)
        return sum(reserved) - num_bytes

    allocator = allocator_class(reserve)
    for request in stream:
        if request > 0:
            addresses.append(allocator.allocate(request))
        else:
            allocator.free(addresses[-request - 1])
        levels.append(sum(reserved))
    return {"addresses": addresses, "reserved_bytes": levels}


try_it(played, Allocator, [1, 1, 1, -2, 600, 400])

# %% nbgrader={"grade": true, "grade_id": "u04-allocator-test", "locked": true, "points": 4.5, "schema_version": 3, "solution": false, "task": false}
# Each rule alone; random streams; a traced training step; segments side by side and apart.
check("u04-allocator", Allocator)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u04-allocator", Allocator)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>I do not know how to find a block's neighbours</summary>
#
# A segment is a row of pieces from its first address to its last. If you keep each row in order, where in it are the neighbours?
# </details>
#
# <details><summary>A stream goes wrong in the middle and I cannot see why</summary>
#
# Copy the stream from the sizes below the verdict into a cell with `played`. If it says 5 for small, five requests were as they should be. Draw the segments on paper up to the sixth: which rule acts there?
# </details>
#
# <details><summary>It reserves too much</summary>
#
# Which free block should have served the request? Did it exist: was it split off, joined, and in the right pool?
# </details>

# %% [markdown]
# **Measure.** Three steps of a real training, without the memory for it: the requests of a trace, served by your allocator.

# %%
allocator_of = answer("u04-allocator", Allocator)
llama_run = RunConfig(seq_len=4096, precision=precision("fp32"), is_loss_fp32=True)
with fake_tensors():
    training = Training(preset("Llama-3.2-1B"), llama_run)
    trace = trace_memory(training.step, *training.owners, num_steps=3)

numbers, stream, sizes, allocated = {}, [], {}, []
for name, num_bytes in trace.requests():
    if num_bytes is not None:
        numbers[name], sizes[name] = len(numbers) + 1, rounded(num_bytes)
    stream.append(-numbers[name] if num_bytes is None else num_bytes)
    change = -sizes[name] if num_bytes is None else sizes[name]
    allocated.append(change + (allocated[-1] if allocated else 0))
reserved = played(allocator_of, stream)["reserved_bytes"]
allocator_levels(trace, allocated, reserved)

# %% tags=["nbval-check-output"]
course = [levels.reserved_bytes for levels in CachingAllocator().play(trace.requests())]
print(f"as the course's allocator, request by request: {reserved == course}")
compare(
    "u04-reserved",
    "GiB",
    computed=trace.peak_bytes / 2**30,
    measured=max(reserved) / 2**30,
)

# %% [markdown]
# The same training with shorter sequences:

# %% tags=["nbval-check-output"]
with fake_tensors():
    short = Training(preset("Llama-3.2-1B"), RunConfig(seq_len=1024, precision=precision("fp32")))
    short_trace = trace_memory(short.step, *short.owners, num_steps=3)
levels = CachingAllocator().play(short_trace.requests())
most = max(each.reserved_bytes for each in levels)
print(f"live {short_trace.peak_bytes / 2**30:.2f} GiB, reserved {most / 2**30:.2f} GiB")

# %% [markdown]
# **Explain.** Lecture E (E8) says that the caching allocator warms up in the first step. That is one half: most segments are asked for in step 1, at whose end the optimizer states come and stay (E6), so that step 2 peaks higher and asks again. From step 3 on the device is not asked for anything, which makes later steps faster and the first ones no measure of time. What is reserved beyond the peak are rests of segments and holes of the wrong size: here from half a percent to 8 %, more where shapes change from step to step. Rounding is not the reason: blocks are rounded by a few bytes.
#
# Left out: streams, the settings in `PYTORCH_CUDA_ALLOC_CONF` (`expandable_segments` lets a segment grow and is the cure for much fragmentation), what cuBLAS and NCCL take beside the allocator.

# %% [markdown]
# ## Going further
#
# One **extra** for bonus points, about 10 minutes. The recap is below.

# %% [markdown] exercise={"id": "u04-fragment", "title": "Break the memory up", "difficulty": 3, "importance": 2, "minutes": 10, "extra": true}
# **Write** `fragment`: a stream of at most 1,000 requests for a device of `device_bytes`, a multiple of 20 MiB from 40 MiB on. Every request of it is served; when it is over, at least half of the device is free; and yet a request of a quarter of the device would fail, although the allocator first gives back all segments that are free altogether. All or nothing; the course's `CachingAllocator` plays it.
#
# *For example*, `[8 * MIB, 4 * MIB, 8 * MIB, -1, -3]` is the stream of the crowded device above.


# %% nbgrader={"grade": false, "grade_id": "u04-fragment", "locked": false, "schema_version": 3, "solution": true, "task": false}
def fragment(device_bytes: int) -> list[int]:
    """Requests that leave half of a device free and useless.

    Args:
        device_bytes: Of the device, 40 MiB or more.
    """
    ### BEGIN SOLUTION
    num_pairs = device_bytes // (4 * MIB)
    fill = [2 * MIB] * (2 * num_pairs)
    return fill + [-(2 * pair + 1) for pair in range(num_pairs)]
    ### END SOLUTION


# %%
def left_on_a_device(device_bytes):
    device = CachingAllocator(device_bytes)
    numbered, number = [], 0
    for request in fragment(device_bytes):
        number += request > 0
        numbered.append((number, request) if request > 0 else (-request, None))
    return str(device.play(numbered)[-1])


try_it(left_on_a_device, 40 * MIB)

# %% nbgrader={"grade": true, "grade_id": "u04-fragment-test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# Devices of 40 MiB to 400 MiB: played; the free share; the last request.
check("u04-fragment", fragment)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u04-fragment", fragment)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>The last request is served</summary>
#
# From where: a free block, or a new segment? What has to stay in use in each segment, and between which blocks, so that it is from neither?
# </details>

# %% [markdown]
# ## Recap
#
# 1. *Read*: a trace is the line of live bytes over operations; its peak is where most is live, and `storages_at` says what.
# 2. *Compute*: what is live at each moment follows from what exists by then; step 1 differs because the optimizer states come at its end.
# 3. *Predict and place*: the peak is the largest of a few candidates: the start of backward under the loss, its end with all gradients, or the optimizer's temporaries.
# 4. *Repair*: a graph that no backward pass walks through holds all that it saved; a view holds its whole storage.
# 5. *Explain*: a caching allocator keeps segments, rounds, splits and joins; what is reserved is at least what is allocated, and the driver counts more still.
#
# | moment, in fp32 | bytes |
# |---|---|
# | before the first forward pass / before later ones | 4 N / 12 N |
# | end of backward, optimizer states there | 16 N |
# | AdamW's temporaries beside it, largest tensor of E numbers | for-loop 8 E, foreach 4 N, fused 0 |
# | start of backward at the loss, beside weights, states and activations | 8 sbv |
# | evaluation with graphs kept | what a batch saves, for each batch |
# | block of a tensor | its bytes, rounded up to 512 |
#
# ## Further reading
#
# - PyTorch documentation, *Understanding CUDA Memory Usage* (15 minutes): snapshots of a real device, drawn in the browser; the same line as a trace's, and segments with their blocks.
# - PyTorch documentation, *CUDA semantics*, memory management (10 minutes): the allocator's settings, and which number is which.
# - PyTorch, `c10/cuda/CUDACachingAllocator.cpp`, the comment at its top and `get_free_block`, `should_split`, `try_merge_blocks` (20 minutes): the rules that you wrote, with streams.
# - Shi and DeVito 2023, *Understanding GPU Memory*, parts 1 and 2, PyTorch's blog (15 minutes each): reading snapshots; leaks by cycles of Python objects, a fourth kind that only the garbage collector ends.
# - PyTorch documentation, *Frequently Asked Questions*, on memory (5 minutes): common leaks; compare what it says of sums of losses with your measurement.
