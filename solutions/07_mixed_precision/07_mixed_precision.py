# ---
# jupyter:
#   course:
#     title: Where are 16 bits enough?
#     device: CPU
#     needs: ["01", "03"]
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

# %% [markdown] opening=true
# ![The bits of three formats. fp32 has 8 bits of exponent and 23 of mantissa, bf16 8 and 7, fp16 5 and 10. In bf16, 1 + 0.001 is 1. In fp16, 10 to the −8 is 0.](hero.svg)
#
# On paper, an A100 multiplies 16 times as fast in bf16 as in fp32. But in bf16 $1 + 0.001$ is 1, and in fp16 $10^{-8}$ is 0. You will see training fail for both reasons, and build the fixes.
#
# Your training plan counts 16 bytes per parameter and divides by the bf16 peak. It cannot yet say why 12 of those bytes are fp32.
#
# 1. **Build** numbers from their bits.
# 2. **Predict** what overflows, what vanishes, and where a long sum stops.
# 3. **Write** master weights and loss scaling.
# 4. **Choose** a format for each part of training, and the peak to divide by.
#
# | here | in torch | exponent + mantissa bits |
# |---|---|---|
# | fp32 | `torch.float32` | 8 + 23 |
# | tf32 | (fp32, inside a product) | 8 + 10 |
# | bf16 | `torch.bfloat16` | 8 + 7 |
# | fp16 | `torch.float16` | 5 + 10 |
# | fp8-e5m2 | `torch.float8_e5m2` | 5 + 2 |
# | fp8-e4m3 | `torch.float8_e4m3fn` | 4 + 3 |
#
# $M$ is the number of mantissa bits.

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

import math

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder import answer, check, compare, plan, predict, progress
from course_utils import colours
from course_utils.configs import DEVICES, FORMATS, ModelConfig
from course_utils.instruments import count_saved_bytes, numbers_of, storage_bytes, time_call
from course_utils.reference import Transformer, token_loss
from course_utils.show import (
    Choice,
    Picture,
    computed_and_measured,
    explorer,
    facts_of_formats,
    gradient_exponents,
    nearest_number,
    ranges_and_spacings,
    running_sums,
    try_it,
)
from course_utils.show.picture import axes

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %% [markdown]
# ## Four runs of one small model
#
# A one-layer transformer learns to predict the next word, four times, from the same weights and on the same batches. Only the formats differ:
#
# | run | weights and Adam's moments | products |
# |---|---|---|
# | fp32 | fp32 | fp32 |
# | bf16 | bf16 | bf16 |
# | bf16, fp32 weights | fp32 | bf16 |
# | fp16, fp32 weights | fp32 | fp16 |
#
# The largest models take 16 million tokens per optimizer step, in small pieces called **micro-batches**, and divide each piece's loss by the full 16 million. Our runs divide by 16 million too. Adam does not mind: it divides by the size of the gradients.
#
# **Guess first.** The fp32 run ends at a loss near 0.6. How many of the other three end more than 10 % above it?

# %%
predict("u07-runs", None, "runs")


# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Measured: the four runs, 600 steps each (about 15 seconds)
SIZES = ModelConfig(num_layers=1, hidden_size=32, num_heads=4, ffn_size=64, vocab_size=32)
SHARE = 128 / 2**24  # a micro-batch of 128 tokens, a step of 16 million


def batches(num_steps):
    """Each word is the last plus 7, or plus 14 one time in five."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(num_steps):
        jumps = torch.where(torch.rand(8, 17, generator=generator) < 0.2, 14, 7).cumsum(1)
        words = (torch.randint(32, (8, 1), generator=generator) + jumps) % 32
        yield words[:, :-1].contiguous(), words[:, 1:].contiguous()


def train(weights, products, scaler=None, num_steps=600):
    """The model after training, and per step: loss, scale, unchanged weights, median move."""
    torch.manual_seed(0)
    model = Transformer(SIZES).to(weights)
    adamw = torch.optim.AdamW(model.parameters(), 3e-4, eps=1e-12)  # eps below all gradients
    losses, scales, still, moves = [], [], [], []
    after = torch.cat([each.detach().flatten() for each in model.parameters()])
    for ids, targets in batches(num_steps):
        before = after
        adamw.zero_grad()
        with torch.autocast("cpu", products, enabled=products != weights):
            loss = token_loss(model(ids), targets, is_fp32=True)
        if scaler is None:  # a scaler comes in 07.3
            (SHARE * loss).backward()
            adamw.step()
        else:
            scales.append(scaler.scale)
            scaler.scaled(SHARE * loss).backward()
            scaler.step(adamw)
            scaler.update()
        losses.append(loss.item())
        after = torch.cat([each.detach().flatten() for each in model.parameters()])
        still.append((after == before).double().mean().item())
        moves.append((after - before).abs().median().item())
    run = {"model": model, "losses": losses, "last": sum(losses[-20:]) / 20}
    return run | {"scales": scales, "still": still, "moves": moves}


def loss_curves(runs, caption):
    figure, ax = axes()
    styles = {
        "fp32": {"color": colours.IDLE, "lw": 6, "alpha": 0.5},
        "bf16": {"color": colours.PARAMETERS, "lw": 2},
        "bf16, fp32 weights": {"color": colours.MEASURED, "lw": 1.2, "linestyle": "--"},
        "fp16, fp32 weights": {"color": colours.GRADIENTS, "lw": 2},
        "fp16, fp32 weights, scaled": {"color": colours.MEASURED, "lw": 1.2, "linestyle": "--"},
    }
    for name, run in runs.items():
        smooth = torch.tensor(run["losses"]).unfold(0, 20, 5).mean(1)
        ax.plot(range(20, 20 + 5 * len(smooth), 5), smooth, label=name, **styles[name])
    ax.set_ylim(0, 3.6)
    ax.set_xlabel("steps")
    ax.set_ylabel("loss (20-step mean)")
    ax.legend(frameon=False)
    return Picture(figure, caption)


threads = torch.get_num_threads()
torch.set_num_threads(1)  # on tensors this small a second thread only waits
runs = {
    "fp32": train(torch.float32, torch.float32),
    "bf16": train(torch.bfloat16, torch.bfloat16),
    "bf16, fp32 weights": train(torch.float32, torch.bfloat16),
    "fp16, fp32 weights": train(torch.float32, torch.float16),
}
torch.set_num_threads(threads)
loss_curves(runs, "The dashed curve lies on the fp32 curve; the other two fall behind.")

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Measured: the last losses
last_losses = {name: f"{run['last']:.2f}" for name, run in runs.items()}
pd.DataFrame({"loss at the end": last_losses})

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Measured: how many of them are more than 10 % above that of fp32
worse = [name for name, run in runs.items() if run["last"] > 1.1 * runs["fp32"]["last"]]
compare("u07-runs", "runs", measured=len(worse))

# %% [markdown]
# Two runs end at twice the loss. Multiplying in 16 bits is not the reason: the dashed run does that too, and matches fp32. One of the two loses its *steps*, the other its *gradients*.

# %% [markdown]
# ## One number in 8 bits
#
# Put 0.3 into 8 bits, and look at them:

# %% tags=["nbval-check-output"]
in_8_bits = torch.tensor(0.3).to(torch.float8_e5m2)
print(in_8_bits.item(), "has the bits", format(in_8_bits.view(torch.uint8).item(), "08b"))

# %% folded=true
# Drawing: the bits, and its two neighbors
nearest_number(exponent_bits=5, mantissa_bits=2, value="0.3")

# %% [markdown]
# From the left: the **sign**; the **exponent** 01101, which is 13, minus a **bias** of 15, so $2^{-2}$; the **mantissa** 01, a quarter of the way to the next power of two. That is $2^{-2} \cdot 1.25 = 0.3125$. The distance to the next number is the **spacing**: 0.0625.

# %% [markdown]
# ![The numbers of fp8-e5m2 from 0 to 8 on a line, closer and closer together towards 0.](numbers.svg)

# %% [markdown]
# There are equally many numbers between each power of two and the next. So the spacing grows with the number and stays about the same *relative* to it.
#
# **Guess first.** How many numbers does fp16, with 10 mantissa bits, have from 1 up to but not including 2?

# %%
predict("u07-between", None, "numbers")

# %% A number from its bits [markdown] exercise="u07-value" points=2 minutes=11 difficulty=2 importance=4
# **Write** `value_of`: the number that a pattern of bits stands for, a `float`. `bits` is a string such as `"00111110"`: the sign, `num_exponent_bits` exponent bits, and $M$ mantissa bits. Read exponent and mantissa as integers $e$ and $m$; the bias is $2^{\text{exponent bits} - 1} - 1$.
#
# | exponent bits | number | name |
# |---|---|---|
# | all zeros | $2^{1 - \text{bias}} \cdot m / 2^M$ | zero, or **subnormal** |
# | all ones | infinity if $m = 0$, otherwise NaN | |
# | any other | $2^{e - \text{bias}} \cdot (1 + m / 2^M)$ | **normal**, with a **hidden one** |
#
# A sign bit of 1 means minus; the sign of zero is ignored. Use `math.inf` and `math.nan`.
#
# *By hand:* `"00111110"` with 5 exponent bits → **1.5**; `"00000001"`, the smallest number above zero → $2^{-16}$.


# %% solution="u07-value"
def value_of(bits: str, num_exponent_bits: int) -> float:
    """The number that a pattern of bits stands for, by the rules of IEEE 754."""
    ### BEGIN SOLUTION
    exponent_bits, mantissa_bits = bits[1 : 1 + num_exponent_bits], bits[1 + num_exponent_bits :]
    sign = -1 if bits[0] == "1" else 1
    exponent, mantissa = int(exponent_bits, 2), int(mantissa_bits, 2)
    part = mantissa / 2 ** len(mantissa_bits)
    all_ones = 2**num_exponent_bits - 1
    bias = all_ones // 2
    if exponent == all_ones:
        return sign * math.inf if mantissa == 0 else math.nan
    if exponent == 0:
        return sign * part * 2.0 ** (1 - bias)
    return sign * (1 + part) * 2.0 ** (exponent - bias)
    ### END SOLUTION


# %%
try_it(value_of, "00111110", 5)
try_it(value_of, "00000001", 5)

# %% check="u07-value"
# fp8, fp16, bf16, tf32, fp32; zero, subnormal, normal, infinite, NaN.

# %% [markdown]
# <details><summary>Hint: my zero is a very small number</summary>
#
# With a hidden one every number is at least a power of two. For which exponent does the table leave it out?
# </details>

# %% [markdown]
# **Check your guess**, and your function on every pattern of three formats, against the same bits in a tensor:

# %% folded=true tags=["nbval-check-output"]
# Measured: all patterns of bf16, fp16 and fp8
value = answer("u07-value", value_of)
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp8-e5m2": torch.float8_e5m2}
numbers, agreeing = {}, {}
for name, dtype in TYPES.items():
    width = FORMATS[name].num_bits
    patterns = [format(n, f"0{width}b") for n in range(2**width)]
    mine = [value(bits, FORMATS[name].num_exponent_bits) for bits in patterns]
    pairs = zip(mine, numbers_of(dtype), strict=True)
    equal = sum(a == b or (math.isnan(a) and math.isnan(b)) for a, b in pairs)
    agreeing[name] = {"patterns": f"{len(mine):,}", "that agree": f"{equal:,}"}
    numbers[name] = mine
pd.DataFrame(agreeing).T

# %% folded=true tags=["nbval-check-output"]
# Table: your guess beside the measurement
compare(
    "u07-between",
    "numbers",
    computed=2 ** FORMATS["fp16"].num_mantissa_bits,
    measured=sum(1 <= each < 2 for each in numbers["fp16"]),
)

# %% folded=true tags=["nbval-check-output"]
# Table: facts about each format
numbers["fp8-e4m3"] = numbers_of(torch.float8_e4m3fn)
numbers["int8"] = list(range(-128, 128))
facts_of_formats(numbers)

# %% [markdown]
# About half of a format's numbers lie between −1 and 1. int8 has the same spacing everywhere.

# %% folded=true
# Figure: from the smallest to the largest number
ranges_and_spacings()

# %% [markdown]
# bf16 is fp32 without its last 16 bits. fp16 has three more mantissa bits, and pays for them with range. tf32 has bf16's range and fp16's mantissa.

# %% [markdown]
# ## Rounding
#
# Every result is rounded to the nearest number of its format. The spacing there is $2^{p - M}$, where $2^p$ is the power of two at or below its absolute value. A **tie**, exactly halfway between two numbers, goes to the one whose last bit is 0.
#
# Try it: which value breaks which format, and how?

# %% folded=true
# Explorer: run this cell, then move the controls
explorer(
    nearest_number,
    exponent_bits=Choice("exponent, bits", [2, 3, 4, 5, 6, 7, 8], 5),
    mantissa_bits=Choice("mantissa, bits", [1, 2, 3, 4, 5, 7, 10, 23], 10),
    value=Choice(
        "value",
        ["1e-38", "1e-8", "0.001", "0.1", "1.0", "1.003", "257", "65504", "70000"],
        "0.1",
    ),
)

# %% [markdown]
# A number can be **too large**, **too small**, or **too close** to its neighbor:

# %% folded=true tags=["nbval-check-output"]
# Table: too large, too small, too close
examples = torch.tensor([65_519, 65_520, 1e-8, 257, 1.001])
in_formats = {name: examples.to(TYPES[name]).tolist() for name in ("bf16", "fp16")}
table = pd.DataFrame(in_formats, index=["65,519", "65,520", "1e-8", "257", "1.001"])
table.map("{:,.7g}".format)

# %% [markdown]
# - fp16 ends at 65,504; from half a spacing above that, everything rounds to infinity.
# - bf16 has 8 significant bits. Positions 256 and 257 would collide, so rotary angles are computed in fp32.
# - **tf32** is not a storage format: a tensor keeps its 4 bytes, and tensor cores round the *factors* of a product. PyTorch leaves it off for matrix products until you turn it on.

# %% [markdown]
# ## A long sum
#
# **Guess first.** You add 0.01 to a running sum in bf16, 4,096 times, starting at 0. Where does the sum end?

# %%
predict("u07-sum", None, "in bf16")

# %% tags=["nbval-check-output"]
term, total, shown = torch.tensor(0.01).bfloat16(), torch.tensor(0.0).bfloat16(), []
for n in range(1, 4097):
    total = total + term
    if n in (1, 16, 64, 256, 512, 1024, 4096):
        shown.append({"terms": n, "sum": total.item(), "exact": n * term.item()})
pd.DataFrame(shown).set_index("terms")

# %% folded=true tags=["nbval-check-output"]
# Table: your guess beside the measurement
compare("u07-sum", "in bf16", measured=total.item())

# %% [markdown]
# The spacing grows with the sum, and the term does not. From 4 on the spacing is 1/32, and 0.01, less than half of it, is rounded away.

# %% [markdown]
# And yet torch's own sum of the 4,096 terms is right:

# %% tags=["nbval-check-output"]
terms = torch.full((4096,), 0.01, dtype=torch.bfloat16)
print(terms.sum().item(), "of", 4096 * term.item())

# %% [markdown]
# It adds in fp32 and rounds once, at the end. Matrix products must too: each entry is a long sum, here of 4,096 terms:


# %% folded=true
# Figure: one entry of a matrix product, three ways
def running(products, dtype):
    total, sums = torch.tensor(0.0, dtype=dtype), []
    for product in products:
        total = (total.float() + product).to(dtype)
        sums.append(total.item())
    return sums


generator = torch.Generator().manual_seed(0)
exact_a, exact_b = (torch.empty(4096).uniform_(0.5, 1, generator=generator) for _ in "ab")
products = exact_a.bfloat16().float() * exact_b.bfloat16().float()
running_sums(
    {
        "exact factors, exact sum": (exact_a.double() * exact_b.double()).cumsum(0).tolist(),
        "bf16 factors, sum in fp32": running(products, torch.float32),
        "bf16 factors, sum in bf16": running(products, torch.bfloat16),
    },
    stop=256.0,
)

# %% [markdown]
# Every term is below 1, and from 256 on the spacing is 2: the bf16 sum stops there. The bf16 *factors* do little harm: their errors mostly cancel, and the fp32 sum is off by less than 0.01 %. So tensor cores take 16-bit factors and **add in fp32**. That is why the dashed run does so well.

# %% [markdown]
# ## Steps that vanish
#
# A weight of 1 takes a thousand steps of 0.005. The exact result is 6.
#
# **Guess first.** Where does $1 + 0.005 + 0.005 + \dots$ end if every sum is rounded to bf16?

# %%
predict("u07-thousand-steps", None, "in bf16")

# %% Master weights [markdown] exercise="u07-master" points=3 minutes=14 difficulty=3 importance=5
# **Write** `update`: one step of SGD for weights in bf16 that have **master weights** in fp32, copies that keep the digits bf16 drops. For each weight and its master:
#
# 1. convert the gradient to fp32;
# 2. subtract learning rate · gradient, in fp32, from the master, **in place**: the same tensor in the same memory;
# 3. round the master into the weight, in place;
# 4. free the gradient: set `weight.grad` to None.
#
# Do not hold all gradients in fp32 at once. A weight whose `.grad` is None stays as it is, and so does its master. Weights still require a gradient afterwards. Three scenarios, a third of the points each: few weights, many, one without a gradient.
#
# *By hand:* a weight and a master of 1, a gradient of 1 in each of four steps, learning rate 0.01 → master **0.96**, weight **0.9609375**.


# %% solution="u07-master"
def update(weights: list[Tensor], masters: list[Tensor], learning_rate: float) -> None:
    """One step of SGD on master weights; the weights, in bf16, follow them."""
    ### BEGIN SOLUTION
    for weight, master in zip(weights, masters, strict=True):
        if weight.grad is None:
            continue
        with torch.no_grad():
            master.sub_(learning_rate * weight.grad.to(torch.float32))
            weight.copy_(master)
        weight.grad = None
    ### END SOLUTION


# %% folded=true
# Try it: one weight, four steps
def four_steps(update):
    weight, master = nn.Parameter(torch.ones(1).bfloat16()), torch.ones(1)
    for _ in range(4):
        weight.sum().backward()
        update([weight], [master], 0.01)
    return {"master": round(master.item(), 6), "weight": weight.item()}


try_it(four_steps, update)

# %% check="u07-master"
# Few weights, many, one without gradient: numbers, memory, gradients left. A third each.

# %% [markdown]
# <details><summary>Hint: an error about a leaf variable in an in-place operation</summary>
#
# Is an update part of the loss? Which context switches recording off?
# </details>
#
# <details><summary>Hint: my weights do not change</summary>
#
# Does an equals sign write into a tensor, or does it give the name to another tensor?
# </details>

# %% [markdown]
# **Check your guess:** a thousand steps in bf16 alone, and with a master:

# %% folded=true tags=["nbval-check-output"]
# Measured: a thousand steps of 0.005
update_of = answer("u07-master", update)
alone = torch.ones(1).bfloat16()
weight, master = nn.Parameter(alone.clone()), torch.ones(1)
for _ in range(1000):
    alone += 0.005
    weight.grad = torch.full_like(weight, -1)
    update_of([weight], [master], 0.005)
print(f"master {master.item():.3f}, and its weight {weight.item()}")
compare("u07-thousand-steps", "in bf16", measured=alone.item())

# %% [markdown]
# From 1 to 2 the spacing is 0.0078: each step is rounded *up* to a full spacing, and the sum runs ahead. From 2 on the spacing doubles, and every step is rounded away.
#
# In the four runs, Adam's first step is the learning rate, $3 \cdot 10^{-4}$; later ones are smaller. 30 % of the weights start above 1/8 in absolute value, where half a spacing of bf16 is more than that.
#
# **Guess first.** What percentage of the weights did the *last* step of the bf16 run leave unchanged?

# %%
predict("u07-still", None, "percent")

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Measured: weights that a step did not move, and how large a step is
rows = {}
for name in ("bf16", "bf16, fp32 weights"):
    still, moves = runs[name]["still"], runs[name]["moves"]
    rows[name] = {
        "unchanged by the first step": f"{still[0]:.0%}",
        "by the last": f"{still[-1]:.0%}",
        "median first step": f"{moves[0]:.2g}",
        "median last step": f"{moves[-1]:.2g}",
    }
pd.DataFrame(rows).T

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Table: your guess beside the measurement
compare("u07-still", "percent", measured=round(100 * runs["bf16"]["still"][-1], 1))

# %% [markdown]
# That is the first failure: steps shrink during training, the spacing does not. **16 bits are enough to multiply by a weight, but too few to remember it.**
#
# Adam's moments are memories too. While a gradient is zero, each step multiplies the second moment by 0.999. After a thousand steps:

# %% tags=["nbval-check-output"]
in_bf16, in_fp32 = torch.tensor(1.0).bfloat16(), torch.tensor(1.0)
for _ in range(1000):
    in_bf16, in_fp32 = in_bf16 * 0.999, in_fp32 * 0.999
print(f"in bf16 {in_bf16.item()}, in fp32 {in_fp32.item():.4f}")

# %% [markdown]
# In bf16 the moment never decays, so moments are fp32 too.

# %% [markdown]
# ## Gradients that vanish
#
# The smallest normal number of fp16 is $2^{-14}$, the smallest of all $2^{-24}$, and whatever is $2^{-25}$ or less becomes 0. Here are the gradients of the small model's logits and weights, after its fp32 run:

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Figure: gradients in fp32, and where fp16 ends
small = runs["fp32"]["model"]
small.zero_grad()
some_ids, some_targets = next(batches(1))
logits = small(some_ids)
logits.retain_grad()
(SHARE * token_loss(logits, some_targets)).backward()
of_weights = torch.cat([each.grad.flatten() for each in small.parameters()])
gradient_exponents({"logits": logits.grad, "weights": of_weights})

# %% [markdown]
# Nearly all gradients of the logits are lost, and most of the weights'. Why so small? The loss is a mean over all tokens of the step. And a logit's gradient is about the probability of its word, tiny for most words.
#
# **Loss scaling** multiplies the loss by a factor before the backward pass, and so every gradient. Before the optimizer reads the gradients of the weights, they are divided by it. The best scale is the largest that does not overflow, and changes during training. So it is found by trial and error: after an overflow, skip the step and lower the scale; after a while without one, raise it.

# %% A loss scaler [markdown] exercise="u07-scaler" points=4 minutes=19 difficulty=4 importance=4
# **Write** three methods of `LossScaler`, called in this order in every training step:
#
# 1. `scaled(loss)` returns the loss times the scale, a new tensor; `loss` itself stays as it is. (The training loop then calls `.backward()` on the result.)
# 2. `step(optimizer)` divides the gradients of the optimizer's weights by the scale, in `.grad`, in every step, and leaves them there. If any number in any of them is an inf or a NaN, the optimizer's step is **skipped**; otherwise, call `optimizer.step()`. Return `True` if it was called, `False` if skipped. A `.grad` that is None counts as fine, even if all are.
# 3. `update()` multiplies the scale by `backoff_factor` after a skipped step, and by `growth_factor` after `growth_interval` good steps **in a row**. After either, counting starts again from 0.
#
# The weights are in `group["params"]` of each `group` in `optimizer.param_groups`. Four scenarios, a quarter of the points each: growth, overflow, one after the other, and a weight without a gradient.
#
# *By hand:* scale 1,024, factors 2 and 0.5, interval 2; the scale after each of five good steps → **1024, 2048, 2048, 4096, 4096**.


# %% solution="u07-scaler"
class LossScaler:
    """A scale for the loss: an overflow lowers it, good steps raise it."""

    def __init__(
        self, scale: float, growth_factor: float, backoff_factor: float, growth_interval: int
    ) -> None:
        """Begin with a scale."""
        self.scale = scale
        self.growth_factor, self.backoff_factor = growth_factor, backoff_factor
        self.growth_interval = growth_interval
        self.good_steps = 0  # in a row
        self.stepped = False  # whether the last step was taken

    def scaled(self, loss: Tensor) -> Tensor:
        """The scaled loss."""
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


# %% folded=true
# Try it: good steps; then overflows, which give 1024, 512, 512, 1024, 512
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
try_it(scales, LossScaler, [1.0, math.inf, 1.0, 1.0, math.nan], 2)

# %% check="u07-scaler"
# Compared with torch.amp.GradScaler: growth, overflow, one after the other, one without gradient.

# %% [markdown]
# <details><summary>Hint: my scale grows too early or too late</summary>
#
# Write down the count after each step of the case. What does it become when the scale grows, and what after an overflow?
# </details>

# %% [markdown]
# **Fix the fp16 run** with your scaler. It starts much too high, at $2^{40}$:

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Measured: the fp16 run once more, with your scaler (about 5 seconds)
scaler_of = answer("u07-scaler", LossScaler)
threads = torch.get_num_threads()
torch.set_num_threads(1)
scaled_run = train(torch.float32, torch.float16, scaler_of(2.0**40, 2.0, 0.5, 100))
torch.set_num_threads(threads)
powers_of_scale = [f"{math.log2(each):.0f}" for each in scaled_run["scales"]]
print("scale, powers of two:", *powers_of_scale[:8], "…", powers_of_scale[-1])
print(f"last loss {scaled_run['last']:.2f}, in fp32 {runs['fp32']['last']:.2f}")
mended = {name: runs[name] for name in ("fp32", "fp16, fp32 weights")}
loss_curves(
    mended | {"fp16, fp32 weights, scaled": scaled_run},
    "With a loss scale, fp16 lies on the fp32 curve too.",
)

# %% [markdown]
# The first steps only search for the scale: the loss is finite, the gradients are not. `torch.amp.GradScaler` does the same; it starts at $2^{16}$ and grows after 2,000 good steps.
#
# bf16 has the range of fp32 and needs no scale. So models are trained in bf16 wherever the hardware has it.

# %% [markdown]
# ## What autocast does
#
# What rounds the fp32 weights before each product? Inside `with torch.autocast(…):`, its **region**, PyTorch casts the inputs of products down, those of sums and exponentials up, and leaves the rest alone.

# %% folded=true
# Measured: the type of each result, for inputs in both precisions
names = {torch.float32: "fp32", torch.bfloat16: "bf16"}
device = "cuda" if torch.cuda.is_available() else "cpu"
high = torch.ones(4, 4, device=device)
low, labels = high.bfloat16(), torch.zeros(4, dtype=torch.long, device=device)
operations = {
    "matmul, fp32": (lambda: high @ high, "bf16"),
    "linear, fp32": (lambda: F.linear(high, high), "bf16"),
    "gelu, bf16": (lambda: F.gelu(low), "as its input"),
    "gelu, fp32": (lambda: F.gelu(high), "as its input"),
    "fp32 + bf16": (lambda: high + low, "fp32"),
    "softmax, bf16": (lambda: low.softmax(-1), "fp32"),
    "layer_norm, bf16": (lambda: F.layer_norm(low, (4,)), "fp32"),
    "sum, bf16": (low.sum, "fp32"),
    "exp, bf16": (low.exp, "fp32"),
    "cross_entropy, bf16": (lambda: F.cross_entropy(low, labels), "fp32"),
}
with torch.autocast(device, torch.bfloat16):
    types = {name: (names[run().dtype], told) for name, (run, told) in operations.items()}
pd.DataFrame(types, index=[f"measured ({device})", "CUDA (documented)"]).T

# %% [markdown]
# The last column is quoted: a GPU keeps more in fp32 than a CPU. Under autocast the fp32 weights *are* the masters, and no `update` is needed.

# %% [markdown]
# ## What is it worth?
#
# **Mixed precision saves no state** (E13): weights, gradients and optimizer take 16 bytes per parameter in fp32 and in bf16, 18 if bf16 keeps its gradients in fp32 (E12, S11). But saved activations take half the bytes, and products run faster. According to its data sheet, an A100 does $312 \cdot 10^{12}$ FLOP/s on tensor cores in bf16, and $19.5 \cdot 10^{12}$ in fp32 without them: 16 times as many.
#
# **Guess first.** Multiply two 1,024 × 1,024 matrices on one thread of this machine's processor. How many times as fast is bf16 as fp32?

# %%
predict("u07-clock", None, "times as fast")


# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Measured: products and a training step, timed on this machine (about 5 seconds)
def seconds_of(call):
    return time_call(call, num_runs=5, device="cpu").median_seconds


def product_seconds(size, dtype):
    factor = torch.ones(size, size, dtype=dtype)
    return seconds_of(lambda: factor @ factor)


def step_seconds(products):
    model, (words, next_words) = Transformer(SIZES), next(batches(1))

    def step():
        with torch.autocast("cpu", products, enabled=products != torch.float32):
            loss = token_loss(model(words), next_words, is_fp32=True)
        loss.backward()

    return time_call(step, num_runs=50, device="cpu").median_seconds


threads = torch.get_num_threads()
torch.set_num_threads(1)
times_faster = product_seconds(1024, torch.float32) / product_seconds(1024, torch.bfloat16)
of_fp16 = product_seconds(256, torch.float32) / product_seconds(256, torch.float16)
of_step = step_seconds(torch.float32) / step_seconds(torch.bfloat16)
torch.set_num_threads(threads)
capabilities = torch.cpu.get_capabilities()
bf16_names = [name for name in capabilities if "bf16" in name and capabilities[name]]
print("bf16 instructions in this processor:", ", ".join(bf16_names) or "none")
ratios = {
    "a product in bf16": times_faster,
    "a product in fp16": of_fp16,
    "the small model's step in bf16": of_step,
    "a product in bf16, A100 (data sheet)": 16,
}
pd.DataFrame({"times as fast as in fp32": {name: f"{n:.2g}" for name, n in ratios.items()}})

# %% folded=true tags=["demonstration", "nbval-ignore-output"]
# Table: your guess beside the measurement
compare("u07-clock", "times as fast", measured=round(times_faster, 2))

# %% [markdown]
# The 16 comes from tensor cores, circuits for 16-bit products, which most CPUs lack:
#
# - With bf16 instructions, a vector holds twice as many numbers: a factor of two, or more.
# - Without them PyTorch has to convert, and bf16 is *slower*, as fp16 is on most processors.
# - The small model's step loses: products are a small part of it, and autocast adds casts.
#
# On a GPU too, a format speeds up products and not the rest.
#
# **fp8** stores what a product reads in a single byte. Its range is so short that each tensor needs a scale of its own.

# %% [markdown]
# ## Which peak?
#
# Utilization needs a peak to divide by. The largest figures on a data sheet have a star: *with sparsity*, where two of every four weights are zero. In training they are not. The **dense** peak can be computed:
#
# $$\text{peak} = 2 \cdot \text{tensor cores} \cdot \text{multiply-adds per cycle} \cdot \text{clock}$$
#
# An A100 has 432 tensor cores with 256 multiply-adds per cycle each, at 1,410 MHz; an H100 SXM 528 with 512, at 1,830 MHz.

# %% folded=true tags=["nbval-check-output"]
# Table: bf16 peaks computed and published, TFLOP/s
peaks = {"A100-80": 2 * 432 * 256 * 1410e6, "H100-SXM": 2 * 528 * 512 * 1830e6}
rates = {}
for name, sheet in DEVICES.items():
    dense, sparse = sheet.dense_flops_per_second("bf16"), sheet.sparse_flops_per_second("bf16")
    rates[name] = {
        "computed": f"{peaks[name] / 1e12:,.1f}" if name in peaks else "",
        "dense": f"{dense / 1e12:,.1f}",
        "with sparsity": f"{sparse / 1e12:,.1f}",
    }
pd.DataFrame(rates).T

# %% [markdown]
# 40 % of the dense peak is 20 % of the starred one. When somebody reports a utilization, ask: *of which peak?*
#
# <details><summary>From the slides: starred rates</summary>
#
# Lecture B's table of A100 rates (B7) prints 156, 312 and 624 for TF32, bf16 and int8, and the doubled rates starred: use the unstarred. Lecture S quotes the starred rows of the H100 (S11): 1,979 for bf16 is 989 dense, 989 for TF32 is 495, and "67 → 1,979" is 67 → 989, about 15 times, not 30.
# </details>

# %% Which format where? [markdown] exercise="u07-choose" points=2 minutes=8 difficulty=2 importance=5
# An 8B model trains on GPUs whose tensor cores support fp16 and bf16. **Write** one sentence each: which format, and why, for
#
# 1. weights and activations in the products,
# 2. master weights,
# 3. the sum of gradients over many micro-batches.
#
# Then: would loss scaling mend the run that is all in bf16? Why, or why not?

# %% [markdown] text_answer="u07-choose"
# <!-- BEGIN SOLUTION -->
# (1) bf16: as fast as fp16, with the range of fp32, so that no loss scale is needed; the rounding error of 8 significant bits is small, and the products are summed in fp32. (2) fp32: a step is smaller than half a spacing of bf16 and would vanish. (3) fp32: a sum of many small terms in bf16 stops growing; 2 N or 4 N bytes more.
#
# No. Loss scaling lifts gradients that fall below the range, and bf16 has the range of fp32: that run's gradients were good. It lost its steps: nine of ten weights did not move, because the step was less than half their spacing. The scale is divided out before the step, so the step of Adam and the spacing of the weights stay as they were.
#
# *Rubric:* half for bf16 in the products with range as the reason (or fp16 with a loss scale), half for fp32 master weights because small steps vanish, half for fp32 sums of gradients because a long sum loses small terms, half for no: the run loses steps, not gradients, or the scale is divided out before the step. Another choice counts if its reason names range, spacing, bytes or speed correctly.
# <!-- END SOLUTION -->

# %% [markdown]
# ## Extras
#
# Bonus points, in any order. The recap is at the end.
#
# ### Where a sum stops
#
# bf16 adds 0.01 up to 4. And other terms, in other formats?

# %% Where a sum stops [markdown] exercise="u07-stops" points=2 minutes=14 difficulty=3 importance=5 extra=true
# **Write** `stops_at`: the value at which a running sum of equal terms stops growing, a `float`. After each addition the sum is rounded to `num_mantissa_bits` bits of mantissa. `term` is a positive number of the format itself; the sum starts at 0 and stays within the format's range. Do not add term by term: 52 mantissa bits would take $10^{16}$ terms.
#
# How small must a term be, compared with the spacing at the sum, to be rounded away? And a tie?
#
# *By hand:* the term 1.0 with 2 mantissa bits: 1, 2, … 8, and then 9 lies between 8 and 10 → **8.0**.


# %% solution="u07-stops"
def stops_at(term: float, num_mantissa_bits: int) -> float:
    """The value at which a running sum of equal terms stops growing."""
    ### BEGIN SOLUTION
    power_above_term = math.ceil(math.log2(term))
    return 2.0 ** (power_above_term + 1 + num_mantissa_bits)
    ### END SOLUTION


# %%
try_it(stops_at, 1.0, 2)

# %% check="u07-stops"
# Powers of two and terms between them; five formats.

# %% [markdown]
# <details><summary>Hint: my value is half of the right one</summary>
#
# At your value the spacing is no larger than the term. Which terms are still rounded *up* to a whole spacing?
# </details>

# %% [markdown]
# How far each format can count by ones:


# %% folded=true tags=["nbval-check-output"]
# Measured: counting by ones (fp32 starts just before its end)
stop_of = answer("u07-stops", stops_at)


def counted(dtype, start=0.0):
    total, before = start, -1.0
    while total != before:
        before, total = total, torch.tensor(total + 1).to(dtype).item()
    return int(total)


ends = {}
for name, dtype in (TYPES | {"fp32": torch.float32}).items():
    start = 2.0**24 - 9 if name == "fp32" else 0.0
    computed = stop_of(1.0, FORMATS[name].num_mantissa_bits)
    ends[name] = {"computed": f"{computed:,.0f}", "counted": f"{counted(dtype, start):,}"}
pd.DataFrame(ends).T

# %% [markdown]
# ### Rounding, by hand
#
# The spacing at $x$ is $2^{p - M}$, where $2^p$ is the power of two at or below $|x|$.

# %% Round to any format [markdown] exercise="u07-round" points=3 minutes=14 difficulty=4 importance=4 extra=true
# **Write** `rounded`: the number of a format nearest to a finite `x`, a `float`.
#
# - It is an integer multiple of the spacing. A **tie**, exactly halfway, goes to the even multiple, as with Python's `round`.
# - The power $p$ never falls below $1 - \text{bias}$: there the numbers are subnormal.
# - The largest number is one spacing below $2^{\text{bias} + 1}$. What would be rounded to that power or beyond becomes infinity, with the sign of `x`.
#
# Given: $2^{\text{above}}$ is the first power of two above $|x|$.
#
# *By hand:* 0.3 with 5 + 2 bits → **0.3125**; −70,000 with 5 + 10 bits → **−∞**.


# %% solution="u07-round"
def rounded(x: float, num_exponent_bits: int, num_mantissa_bits: int) -> float:
    """The number of a format nearest to ``x``; infinite if ``x`` is too large."""
    bias = 2 ** (num_exponent_bits - 1) - 1
    _, above = math.frexp(x)  # 0 for x = 0: every spacing is right there
    ### BEGIN SOLUTION
    spacing = 2.0 ** (max(above - 1, 1 - bias) - num_mantissa_bits)
    nearest = round(x / spacing) * spacing
    if abs(nearest) >= 2.0 ** (bias + 1):
        return math.copysign(math.inf, x)
    return nearest
    ### END SOLUTION


# %%
try_it(rounded, 0.3, 5, 2)
try_it(rounded, -70000.0, 5, 10)

# %% check="u07-round"
# Five formats; ties, both ends of the range, subnormal numbers, both signs.

# %% [markdown]
# <details><summary>Hint: only some numbers are wrong, by one spacing</summary>
#
# Is each of them exactly halfway between two neighbors? What does `round` make of 0.5, 1.5 and 2.5, and what do you?
# </details>
#
# <details><summary>Hint: all my spacings are twice too wide</summary>
#
# What does `math.frexp(1.0)` give? Which power of two is at or below 1?
# </details>

# %% [markdown]
# **Compare it with torch's conversion** of two thousand fp32 numbers, from tiny to huge:

# %% folded=true tags=["nbval-check-output"]
# Measured: two thousand numbers
rounded_of = answer("u07-round", rounded)
generator = torch.Generator().manual_seed(0)
powers = torch.randint(-30, 20, (2000,), generator=generator)
samples = torch.randn(2000, generator=generator) * 2.0**powers
for name, dtype in TYPES.items():
    sizes = FORMATS[name]
    widths = (sizes.num_exponent_bits, sizes.num_mantissa_bits)
    pairs = zip(samples.tolist(), samples.to(dtype).double().tolist(), strict=True)
    equal = sum(rounded_of(x, *widths) == theirs for x, theirs in pairs)
    print(f"{name}: {equal:,} of {len(samples):,} equal")

# %% [markdown]
# ### One byte
#
# **fp8** reaches from $2^{-9}$ to 448 (e4m3) or from $2^{-16}$ to 57,344 (e5m2), so each tensor, or tile of one, needs a scale. A matrix, to e4m3 and back:

# %% folded=true tags=["nbval-check-output"]
# Measured: a matrix in fp8-e4m3 with one scale, and numbers too large for it
matrix = 0.02 * torch.randn(256, 256, generator=torch.Generator().manual_seed(0))
fp8_scale = 448 / matrix.abs().max()
in_fp8 = (matrix * fp8_scale).to(torch.float8_e4m3fn)
back = in_fp8.float() / fp8_scale
print(f"{storage_bytes(in_fp8):,} bytes and one scale, instead of {storage_bytes(matrix):,}")
print(f"off by {((back - matrix).norm() / matrix.norm()).item():.1%}")
print("500 and a million become", torch.tensor([500.0, 1e6]).to(torch.float8_e4m3fn).tolist())

# %% [markdown]
# e4m3 has no infinity: most patterns with an exponent of ones are numbers, and an overflow leaves no trace. An H800 adds fp8 products with fewer bits than fp32, so DeepSeek-V3 moves its partial sums to fp32 every 128 products (its report, section 3.3).

# %% [markdown]
# ### Eight bits without an exponent
#
# Lecture B's table (B7) also has int8, at twice the rate of bf16. int8 holds integers from −128 to 127, and a whole row shares one **scale**: $x \approx \text{scale} \cdot \text{integer}$.

# %% Quantize to int8 [markdown] exercise="u07-int8" points=1.5 minutes=9 difficulty=2 importance=2 extra=true
# **Write** `quantised`, for a matrix `x` in fp32: a pair of tensors. The first holds the integers, in the shape of `x` and of type `torch.int8`; the second one fp32 scale per row, in the shape (rows, 1). A row's largest absolute value becomes 127 or −127; its other numbers, divided by the same scale, are rounded to the nearest integer, a tie to the even one. A row of zeros has the scale 1; `x` itself stays as it is.
#
# *By hand:* the row [254, −3] → the integers **127** and **−2**, the scale **2**.


# %% solution="u07-int8"
def quantised(x: Tensor) -> tuple[Tensor, Tensor]:
    """Integers of 8 bits and a scale for each row, so that scale times integer is nearly x."""
    ### BEGIN SOLUTION
    largest = x.abs().max(dim=1, keepdim=True).values
    scale = torch.where(largest > 0, largest / 127, torch.ones_like(largest))
    return (x / scale).round().to(torch.int8), scale
    ### END SOLUTION


# %%
try_it(quantised, torch.tensor([[254.0, -3.0]]))

# %% check="u07-int8"
# Rows of several sizes; the largest below zero; rows of zeros; ties.

# %% [markdown]
# <details><summary>Hint: a row of zeros becomes NaN</summary>
#
# What is 0 / 0, and which scale does the exercise ask for there?
# </details>

# %% [markdown]
# A product of two such matrices adds integers in int32, and scales the sums at the end. Its error, and what one outlier does:


# %% folded=true tags=["nbval-check-output"]
# Measured: the error of a product, and a row with an outlier
def typical_error(result):
    return ((result - exact_product).norm() / exact_product.norm()).item()


quantised_by = answer("u07-int8", quantised)
x, w = (torch.randn(64, 512, generator=torch.Generator().manual_seed(n)) for n in (1, 2))
(x_integers, x_scales), (w_integers, w_scales) = quantised_by(x), quantised_by(w)
sums = x_integers.int() @ w_integers.int().T
product = sums * x_scales * w_scales.T
exact_product = x.double() @ w.double().T
bf16_product = x.bfloat16().double() @ w.bfloat16().double().T
print(f"typical error: int8 {typical_error(product):.2%}, bf16 {typical_error(bf16_product):.2%}")
print(f"largest sum of integers: {sums.abs().max().item():,}; int16 ends at {2**15 - 1:,}")
with_outlier = x.clone()
with_outlier[0, 0] = 100.0
integers, _ = quantised_by(with_outlier)
print("different integers in a row with an outlier:", len(integers[0].unique()))
print("different integers in the row below it:     ", len(integers[1].unique()))

# %% [markdown]
# The outlier takes nearly the whole range. A floating-point format would not mind it.

# %% [markdown]
# ### Rounding at random
#
# **Stochastic rounding** keeps small steps on average: a number a third of the way to its upper neighbor goes up in a third of the cases. bf16 keeps the upper 16 bits of an fp32 number. The lower 16 say how far it is towards the next, and a random number of 16 bits decides.

# %% Round at random [markdown] exercise="u07-stochastic" points=2 minutes=13 difficulty=4 importance=2 extra=true
# **Write** `rounded_by_chance`: `x` in fp32 rounded to one of its two neighbors in bf16, a tensor of type `torch.bfloat16`. `random` has the shape of `x` and whole numbers from 0 to 65,535 of type `torch.int32`. Over all 65,536 of them the mean of the results must be **exactly** x, and a number that bf16 holds must stay as it is. Nothing overflows; `x` and `random` themselves stay as they are.
#
# `x.view(torch.int32)` shows the bits as a whole number; `.view(torch.float32)` leads back.
#
# *By hand:* $x = 1 + 2^{-9}$, a quarter of the way from 1 to $1 + 2^{-7}$: all results together have the mean **1.001953125**.


# %% solution="u07-stochastic"
def rounded_by_chance(x: Tensor, random: Tensor) -> Tensor:
    """x in bf16, rounded up or down with the probability that makes the mean right."""
    ### BEGIN SOLUTION
    carried = x.view(torch.int32) + random
    upper = (carried >> 16) << 16
    return upper.view(torch.float32).bfloat16()
    ### END SOLUTION


# %%
try_it(rounded_by_chance, torch.tensor([1.003]), torch.tensor([60_000], dtype=torch.int32))

# %% check="u07-stochastic"
# All random numbers; near one neighbor and in the middle; both signs; numbers that bf16 holds.

# %% [markdown]
# <details><summary>Hint: my mean is a little too large</summary>
#
# For how many of the 65,536 random numbers does your result go up when the lower bits are zero?
# </details>
#
# <details><summary>Hint: my result has a different number of elements than x</summary>
#
# A sum of int32 and int64 is int64, and its bits are two numbers of fp32. Which of your tensors is int64?
# </details>

# %% [markdown]
# Eight sums of 1 and a thousand times 0.001, rounded to bf16 at random:

# %% folded=true
# Measured: eight sums rounded at random
by_chance = answer("u07-stochastic", rounded_by_chance)
sums_by_chance, generator = torch.ones(8).bfloat16(), torch.Generator().manual_seed(0)
for _ in range(1000):
    random = torch.randint(2**16, (8,), dtype=torch.int32, generator=generator)
    sums_by_chance = by_chance(sums_by_chance.float() + 1e-3, random)
print(sums_by_chance.tolist())
print("mean", round(sums_by_chance.double().mean().item(), 3))

# %% [markdown]
# Each is off by about ten spacings, and their mean is near 2. Some recipes do without master weights this way, and pay with noise.

# %% [markdown]
# ### Copies of autocast
#
# A cast makes a copy. Autocast keeps the copy of a *weight* until its region ends.

# %% What autocast keeps [markdown] exercise="u07-autocast-bytes" points=1.5 minutes=18 difficulty=3 importance=2 extra=true
# **Write** `kept_bytes`: what autograd saves for linear ($h$ to $f$), GELU, linear ($f$ to $h$), called `num_calls` times in a row, each time on its previous output, in **one** bf16 region: a dictionary with `"weights"` (copies of weights) and `"activations"` (all else), two `int`s in bytes, each worth half of the points.
#
# - All parameters are trained. They and the first input are in fp32; autograd keeps what the products read.
# - A linear layer keeps its weight for the gradient of its **input**, and its input for that of its weight. GELU keeps its input.
# - The first input requires a gradient only if `wants_input_grad`.
#
# *By hand:* 3 tokens, $h = 4$, $f = 8$, one call, no gradient for the input → weights **64**, activations **120**.


# %% solution="u07-autocast-bytes"
def kept_bytes(
    num_tokens: int, hidden_size: int, ffn_size: int, num_calls: int, wants_input_grad: bool
) -> dict[str, int]:
    """Bytes that a feed-forward block keeps for backward under autocast in bf16."""
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

# %% check="u07-autocast-bytes"
# A real block under autocast: called once and often, with and without an input gradient. Half each.

# %% [markdown]
# <details><summary>Hint: my weights are right for one call only</summary>
#
# How often is a weight cast in one region? Does the input of the second call require a gradient, even if the first one did not?
# </details>
#
# <details><summary>Hint: my activations are too large by the input</summary>
#
# Two tensors hold the input's numbers. Which of them did the product read?
# </details>

# %% [markdown]
# The same block with more and more tokens:

# %% folded=true
# Figure: what a block keeps under autocast, against tokens
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
# ## What you know now
#
# | quantity | value |
# |---|---|
# | spacing from $2^p$ to $2^{p+1}$, with $M$ bits of mantissa | $2^{p - M}$ |
# | an update is lost | below half the weight's spacing |
# | fp16: largest, smallest normal, smallest | 65,504, $2^{-14}$, $2^{-24}$ |
# | dense peak | 2 · tensor cores · multiply-adds · clock |
#
# **Your plan** can now say why it counts 16 bytes: 2 for the weight that products read, 2 for its gradient, 12 for what must be remembered. It divides by the dense peak, and needs no loss scale.
#
# *Further reading:* Micikevicius et al. 2018, *Mixed Precision Training*, section 3 (15 minutes). Micikevicius et al. 2022, *FP8 Formats for Deep Learning*, sections 2 and 3 (15 minutes).

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %%
progress("07")
