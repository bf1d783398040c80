# ---
# jupyter:
#   course:
#     title: Mixed precision
#     minutes: 120
#     device: CPU
#     lecture: [E12, E13, S11, B7]
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
# # 07 · Mixed precision
#
# Goes with lecture E (E12, E13), lecture S (S11) and lecture B (B7).

# %% [markdown]
# ## Setup

# %% nbgrader={"grade": false, "grade_id": "u07-setup", "locked": true, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
from course_utils.ready import check_setup

check_setup()

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils.checks import answer, check, compare, predict
from course_utils.configs import DEVICES, PRECISIONS, ModelConfig, RunConfig, precision, preset
from course_utils.instruments import (
    count_saved_bytes,
    fake_tensors,
    storage_bytes,
    trace_memory,
)
from course_utils.reference import Block, Transformer, token_loss
from course_utils.reference.mixed_precision import TrainingState
from course_utils.reference.training import Training
from course_utils.show import computed_and_measured, gradient_exponents, recorded, try_it

# %% [markdown]
# ## The update that vanishes
#
# A weight of 1 gets a small step, 0.001, a thousand times over. bf16 has 8 bits, so that the next number above 1 is 1.0078.
#
# **Predict.** What is 1 + 0.001 + 0.001 + …, a thousand times, if every sum is rounded to bf16?

# %%
predict("u07-thousand-steps", None, "is 1 + 1000 · 0.001 in bf16")

# %% [markdown] exercise={"id": "u07-master", "title": "Master weights", "difficulty": 3, "importance": 5, "minutes": 12}
# **Write** `update`: one step of SGD for weights in bf16 that have **master weights** in fp32, copies that keep all digits from step to step. For each weight and its master:
#
# 1. turn the gradient to fp32;
# 2. take learning rate · gradient, in fp32, off the master, **in place**: the same tensor in the same memory;
# 3. round the master into the weight, in place;
# 4. free the gradient: set `weight.grad` to None.
#
# Only one gradient may be in fp32 at a time. A weight whose `.grad` is None stays as it is, as does its master. Few weights, many, and one without gradient are a third of the points each.
#
# *Worked case:* a weight and a master of 1, the gradient 1 in each of four steps, learning rate 0.01: master **0.96**, weight **0.9609375**.


# %% nbgrader={"grade": false, "grade_id": "u07-master", "locked": false, "schema_version": 3, "solution": true, "task": false}
def update(weights: list[Tensor], masters: list[Tensor], learning_rate: float) -> None:
    """One step of SGD on master weights.

    Args:
        weights: Leaves in bf16 that want a gradient; each has one, or None, in `.grad`.
        masters: One for each weight, in fp32, of the same shape.
        learning_rate: Of all.
    """
    ### BEGIN SOLUTION
    for weight, master in zip(weights, masters, strict=True):
        if weight.grad is None:
            continue
        with torch.no_grad():
            master.sub_(learning_rate * weight.grad.to(torch.float32))
            weight.copy_(master)
        weight.grad = None
    ### END SOLUTION


# %%
def four_steps(update):
    weight, master = nn.Parameter(torch.ones(1).bfloat16()), torch.ones(1)
    for _ in range(4):
        weight.sum().backward()
        update([weight], [master], 0.01)
    return {"master": round(master.item(), 6), "weight": weight.item()}


try_it(four_steps, update)

# %% nbgrader={"grade": true, "grade_id": "u07-master-test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
# Beside an independent run: numbers, memory, gradients left, what is in fp32 at once.
check("u07-master", update)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u07-master", update)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>An error says that a leaf is used in an in-place operation</summary>
#
# Autograd records what is done to a weight that wants a gradient. Is an update part of the loss? Which context did unit 03 use to switch recording off?
# </details>
#
# <details><summary>My masters are right, but the weights do not change</summary>
#
# What does an equals sign do in Python: does it write into a tensor, or give a name to another one?
# </details>

# %% [markdown]
# **Measure.** A thousand steps in bf16 alone, and with a master:

# %% tags=["nbval-check-output"]
update_of = answer("u07-master", update)
alone = torch.ones(1).bfloat16()
weight, master = nn.Parameter(alone.clone()), torch.ones(1)
for _ in range(1000):
    alone += 0.001
    weight.grad = torch.full_like(weight, -1)
    update_of([weight], [master], 0.001)
print(f"master {master.item():.4f}, and its weight {weight.item()}")
compare(
    "u07-thousand-steps",
    "is 1 + 1000 · 0.001 in bf16",
    computed=1 + 1000 * 0.001,
    measured=alone.item(),
)

# %% [markdown]
# **Explain.** A sum that is less than half a spacing away from the old number is rounded back to it. Adam's step of a weight is about as large as the learning rate. This is the share of weights, normal with a deviation of 0.02, that one such step leaves where they are:

# %% tags=["nbval-check-output"]
generator = torch.Generator().manual_seed(0)
typical = (0.02 * torch.randn(100_000, generator=generator)).bfloat16()
for step in (1e-3, 1e-4, 1e-5):
    print(f"step {step:g}: {(typical + step == typical).double().mean():.0%} do not move")

# %% [markdown]
# A run that ends with a small learning rate would end early. That is why the 16 N bytes of unit 03 hold 4 N for master weights (E12): the two bytes that the products read are not enough to *remember*. Without masters one has to round at random, up or down with the right odds (**stochastic rounding**).

# %% [markdown]
# ## Gradients that underflow
#
# fp16 has 5 bits for the exponent: its smallest normal number is 2⁻¹⁴, its smallest of all 2⁻²⁴, and what lies at 2⁻²⁵ or below becomes 0. Are gradients so small? Train a small model in fp32 and look at those of its weights and of its logits:

# %% tags=["demonstration"]
torch.set_num_threads(1)  # on tensors as small as these a second one waits more than it works
torch.manual_seed(0)
small = Transformer(
    ModelConfig(num_layers=1, hidden_size=64, num_heads=4, ffn_size=128, vocab_size=512)
)
adamw = torch.optim.AdamW(small.parameters(), 1e-2)


def batch():
    """Each word is 7 or 14 after the last one, at random."""
    jumps = 7 * torch.randint(1, 3, (16, 65)).cumsum(1)
    words = (torch.randint(512, (16, 1)) + jumps) % 512
    return words[:, :-1].contiguous(), words[:, 1:].contiguous()


for _ in range(60):
    ids, targets = batch()
    adamw.zero_grad()
    token_loss(small(ids), targets).backward()
    adamw.step()

# %% tags=["demonstration"]
small.zero_grad()
logits = small(ids)
logits.retain_grad()
token_loss(logits, targets).backward()
exact = [each.grad.clone() for each in small.parameters()]
of_weights = torch.cat([each.flatten() for each in exact])
gradient_exponents({"logits": logits.grad, "weights": of_weights})

# %% [markdown]
# Gradients pass through the logits to all layers below. The loss is a mean: each token's share is divided by their number, and a gradient by the probability of a wrong word, which training makes small. **Loss scaling** multiplies the loss by a factor before the backward pass, so that every gradient on the way is larger by it, and divides the weights' gradients before the optimizer reads them.
#
# How far are the gradients of all weights from those in fp32? In the last column the loss is divided by 4,096, as each token's share of it would be in a batch of four million tokens:

# %% tags=["demonstration"]


def off_by(dtype, scale, share):
    """The distance of all gradients from those in fp32, relative to these."""
    small.zero_grad()
    with torch.autocast("cpu", dtype):
        loss = token_loss(small(ids), targets, is_fp32=True)
    (loss * share * scale).backward()
    mine = [each.grad / (share * scale) for each in small.parameters()]
    pairs = zip(mine, exact, strict=True)
    squares = sum((a - b).square().sum() for a, b in pairs) / sum(b.square().sum() for b in exact)
    return f"{squares.sqrt().item():.2%}"


rows = {
    "fp16": (torch.float16, 1),
    "fp16, scaled by 2^16": (torch.float16, 2**16),
    "bf16": (torch.bfloat16, 1),
}
batches = {"1,024 tokens": 1, "4 M tokens": 2**-12}
pd.DataFrame(
    {
        name: {tokens: off_by(*row, share) for tokens, share in batches.items()}
        for name, row in rows.items()
    }
).T

# %% [markdown]
# Without a scale fp16 gives no usable gradients there. bf16 has the exponents of fp32 and needs none: its row stays the same. With three bits less than fp16 its rounding error is larger, but it is random and small beside the noise of a batch, while zeros are a loss on one side. This is why models are trained in bf16 wherever the hardware has it.
#
# Which scale? As large as possible, and the largest possible one changes in training. So it is found by trying: after an overflow make it smaller and skip the step, after a while without overflow try a larger one.

# %% [markdown] exercise={"id": "u07-scaler", "title": "A loss scaler", "difficulty": 4, "importance": 4, "minutes": 20}
# **Write** `LossScaler`, a class with the attribute `scale` and three methods that are called in this order in every step of training:
#
# 1. `scaled(loss)` returns the loss, multiplied by the scale. (Then comes `.backward()`.)
# 2. `step(optimizer)` divides the gradients of its weights by the scale, in `.grad` itself (which may be None). If one holds an inf or a NaN it **skips** the optimizer's step, else it makes it; it returns whether it did.
# 3. `update()` multiplies the scale by `backoff_factor` after a skipped step, and by `growth_factor` after `growth_interval` good steps **in a row**. Counting begins anew each time.
#
# Weights: `group["params"]` of each `group` in `optimizer.param_groups`. Each of four scenarios is a quarter of the points.
#
# *Worked case:* scale 1,024, factors 2 and 0.5, interval 2, five good steps: the scale is **1024, 2048, 2048, 4096, 4096**.


# %% nbgrader={"grade": false, "grade_id": "u07-scaler", "locked": false, "schema_version": 3, "solution": true, "task": false}
class LossScaler:
    """A scale for the loss, made smaller by an overflow and larger by good steps."""

    def __init__(
        self, scale: float, growth_factor: float, backoff_factor: float, growth_interval: int
    ) -> None:
        """Begin with a scale.

        Args:
            scale: The first one.
            growth_factor: What multiplies it after enough good steps.
            backoff_factor: What multiplies it after a skipped step.
            growth_interval: How many good steps in a row are enough.
        """
        self.scale = scale
        ### BEGIN SOLUTION
        self.growth_factor, self.backoff_factor = growth_factor, backoff_factor
        self.growth_interval = growth_interval
        self.good_steps = 0
        self.stepped = True
        ### END SOLUTION

    def scaled(self, loss: Tensor) -> Tensor:
        """The loss to call backward on."""
        ### BEGIN SOLUTION
        return self.scale * loss
        ### END SOLUTION

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        """Divide the gradients by the scale, and step if all of them are finite."""
        ### BEGIN SOLUTION
        self.stepped = True
        for group in optimizer.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    weight.grad.div_(self.scale)
                    self.stepped &= bool(weight.grad.isfinite().all())
        if self.stepped:
            optimizer.step()
        return self.stepped
        ### END SOLUTION

    def update(self) -> None:
        """Choose the scale of the next step."""
        ### BEGIN SOLUTION
        self.good_steps += 1
        if not self.stepped:
            self.scale, self.good_steps = self.scale * self.backoff_factor, 0
        elif self.good_steps == self.growth_interval:
            self.scale, self.good_steps = self.scale * self.growth_factor, 0
        ### END SOLUTION


# %%
def scales(scaler_class, gradients, growth_interval):
    """The scale after each step, from 1,024; each step has one gradient."""
    weight = nn.Parameter(torch.zeros(1))
    sgd = torch.optim.SGD([weight], 0.1)
    scaler, seen = scaler_class(1024.0, 2.0, 0.5, growth_interval), []
    for gradient in gradients:
        sgd.zero_grad()
        scaler.scaled((weight * gradient).sum()).backward()
        scaler.step(sgd)
        scaler.update()
        seen.append(scaler.scale)
    return seen


try_it(scales, LossScaler, [1.0, 1.0, 1.0, 1.0, 1.0], 2)
try_it(scales, LossScaler, [1.0, float("inf"), 1.0, 1.0, float("nan")], 2)

# %% nbgrader={"grade": true, "grade_id": "u07-scaler-test", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
# Step by step beside torch.amp.GradScaler: scales, gradients, weights, steps skipped.
check("u07-scaler", LossScaler)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u07-scaler", LossScaler)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>My scale grows too early or too late</summary>
#
# Write down the count after each step of the worked case. At which number does the scale grow, and where does the count go then? Where does it go after an overflow?
# </details>
#
# <details><summary>An overflow gets through</summary>
#
# How can you ask a whole tensor whether all of its numbers are finite? With two weights, what becomes of the first one's answer when you ask the second?
# </details>

# %% [markdown]
# **Measure.** The small model in fp16, with a scale that is much too large at first:

# %% tags=["demonstration"]
scaler = answer("u07-scaler", LossScaler)(2.0**28, 2.0, 0.5, 6)
history = []
for _ in range(14):
    ids, targets = batch()
    adamw.zero_grad()
    with torch.autocast("cpu", torch.float16):
        loss = token_loss(small(ids), targets, is_fp32=True)
    used = int(scaler.scale)
    scaler.scaled(loss).backward()
    stepped = scaler.step(adamw)
    history.append({"scale": f"2^{used.bit_length() - 1}", "loss": loss.item(), "stepped": stepped})
    scaler.update()
pd.DataFrame(history)

# %% [markdown]
# **Explain.** The first steps only look for the scale; the loss is finite in them, the gradients are not. `torch.amp.GradScaler` does the same, starts at 2¹⁶ and grows after 2,000 good steps. It never lets the scale itself become infinite in fp32, and refuses a step where no weight has a gradient. A step that is skipped again and again means that the *loss* is not finite: no scale helps then.

# %% [markdown]
# ## What autocast does
#
# Weights in fp32, products in bf16: `torch.autocast` decides for each operation. It casts the inputs of products down, those of delicate operations up, and leaves the others alone. The type of each result, for inputs in both precisions:

# %%
device = "cuda" if torch.cuda.is_available() else "cpu"
x, y = torch.ones(2, 4, 4, device=device)
low, targets = x.bfloat16(), torch.zeros(4, dtype=torch.long, device=device)
operations = {
    "matmul, fp32": (lambda: x @ y, "bf16"),
    "linear, fp32": (lambda: F.linear(x, y), "bf16"),
    "gelu, bf16": (lambda: F.gelu(low), "as its input"),
    "gelu, fp32": (lambda: F.gelu(x), "as its input"),
    "fp32 + bf16": (lambda: x + low, "fp32"),
    "softmax, bf16": (lambda: low.softmax(-1), "fp32"),
    "layer_norm, bf16": (lambda: F.layer_norm(low, (4,)), "fp32"),
    "sum, bf16": (low.sum, "fp32"),
    "exp, bf16": (low.exp, "fp32"),
    "cross_entropy, bf16": (lambda: F.cross_entropy(low, targets), "fp32"),
}
with torch.autocast(device, torch.bfloat16):
    pairs = {name: (run().dtype, told) for name, (run, told) in operations.items()}
pd.DataFrame(pairs, index=[f"measured ({device})", "CUDA, by the documentation"]).T

# %% [markdown]
# On a GPU softmax, norms, sums and exponentials are computed in fp32; a CPU leaves them in bf16. The last column is quoted, not measured: run the cell on a GPU to see. So numbers of one device are not those of the other, and a long sum in bf16 stops on a CPU where a GPU goes on.
#
# A cast makes a copy. Autocast remembers the copy of a *weight* until its region ends, and autograd keeps the copies that the backward pass needs.

# %% [markdown] exercise={"id": "u07-autocast-bytes", "title": "What autocast keeps", "difficulty": 3, "importance": 4, "minutes": 9}
# **Write** `kept_bytes`: what autograd keeps of a block linear (h to f), GELU, linear (f to h), which is called `num_calls` times in a row, each time on its own last result, in **one** autocast region in bf16: a dictionary with `"weights"` (copies of weights) and `"activations"`, two `int`s in bytes. Each is half of the points.
#
# - Parameters, biases and the first input are in fp32; what autograd keeps is what the product read.
# - A linear layer needs its weight for the gradient of its **input**, and its input for the gradient of its weight. The first input wants a gradient only if `wants_input_grad`.
#
# *Worked case:* 3 tokens, h 4, f 8, one call, no gradient for the input: **64** and **120**.


# %% nbgrader={"grade": false, "grade_id": "u07-autocast-bytes", "locked": false, "schema_version": 3, "solution": true, "task": false}
def kept_bytes(
    num_tokens: int, hidden_size: int, ffn_size: int, num_calls: int, wants_input_grad: bool
) -> dict[str, int]:
    """Bytes that a feed-forward block keeps for backward under autocast in bf16.

    Args:
        num_tokens: Tokens s.
        hidden_size: Width h.
        ffn_size: Inner width f.
        num_calls: Calls in a row, in one region.
        wants_input_grad: Whether the input of the first call wants a gradient.

    Returns:
        "weights" and "activations".
    """
    ### BEGIN SOLUTION
    numbers_of_weight = hidden_size * ffn_size
    copies = 1
    if wants_input_grad or num_calls >= 2:
        copies = 2
    to_first, to_gelu_and_second = num_tokens * hidden_size, 2 * num_tokens * ffn_size
    return {
        "weights": 2 * copies * numbers_of_weight,
        "activations": 2 * num_calls * (to_first + to_gelu_and_second),
    }
    ### END SOLUTION


# %%
try_it(kept_bytes, 3, 4, 8, 1, False)

# %% nbgrader={"grade": true, "grade_id": "u07-autocast-bytes-test", "locked": true, "points": 1.5, "schema_version": 3, "solution": false, "task": false}
# A real block under autocast: once and often; on data and behind other layers.
check("u07-autocast-bytes", kept_bytes)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u07-autocast-bytes", kept_bytes)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>My weights are right for one call only</summary>
#
# How often is a weight cast in one region? And the input of the second call: does it want a gradient, even if the first one was data?
# </details>
#
# <details><summary>My activations are too large by the input</summary>
#
# There are two tensors with the input's numbers. Which one did the product read?
# </details>

# %% [markdown]
# **Measure.** The same block on more and more tokens, as data:

# %%
kept_of = answer("u07-autocast-bytes", kept_bytes)


def measured_bytes(num_tokens):
    block = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
    with torch.autocast("cpu", torch.bfloat16):
        return count_saved_bytes(lambda: block(torch.ones(num_tokens, 64)), block).total_bytes


tokens = [4**power for power in range(1, 7)]
computed_and_measured(
    tokens,
    [sum(kept_of(n, 64, 256, 1, False).values()) for n in tokens],
    [measured_bytes(n) for n in tokens],
    size_label="tokens",
    unit="bytes",
    message="With few tokens the copy of a weight is nearly all of it.",
)

# %% [markdown]
# A layer of Llama-3-8B with weights in fp32, under autocast, in one region for two calls and in a region for each:

# %% tags=["nbval-check-output"]
with fake_tensors():
    layer = Block(preset("Llama-3-8B"), 0)
    stream = torch.ones(1, 512, 4096, requires_grad=True)
    shapes = {tuple(p.shape[::way]) for p in layer.parameters() if p.ndim == 2 for way in (1, -1)}
    num_weights = sum(p.numel() for p in layer.parameters() if p.ndim == 2)

    def twice_in_one():
        with torch.autocast("cpu", torch.bfloat16):
            return layer(layer(stream))

    def once_in_each():
        out = stream
        for _ in range(2):
            with torch.autocast("cpu", torch.bfloat16):
                out = layer(out)
        return out

    for call in (twice_in_one, once_in_each):
        tensors = count_saved_bytes(call, layer).tensors
        copies = sum(t.storage_bytes for t in tensors if t.shape in shapes)
        print(f"{call.__name__}: copies of weights {copies / num_weights:g} bytes a parameter")

# %% [markdown]
# **Explain.** With autocast the weights *are* the masters: 4 N, and while a step runs 2 N more for the copies: 16 N + 2 N. Nobody keeps them from step to step, and nobody needs `update`. A region that ends throws its copies away, or leaves them to autograd alone; the next one makes new ones.

# %% [markdown]
# ## Why, if it is 16 N either way?
#
# Lecture E asks why anybody trains in mixed precision when the total is the same (E13). The state in bytes for each parameter, after a real step of AdamW:

# %% tags=["nbval-check-output"]
num_params = 1000
table = {}
for recipe in PRECISIONS:
    state = TrainingState(num_params, recipe)
    state.step()
    parts = {part: sum(map(storage_bytes, held)) for part, held in state.tensors().items()}
    table[recipe] = parts | {"all": sum(parts.values())}
(pd.DataFrame(table).T / num_params).round().astype(int)

# %% [markdown]
# 16, 16, 18, 20, as in lecture S (S11): no gain. Now a whole step of Llama-3.2-1B at 4,096 tokens in fake tensors; about ten seconds.

# %% tags=["demonstration"]
steps = {}
for recipe in ("fp32", "bf16"):
    with fake_tensors():
        run = RunConfig(seq_len=4096, precision=precision(recipe))
        training = Training(preset("Llama-3.2-1B"), run)
        trace = trace_memory(training.step, *training.owners, num_steps=2)
    num_weights = sum(p.numel() for p in training.model.parameters())
    steps[recipe] = {
        "16 N": 16 * num_weights,
        "activations": trace.kept_bytes,
        "peak": trace.peak_bytes,
    }
(pd.DataFrame(steps) / 2**30).round(2)

# %% [markdown]
# **Explain.** In GiB: the activations take half. They decide how much fits, and the products run at another rate: on an A100 312 instead of 19.5 · 10¹² FLOP/s by its data sheet. What was recorded on a GPU:

# %% tags=["nbval-ignore-output"]
recorded("times", ("kind", "shape", "flops_per_second"))

# %% [markdown]
# **fp8** goes on the same way, with one byte for the weights and activations that a product reads. Its two formats reach from 2⁻⁹ to 448 (e4m3) and from 2⁻¹⁶ to 57,344 (e5m2), so that each *tensor* has a scale, as above the loss. Master weights, gradients and moments stay as they are. A weight there and back:

# %% tags=["nbval-check-output"]
matrix = 0.02 * torch.randn(256, 256, generator=generator)
scale = 448 / matrix.abs().max()
eighth = (matrix * scale).to(torch.float8_e4m3fn)
back = eighth.float() / scale
print(f"{storage_bytes(eighth):,} bytes and one scale, instead of {storage_bytes(matrix):,}")
print(f"off by {((back - matrix).norm() / matrix.norm()).item():.1%}")

# %% [markdown]
# ## Which peak?
#
# A faster product needs another denominator for the MFU, and data sheets tempt. Their largest figures have a star: *with sparsity*. Hardware can skip two of every four weights if they are zero (2:4 sparsity); in training they are not. The **dense** peak can be counted: every tensor core does so many multiply-adds in each tick of its clock.

# %% [markdown] exercise={"id": "u07-peak", "title": "The dense peak", "difficulty": 1, "importance": 4, "minutes": 6}
# **Write** `dense_peak`: a dictionary with `"dense_flops_per_second"`, an `int`, and `"mfu"`, a fraction: the FLOPs that a run does in a second, over that peak. Each is half of the points. A multiply-add is two FLOPs; `multiply_adds_per_clock` is that of **one** core, for dense products.
#
# *Worked case:* 2 cores, 4 multiply-adds, 1 MHz; 1,000 FLOPs for a token, 6,400 tokens in a second: **16,000,000** and **0.4**.


# %% nbgrader={"grade": false, "grade_id": "u07-peak", "locked": false, "schema_version": 3, "solution": true, "task": false}
def dense_peak(
    num_tensor_cores: int,
    multiply_adds_per_clock: int,
    clock_mhz: int,
    flops_per_token: int,
    tokens_per_second: int,
) -> dict[str, int | float]:
    """Dense peak of a device, and the part of it that a run uses.

    Args:
        num_tensor_cores: Of the device.
        multiply_adds_per_clock: Of one core, dense.
        clock_mhz: Millions of ticks in a second.
        flops_per_token: Forward and backward.
        tokens_per_second: Of this device.

    Returns:
        "dense_flops_per_second" and "mfu".
    """
    ### BEGIN SOLUTION
    flops_per_clock = 2 * num_tensor_cores * multiply_adds_per_clock
    peak = flops_per_clock * clock_mhz * 10**6
    return {"dense_flops_per_second": peak, "mfu": flops_per_token * tokens_per_second / peak}
    ### END SOLUTION


# %%
try_it(dense_peak, 2, 4, 1, 1000, 6400)

# %% nbgrader={"grade": true, "grade_id": "u07-peak-test", "locked": true, "points": 1.5, "schema_version": 3, "solution": false, "task": false}
# Two real devices and made-up ones, counted operation by operation.
check("u07-peak", dense_peak)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u07-peak", dense_peak)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>My peak is twice what the sheet calls dense, or half of it</summary>
#
# Which factor of two did you put in, and which one stands behind the star? How many FLOPs is one multiply-add?
# </details>

# %% [markdown]
# **Measure.** The A100 has 432 tensor cores with 256 multiply-adds at 1,410 MHz, the H100 SXM 528 with 512 at 1,830 MHz. Beside them what the sheets say, and what a report would claim that divides by the starred figure, for a run at 40 % of dense:

# %% tags=["nbval-check-output"]
peak_of = answer("u07-peak", dense_peak)
counted = {
    "A100-80": peak_of(432, 256, 1410, 1, 1)["dense_flops_per_second"],
    "H100-SXM": peak_of(528, 512, 1830, 1, 1)["dense_flops_per_second"],
}
sheets = []
for name, sheet in DEVICES.items():
    dense, sparse = sheet.dense_flops_per_second("bf16"), sheet.sparse_flops_per_second("bf16")
    sheets.append(
        {
            "device": name,
            "counted": f"{counted[name] / 1e12:,.1f}" if name in counted else "",
            "dense": f"{dense / 1e12:,.1f}",
            "with sparsity": f"{sparse / 1e12:,.1f}",
            "40 % become": f"{0.4 * dense / sparse:.0%}",
        }
    )
pd.DataFrame(sheets).set_index("device")

# %% tags=["nbval-check-output"]
h100 = DEVICES["H100-SXM"].dense_peaks
print(f"bf16 {h100['bf16'] / h100['fp32']:.1f} x fp32, TF32 {h100['tf32'] / 1e12:.1f} TFLOP/s")

# %% [markdown]
# **Explain.** The table of A100 rates in lecture B (B7) prints 156, 312 and 624 for TF32, bf16 and int8, with twice as much behind a star: take the first. The H100 sheet in lecture S (S11) is starred throughout: 1,979 for bf16 is 989 dense, 989 for TF32 is 495, and "67 → 1,979" is 67 → 989, about 15 times and not 30. Of somebody else's MFU ask: which peak?

# %% [markdown] exercise={"id": "u07-choose", "title": "Which format where?", "difficulty": 2, "importance": 5, "minutes": 8}
# **Write** for a model of 8B, to be trained on cards whose tensor cores take fp16, bf16 and fp8, one format for each of these, and why, in half a sentence to a sentence: (1) weights and activations in the products, (2) master weights, (3) gradients as the backward pass leaves them, (4) their sum over micro-batches, (5) Adam's moments, (6) softmax, norms and loss, (7) gradients on their way between cards. Say what would make you choose fp8 for (1).
#
# Double-click the cell below to write.

# %% [markdown] nbgrader={"grade": true, "grade_id": "u07-choose", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# <!-- BEGIN SOLUTION -->
# (1) bf16: as fast as fp16, with the range of fp32, so that no loss scale is needed; the rounding error of 8 bits is random and summed in fp32 inside the product. fp8 if products take most of the time and are large, with a scale for each tensor, and after comparing the loss with a bf16 run. (2) fp32: a step is smaller than half a spacing of bf16 and would vanish. (3) bf16: it is used once; the exponent keeps small ones. (4) fp32: a sum of many small terms in bf16 stops growing; 2 N or 4 N bytes more. (5) fp32: running averages with a factor such as 0.999 change by less than bf16 resolves. (6) fp32: exponentials and long sums; a small share of the time. (7) bf16 halves the traffic, fp32 if many ranks add up: the sum is again the delicate part; say which.
#
# *Rubric:* half for what is read by products in 16 bits with range as the reason, half for fp32 master weights because of vanishing updates, half for fp32 in sums (4, 5, or 6), half for a condition for fp8 and a reason in (7). Another choice counts if its reason names range, spacing, bytes or speed correctly.
# <!-- END SOLUTION -->

# %% [markdown]
# ## Going further
#
# What follows is **extra**: bonus points. The recap is at the end.

# %% [markdown] exercise={"id": "u07-best-scale", "title": "The best scale", "difficulty": 3, "importance": 2, "minutes": 8, "extra": true}
# **Write** `best_scale` for a list of gradients: a dictionary with `"scale"`, the largest power of two by which all may be multiplied so that each, **rounded to fp16**, is finite; and `"still_zero"`, how many that were not zero are zero in fp16 then. Each is half of the points.
#
# fp16's largest number is 65,504, its smallest 2⁻²⁴; a tie goes to the even neighbour. A scale below one is one, too. At least one gradient is not zero.
#
# *Worked case:* `[3.0, 2.0**-40, 0.0]`: **16,384** and **1**.


# %% nbgrader={"grade": false, "grade_id": "u07-best-scale", "locked": false, "schema_version": 3, "solution": true, "task": false}
def best_scale(gradients: list[float]) -> dict[str, float]:
    """The largest scale without overflow in fp16, and what is lost with it.

    Args:
        gradients: Numbers that fp32 holds.

    Returns:
        "scale" and "still_zero".
    """
    ### BEGIN SOLUTION
    exact = torch.tensor(gradients)
    scale = 2.0**60
    while not (exact * scale).half().isfinite().all():
        scale /= 2
    kept = (exact * scale).half().count_nonzero()
    return {"scale": scale, "still_zero": int(exact.count_nonzero() - kept)}
    ### END SOLUTION


# %%
try_it(best_scale, [3.0, 2.0**-40, 0.0])

# %% nbgrader={"grade": true, "grade_id": "u07-best-scale-test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# A negative largest; beyond fp16 already; just above 65,504; halfway to the smallest.
check("u07-best-scale", best_scale)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u07-best-scale", best_scale)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>Some of my scales are half of the right one</summary>
#
# The numbers of fp16 below 65,536 are 32 apart. Up to where does a number round down to 65,504?
# </details>

# %% [markdown]
# ## Recap
#
# 1. *Build*: a format is a sign, an exponent and a fraction; the exponent decides the range, the fraction the spacing.
# 2. *Predict*: a step below half a spacing vanishes, a long sum stops, a gradient below 2⁻²⁵ is zero in fp16.
# 3. *Write*: master weights in fp32 remember small steps; a loss scaler lifts gradients into fp16's range and skips a step that overflows.
# 4. *Choose*: 16 bits where products read, fp32 where something is summed or remembered; the dense peak below the line.
#
# | quantity | value |
# |---|---|
# | spacing of a format with p bits of fraction at 2^e | 2^(e − p) |
# | lost update | less than half a spacing of the weight |
# | fp16: largest, smallest normal, smallest | 65,504, 2⁻¹⁴, 2⁻²⁴ |
# | state, bytes for each parameter | 16 (fp32), 16, 18, 20 (mixed) |
# | autocast | 16 N, and 2 N for copies while a step runs |
# | feed-forward block under autocast, n calls | 2n(sh + 2sf), and 4hf (2hf on data, once) |
# | dense peak | cores · multiply-adds · 2 · clock |
#
# ## Further reading
#
# - Micikevicius et al. 2018, *Mixed Precision Training*, section 3 (15 minutes): master weights, loss scaling, sums in fp32.
# - Micikevicius et al. 2022, *FP8 Formats for Deep Learning*, sections 2 and 3 (15 minutes): the two formats, and a scale for each tensor.
# - PyTorch documentation, *Automatic Mixed Precision package* (10 minutes): the lists of operations for each device.
