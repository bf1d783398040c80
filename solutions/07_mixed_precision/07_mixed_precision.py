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
# Numbers of fewer bits make training faster and lighter, until one of them is too large, too small or too close to its neighbour. You build numbers from their bits, find where each format breaks, and train in 16 bits as safely as in 32.
#
# | goes with | time | device | before this |
# |---|---|---|---|
# | lecture E (*Efficient LLMs*), bytes in mixed precision (E12, E13); lecture S (*Scaling LLM Training, Part I*), bytes per parameter (S11); lecture B (*Building LLMs in Practice*), formats and rates (B7) | 120 minutes, and 55 for the extras | CPU | 01, 03, 04 |
#
# Leave the cells that came with the notebook where they are; add cells of your own wherever you like.

# %% [markdown]
# ## What you can do afterwards
#
# 1. **Build** numbers from their bits, and round to any format.
# 2. **Predict** where a format breaks: what overflows, what vanishes, and what becomes of a long sum.
# 3. **Write** master weights and loss scaling.
# 4. **Choose** a format for each part of training, and the peak rate to divide by.

# %% [markdown]
# ## Names and symbols
#
# The lectures name formats and give them no letters. Each number has one **sign** bit, then bits of **exponent** and of **mantissa**:
#
# | here | in torch | in words | exponent + mantissa bits |
# |---|---|---|---|
# | fp32 | `torch.float32` | single precision | 8 + 23 |
# | tf32 | (fp32, inside of a product) | TensorFloat-32 | 8 + 10 |
# | bf16 | `torch.bfloat16` | brain float | 8 + 7 |
# | fp16 | `torch.float16` | half precision | 5 + 10 |
# | fp8-e5m2 | `torch.float8_e5m2` | fp8 with a wide range | 5 + 2 |
# | fp8-e4m3 | `torch.float8_e4m3fn` | fp8 with more digits | 4 + 3 |
#
# M counts bits of mantissa, N parameters; in an extra, s counts tokens, h and f are the outer and inner width of a layer.

# %% [markdown]
# ## Setup
#
# Run this cell first.

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

import copy
import math

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder import answer, check, compare, predict
from course_utils import show
from course_utils.configs import DEVICES, FORMATS, PRECISIONS, ModelConfig, RunConfig, preset
from course_utils.instruments import fake_tensors, numbers_of, storage_bytes, trace_memory
from course_utils.reference import Training, Transformer, token_loss
from course_utils.reference.mixed_precision import TrainingState
from course_utils.show import nearest_number, try_it

# %% [markdown]
# ## A tour: one number in 8 bits
#
# Put 0.3 into the smallest format and look at what is there:

# %% tags=["nbval-check-output"]
in_8_bits = torch.tensor(0.3).to(torch.float8_e5m2)
print(in_8_bits.item(), "has the bits", format(in_8_bits.view(torch.uint8).item(), "08b"))

# %% [markdown]
# Eight bits can say 256 things, and 0.3 is not among them. The bits, and the two numbers beside it:

# %%
nearest_number(exponent_bits=5, mantissa_bits=2, value="0.3")

# %% [markdown]
# From left to right: the sign; the exponent 01101, which is 13, minus a **bias** of 15, so 2⁻²; and the mantissa 01, a quarter of the way to the next power of two: 2⁻² · 1.25 = 0.3125. The distance between two neighbours is called the **spacing**; here it is 0.0625.
#
# Now break it on purpose. Lecture B's table (B7) lists fp16 and bf16 side by side, with the same bytes and the same rate. Square 300 in both:

# %% tags=["nbval-check-output"]
for dtype in (torch.float16, torch.bfloat16):
    print(dtype, (torch.tensor(300.0, dtype=dtype) ** 2).item())

# %% [markdown]
# fp16 has lost the number, bf16 has its third digit wrong. Both divide 16 bits between **range** and **digits**, and neither has enough of both.

# %% [markdown]
# ## Numbers from bits
#
# **Predict.** How many numbers has fp16, with its 10 bits of mantissa, from 1 up to but without 2?

# %%
predict("u07-between", None, "numbers")

# %% A number from its bits [markdown] exercise="u07-value" points=2 minutes=12 difficulty=2 importance=4
# **Write** `value_of`: the number that a pattern stands for, a `float`. `bits` is a text such as `"00111110"`: sign, then `num_exponent_bits` of exponent, then the mantissa. Read as whole numbers, with M bits of mantissa and bias = 2^(exponent bits − 1) − 1:
#
# | exponent | number | name |
# |---|---|---|
# | all zeros | ± 2^(1 − bias) · mantissa / 2^M | subnormal, or zero |
# | all ones | ± infinity if the mantissa is 0, otherwise NaN | |
# | any other | ± 2^(exponent − bias) · (1 + mantissa / 2^M) | normal, with a **hidden one** |
#
# A sign bit of 1 means minus. `math.inf` and `math.nan` are there for you.
#
# *Worked case:* `"00111110"` with 5 bits of exponent: 2^(15 − 15) · (1 + 2/4) = **1.5**.


# %% solution="u07-value"
def value_of(bits: str, num_exponent_bits: int) -> float:
    """The number that a pattern of bits stands for, by the rules of IEEE 754.

    Args:
        bits: Zeros and ones: sign, exponent, mantissa.
        num_exponent_bits: How many of them are the exponent.
    """
    ### BEGIN SOLUTION
    exponent_bits, mantissa_bits = bits[1 : 1 + num_exponent_bits], bits[1 + num_exponent_bits :]
    sign = -1 if bits[0] == "1" else 1
    exponent, mantissa = int(exponent_bits, 2), int(mantissa_bits, 2)
    part = mantissa / 2 ** len(mantissa_bits)
    bias = 2 ** (len(exponent_bits) - 1) - 1
    if exponent == 2**num_exponent_bits - 1:
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
# <details><summary>My zero is a very small number</summary>
#
# With a hidden one every number is at least a power of two. For which exponent does the exercise leave it out?
# </details>
#
# <details><summary>My subnormal numbers are half of what they should be</summary>
#
# The smallest normal number has exponent 1. Which power of two is that? The largest subnormal number lies one spacing below it.
# </details>

# %% [markdown]
# **Measure.** Your function on every pattern of three formats, against the same bits in a tensor of torch:

# %% tags=["nbval-check-output"]
value = answer("u07-value", value_of)


TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp8-e5m2": torch.float8_e5m2}
numbers = {}
for name, dtype in TYPES.items():
    width = FORMATS[name].num_bits
    patterns = [format(n, f"0{width}b") for n in range(2**width)]
    mine = [value(bits, FORMATS[name].num_exponent_bits) for bits in patterns]
    pairs = zip(mine, numbers_of(dtype), strict=True)
    equal = sum(a == b or (math.isnan(a) and math.isnan(b)) for a, b in pairs)
    print(f"{name}: {equal:,} of {len(mine):,} patterns agree")
    numbers[name] = mine

# %% [markdown]
# fp8-e4m3 follows other rules: it has no infinity and one NaN of each sign, so that its largest exponent holds numbers too. Its numbers come from torch. A table from the patterns alone:

# %% tags=["nbval-check-output"]
numbers["fp8-e4m3"] = numbers_of(torch.float8_e4m3fn)
numbers["int8"] = list(range(-128, 128))
show.facts_of_formats(numbers)

# %% tags=["nbval-check-output"]
compare(
    "u07-between",
    "numbers",
    computed=2 ** FORMATS["fp16"].num_mantissa_bits,
    measured=sum(1 <= each < 2 for each in numbers["fp16"]),
)

# %% [markdown]
# **Explain.** From one power of two to the next there are always 2^M numbers, so that the spacing grows with the number, and *relative* to the number stays about the same. About half of a format's numbers lie between −1 and 1. int8 is the opposite: one spacing for all, and nothing between 0 and 1; it needs a scale beside it (an extra).
#
# All formats at one glance:

# %%
show.ranges_and_spacings()

# %% [markdown]
# bf16 is fp32 with its last 16 bits cut off: the same range. fp16 spends three of those bits on digits instead, and pays with range. tf32 has the range of the one and the digits of the other.

# %% [markdown]
# ## Rounding
#
# Every result of an operation is rounded to the nearest number of its format. The spacing there is 2^(power − M), where 2^power is the power of two at or below the number's size. Below the smallest normal number it shrinks no further.

# %% Round to any format [markdown] exercise="u07-round" points=3 minutes=14 difficulty=4 importance=4
# **Write** `rounded`: the number of a format nearest to a finite `x`, a `float`.
#
# - It is a whole multiple of the spacing. A **tie**, exactly in the middle, goes to the even multiple, as with Python's `round`.
# - The power never falls below 1 − bias: there the numbers are subnormal.
# - The largest number is one spacing below 2^(bias + 1). What would be rounded to 2^(bias + 1) or beyond is infinity, with the sign of `x`.
#
# Two lines are there: 2^above is the first power of two above the size of `x`.
#
# *Worked case:* 0.3 in 5 + 2 bits: the spacing is 2^(−2 − 2) = 0.0625, 0.3 is 4.8 times as large, and 5 times are **0.3125**.


# %% solution="u07-round"
def rounded(x: float, num_exponent_bits: int, num_mantissa_bits: int) -> float:
    """The number of a format nearest to ``x``; infinite if ``x`` is too large.

    Args:
        x: A finite number.
        num_exponent_bits: Bits of the format's exponent.
        num_mantissa_bits: Bits of its mantissa.
    """
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
# <details><summary>Only some numbers are wrong, by one spacing</summary>
#
# Is each of them exactly in the middle between two neighbours? What do 0.5, 1.5 and 2.5 become with `round`, and what with your way?
# </details>
#
# <details><summary>All my spacings are twice too large</summary>
#
# What does `math.frexp(1.0)` give? Which power of two is at or below 1?
# </details>
#
# <details><summary>Very small numbers do not become zero</summary>
#
# How small is the smallest spacing of the format? Below half of it, which number is nearest?
# </details>

# %% [markdown]
# **Measure.** Two thousand numbers of all sizes, against torch's conversion:

# %% tags=["nbval-check-output"]
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
# **Explain.** These numbers are fp32, so torch rounds once. From float64 it goes to bf16 by way of fp32, rounds twice, and can land on the wrong neighbour.
#
# Move the sliders: which value breaks which format?

# %%
show.explorer(
    nearest_number,
    exponent_bits=([2, 3, 4, 5, 6, 7, 8], 5),
    mantissa_bits=([1, 2, 3, 4, 5, 7, 10, 23], 10),
    value=(["1e-38", "1e-8", "0.001", "0.1", "1.0", "1.003", "257", "65504", "70000"], "0.1"),
)

# %% [markdown]
# Two of its positions standing still:

# %%
nearest_number(exponent_bits=8, mantissa_bits=7, value="257")

# %%
nearest_number(exponent_bits=5, mantissa_bits=10, value="70000")

# %% [markdown]
# ## Where formats break
#
# **Too large.** The largest number of fp16 is 65,504. From half a spacing above it on everything is infinite:

# %% tags=["nbval-check-output"]
for large in (65_504.0, 65_519.0, 65_520.0, 70_000.0):
    in_fp16, in_bf16 = rounded_of(large, 5, 10), rounded_of(large, 8, 7)
    print(f"{large:,.0f} in fp16: {in_fp16:,.0f}   in bf16: {in_bf16:,.0f}")

# %% [markdown]
# **Too small.** Gradients can be as small as 10⁻⁸; below you look at some:

# %% tags=["nbval-check-output"]
print(f"1e-8 in fp16: {rounded_of(1e-8, 5, 10)}   in bf16: {rounded_of(1e-8, 8, 7):.4g}")

# %% [markdown]
# **Too close.** bf16 has 8 significant bits: 257 becomes 256, as above. Positions of tokens would coincide, and so rotary angles are computed in fp32 also where the rest is bf16.
#
# **Without telling.** fp8-e4m3 has no infinity to round to. This torch gives its largest number instead, and an overflow leaves no trace:

# %% tags=["nbval-check-output"]
print(torch.tensor([400.0, 500.0, 1e6, math.inf]).to(torch.float8_e4m3fn).tolist())

# %% [markdown]
# **tf32** is no format to store numbers in: an fp32 tensor keeps its 4 bytes, and tensor cores may round the *factors* of a product to 10 bits of mantissa. For matrix products torch leaves that off until you turn it on, with the setting below; a CPU has its own, in `torch.backends.mkldnn`.

# %% tags=["nbval-ignore-output"]
factor = 1 + 2**-12
print("one factor, rounded to tf32:", rounded_of(factor, 8, 10))
if torch.cuda.is_available():
    matmul, one = torch.backends.cuda.matmul, torch.eye(64, device="cuda")
    before = matmul.fp32_precision
    for mode in ("ieee", "tf32"):
        matmul.fp32_precision = mode
        print(f"on this GPU, {mode}: {(factor * one @ one)[0, 0].item()}")
    matmul.fp32_precision = before
else:
    print("No CUDA device here: on one, this cell also multiplies with and without tf32.")

# %% [markdown]
# ## A long sum
#
# **Predict.** You add 0.01 to a running sum in bf16, 4,096 times, and start at 0. What is the sum?

# %%
predict("u07-sum", None, "in bf16")

# %% [markdown]
# As the sum grows, its spacing grows, and the term does not:

# %% tags=["nbval-check-output"]
term, total, shown = torch.tensor(0.01).bfloat16(), torch.tensor(0.0).bfloat16(), []
for n in range(1, 4097):
    total = total + term
    if n in (1, 16, 64, 256, 512, 1024, 4096):
        shown.append({"terms": n, "sum": total.item(), "exact": n * term.item()})
pd.DataFrame(shown)

# %% Where a sum stops [markdown] exercise="u07-stops" points=2 minutes=12 difficulty=3 importance=5
# **Write** `stops_at`: the value that a running sum of equal terms never leaves, a `float`. `term` is a positive number of the format itself; the sum starts at 0 and stays within the format's range. Give it without adding: with 52 bits of mantissa it would take 10¹⁶ terms.
#
# Think of the spacing at the sum: from 2^k to 2^(k + 1) it is 2^(k − M). How small must a term be against it to be rounded away, and what happens to a tie?
#
# *Worked case:* the term 1.0 with 2 bits of mantissa: 1, 2, … 8, and 8 + 1 = 9 lies between 8 and 10, a tie that goes to **8.0**.


# %% solution="u07-stops"
def stops_at(term: float, num_mantissa_bits: int) -> float:
    """The value at which a running sum of equal terms stops growing.

    Args:
        term: A positive number of the format.
        num_mantissa_bits: Bits of the format's mantissa.
    """
    ### BEGIN SOLUTION
    power_above_term = math.ceil(math.log2(term))
    return 2.0 ** (power_above_term + 1 + num_mantissa_bits)
    ### END SOLUTION


# %%
try_it(stops_at, 1.0, 2)

# %% check="u07-stops"
# Powers of two and terms between them; five formats.

# %% [markdown]
# <details><summary>My value is half of the right one</summary>
#
# At your value the spacing is as large as the term, or less. Which terms are still rounded *up* to a whole spacing?
# </details>
#
# <details><summary>Only terms that are no power of two are wrong</summary>
#
# The spacing changes at powers of two only. Which is the first one where it is at least twice the term?
# </details>

# %% [markdown]
# **Measure.** The sum above, and how far one can count with ones in torch (fp32 begins shortly before its end):

# %% tags=["nbval-check-output"]
stop_of = answer("u07-stops", stops_at)
compare("u07-sum", "in bf16", computed=stop_of(term.item(), 7), measured=total.item())


# %% tags=["nbval-check-output"]
def counted(dtype, start=0.0):
    total, before = start, -1.0
    while total != before:
        before, total = total, torch.tensor(total + 1).to(dtype).item()
    return int(total)


table = {
    name: {"computed": stop_of(1.0, FORMATS[name].num_mantissa_bits), "counted": counted(dtype)}
    for name, dtype in TYPES.items()
}
table["fp32"] = {"computed": stop_of(1.0, 23), "counted": counted(torch.float32, 2.0**24 - 9)}
pd.DataFrame(table).T.map("{:,.0f}".format)

# %% [markdown]
# **Explain.** And yet torch's own sum is right:

# %% tags=["nbval-check-output"]
terms = torch.full((4096,), 0.01, dtype=torch.bfloat16)
print(terms.sum().item(), "of", 4096 * term.item())

# %% [markdown]
# Its running sums are in fp32, and only the result is rounded. Matrix products need the same: each number of a result is a sum of thousands of products. Here is one of 4,096 products of numbers between ½ and 1. In two of the three lines the factors are rounded to bf16; in one of them the running sum as well, with your `rounded`:

# %%
generator = torch.Generator().manual_seed(0)
exact_a, exact_b = (torch.empty(4096).uniform_(0.5, 1, generator=generator) for _ in "ab")
products = (exact_a.bfloat16().double() * exact_b.bfloat16().double()).tolist()


def running(widths):
    total, sums = 0.0, []
    for product in products:
        total = rounded_of(total + product, *widths)
        sums.append(total)
    return sums


show.running_sums(
    {
        "exact factors, exact sum": (exact_a.double() * exact_b.double()).cumsum(0).tolist(),
        "bf16 factors, sum in fp32": running((8, 23)),
        "bf16 factors, sum in bf16": running((8, 7)),
    },
    stop=stop_of(1.0, 7),
)

# %% [markdown]
# No product is larger than 1, so that from 256, where the sum of ones stops, none can move the sum. The bf16 *factors* do little harm: their errors go both ways, and the sum is off by less than 0.01 %. So tensor cores take factors of 16 bits and add in fp32 (Micikevicius et al. 2018, section 3.3). For fp8 it is not that simple: DeepSeek-V3 found that the tensor cores of an H800 add fp8 products with fewer bits than fp32 has, and moves its sums out of them at intervals (its report, section 3.3).

# %% [markdown]
# ## A thousand small steps
#
# A weight of 1 gets a small step, 0.001, a thousand times over.
#
# **Predict.** What is 1 + 0.001 + 0.001 + …, a thousand times, if every sum is rounded to bf16?

# %%
predict("u07-thousand-steps", None, "in bf16")

# %% Master weights [markdown] exercise="u07-master" points=3 minutes=13 difficulty=3 importance=5
# **Write** `update`: one step of SGD for weights in bf16 that have **master weights** in fp32, copies that keep all digits from step to step. For each weight and its master:
#
# 1. turn the gradient to fp32;
# 2. take learning rate · gradient, in fp32, off the master, **in place**: the same tensor in the same memory;
# 3. round the master into the weight, in place;
# 4. free the gradient: set `weight.grad` to None.
#
# Do not hold all gradients in fp32 at once. A weight whose `.grad` is None stays as it is, as does its master.
#
# *Worked case:* a weight and a master of 1, the gradient 1 in each of four steps, learning rate 0.01: master **0.96**, weight **0.9609375**.


# %% solution="u07-master"
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

# %% check="u07-master"
# Few weights, many, one without gradient: numbers, memory, gradients left. A third each.

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
compare("u07-thousand-steps", "in bf16", measured=alone.item())

# %% [markdown]
# **Explain.** The next bf16 number above 1 is 1.0078: a sum that is less than half a spacing away from the old number is rounded back to it. Adam's step of a weight is about as large as the learning rate. This is the share of weights, Gaussian with a deviation of 0.02, that one such step leaves where they are:

# %% tags=["nbval-check-output"]
gaussian = torch.randn(100_000, generator=torch.Generator().manual_seed(0))
typical = (0.02 * gaussian).bfloat16()
for rate in (1e-3, 1e-4, 1e-5):
    print(f"step {rate:g}: {(typical + rate == typical).double().mean():.0%} do not move")

# %% [markdown]
# A run that ends with a small learning rate would stop learning early. That is why the 16 N bytes of unit 03 hold 4 N for master weights (E12): the two bytes that the products read are not enough to *remember*. Without masters one has to round at random, up or down with the right odds (**stochastic rounding**, an extra).
#
# Adam's moments are running averages: without new gradients the second one is multiplied by 0.999 in each step. A thousand steps:

# %% tags=["nbval-check-output"]
in_bf16, in_fp32 = torch.tensor(1.0).bfloat16(), torch.tensor(1.0)
for _ in range(1000):
    in_bf16, in_fp32 = in_bf16 * 0.999, in_fp32 * 0.999
print(f"in bf16 {in_bf16.item()}, in fp32 {in_fp32.item():.4f}")

# %% [markdown]
# In bf16 the moment never forgets, and so moments are fp32 too.

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
fp32_gradients = [each.grad.clone() for each in small.parameters()]
of_weights = torch.cat([each.flatten() for each in fp32_gradients])
show.gradient_exponents({"logits": logits.grad, "weights": of_weights})

# %% tags=["demonstration"]
vanished = logits.grad[logits.grad.half() == 0]
print(f"what becomes 0 of the logits has {vanished.norm() / logits.grad.norm():.2%} of their norm")

# %% [markdown]
# Why are they small? The loss is a mean, so that a token's share is divided by the number of tokens. And a logit's gradient is about the probability of its word, which for most words is next to nothing; those vanish, and here nobody misses them. In a larger batch all gradients are smaller, the important ones too. **Loss scaling** multiplies the loss by a factor before the backward pass, so that every gradient on the way is larger by it, and divides the weights' gradients before the optimizer reads them.
#
# How far are the gradients of all weights from those in fp32? In the last column the loss is divided by another 4,096: the 1,024 tokens are a micro-batch of a batch of four million.


# %% tags=["demonstration"]
def off_by(dtype, scale=1, share=1, pair=(ids, targets)):
    """The distance of all gradients from those in fp32 above, relative to these."""
    small.zero_grad()
    with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        loss = token_loss(small(pair[0]), pair[1], is_fp32=True)  # logits in dtype, loss in fp32
    (loss * share * scale).backward()
    mine = torch.cat([each.grad.flatten() for each in small.parameters()]) / (share * scale)
    return f"{((mine - of_weights).norm() / of_weights.norm()).item():.2%}"


rows = {
    "fp16": (torch.float16, 1),
    "fp16, scaled by 2^16": (torch.float16, 2**16),
    "bf16": (torch.bfloat16, 1),
}
shares = {"1,024 tokens": 1, "a micro-batch of 4 M": 2**-12}
table = {name: {kind: off_by(*row, shares[kind]) for kind in shares} for name, row in rows.items()}
pd.DataFrame(table).T

# %% tags=["demonstration"]
print("fp32, another batch:", off_by(torch.float32, pair=batch()))

# %% [markdown]
# Without a scale fp16 gives no usable gradients there. bf16 has the exponents of fp32 and needs none: its row stays the same. With three bits less than fp16 its rounding error is larger, and still small beside the difference between two batches. This is why models are trained in bf16 wherever the hardware has it.
#
# Which scale? As large as possible, and the largest possible one changes in training. So it is found by trying: after an overflow make it smaller and skip the step, after a while without overflow try a larger one.

# %% A loss scaler [markdown] exercise="u07-scaler" points=4 minutes=20 difficulty=4 importance=4
# **Write** the three methods of `LossScaler`, called in this order in every step of training:
#
# 1. `scaled(loss)` returns the loss times the scale, a new tensor. (Then comes `.backward()`.)
# 2. `step(optimizer)` divides all gradients of its weights by the scale, in `.grad` (which may be None). If one holds an inf or a NaN it **skips** the optimizer's step, else it makes it; it returns whether it did.
# 3. `update()` multiplies the scale by `backoff_factor` after a skipped step, by `growth_factor` after `growth_interval` good steps **in a row**; then counting begins anew.
#
# Weights: `group["params"]` of each `group` in `optimizer.param_groups`.
#
# *Worked case:* scale 1,024, factors 2 and 0.5, interval 2, five good steps: **1024, 2048, 2048, 4096, 4096**.


# %% solution="u07-scaler"
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
        self.growth_factor, self.backoff_factor = growth_factor, backoff_factor
        self.growth_interval = growth_interval
        self.good_steps = 0  # in a row
        self.stepped = False  # whether the last step was made

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

# %% check="u07-scaler"
# Beside torch.amp.GradScaler: growth, overflow, one after the other, one without gradient.

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
def train_in_fp16(scaler, num_steps):
    model, history = copy.deepcopy(small), []
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(num_steps):
        words, next_words = batch()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = token_loss(model(words), next_words, is_fp32=True)
        power = math.log2(scaler.scale)
        scaler.scaled(loss).backward()
        stepped = scaler.step(optimizer)
        scaler.update()
        history.append({"scale": f"2^{power:.0f}", "loss": loss.item(), "stepped": stepped})
    return history


scaler_of = answer("u07-scaler", LossScaler)
pd.DataFrame(train_in_fp16(scaler_of(2.0**28, 2.0, 0.5, 6), num_steps=22))

# %% [markdown]
# **Explain.** The first steps only look for the scale; the loss is finite in them, the gradients are not. After six good steps a larger one is tried. `torch.amp.GradScaler` does the same, starts at 2¹⁶ and grows after 2,000 good steps. It never lets the scale itself become infinite in fp32, and refuses a step where no weight has a gradient. If every step is skipped, however small the scale, then the loss or a gradient is not finite whatever the scale: no scaler helps there.

# %% [markdown]
# ## What autocast does
#
# Weights in fp32, products in bf16: inside of `with torch.autocast(…):`, its **region**, torch decides for each operation. It casts the inputs of products down, those of delicate operations up, and leaves the others alone. The type of each result, for inputs in both precisions:

# %%
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
    types = {name: (run().dtype, told) for name, (run, told) in operations.items()}
pd.DataFrame(types, index=[f"measured ({device})", "CUDA, by the documentation"]).T

# %% [markdown]
# On a GPU softmax, norms, sums and exponentials give fp32; a CPU leaves their results in bf16. The last column is quoted, not measured: run the cell on a GPU to see. The result's type differs by device; inside, both may add in fp32, as torch's sum above did.
#
# With autocast the weights are fp32 and *are* the masters: nobody needs `update`. The casts are copies that come and go; an extra counts them.

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
# fp32 and bf16 come to the same: no gain. The last two sum gradients over micro-batches in fp32, instead of those in bf16 or beside them. Lecture S lists 16, 18 and 16 (S11); 20 is the dearest way. Now a whole step of Llama-3.2-1B at 4,096 tokens in fake tensors; about ten seconds.

# %% tags=["demonstration"]
steps = {}
for recipe in ("fp32", "bf16"):
    with fake_tensors():
        run = RunConfig(seq_len=4096, precision=PRECISIONS[recipe])
        training = Training(preset("Llama-3.2-1B"), run)
        trace = trace_memory(training.step, *training.owners, num_steps=2)
    num_weights = sum(p.numel() for p in training.model.parameters())
    at_peak = trace.live_at(trace.peak_at)
    steps[recipe] = {
        "16 N": 16 * num_weights,
        "activations": trace.kept_bytes,
        "peak": trace.peak_bytes,
        "of it gradients": at_peak["gradients"],
        "of it temporaries": at_peak["temporaries"],
    }
(pd.DataFrame(steps) / 2**30).round(2)

# %% [markdown]
# **Explain.** In GiB: the activations take half, and they decide how much fits. (The peak is below state and activations together: there, where the backward pass begins, the weights have no gradients yet.) And the products run faster: on an A100 at 312 · 10¹² FLOP/s instead of 156 in tf32, by its data sheet. (19.5 is fp32 without tensor cores.) What was recorded on a GPU:

# %% tags=["nbval-ignore-output"]
show.recorded("times", ("kind", "shape", "flops_per_second"))

# %% [markdown]
# **fp8** goes on the same way, with one byte for the weights and activations that a product reads. Its two formats reach from 2⁻⁹ to 448 (e4m3) and from 2⁻¹⁶ to 57,344 (e5m2), so that numbers need a scale, as the loss did above. In the simplest recipe each tensor has one, and master weights, gradients and moments stay as they are; others scale smaller tiles. A weight there and back:

# %% tags=["nbval-check-output"]
matrix = 0.02 * torch.randn(256, 256, generator=torch.Generator().manual_seed(0))
fp8_scale = 448 / matrix.abs().max()
in_fp8 = (matrix * fp8_scale).to(torch.float8_e4m3fn)
back = in_fp8.float() / fp8_scale
print(f"{storage_bytes(in_fp8):,} bytes and one scale, instead of {storage_bytes(matrix):,}")
print(f"off by {((back - matrix).norm() / matrix.norm()).item():.1%}")

# %% [markdown]
# ## Which peak?
#
# A faster product needs another denominator for the MFU, and data sheets tempt. Their largest figures have a star: *with sparsity*. Hardware can skip two of every four weights if they are zero (2:4 sparsity); in training they are not. The **dense** peak can be counted: every tensor core does so many multiply-adds in each tick of its clock.

# %% The dense peak [markdown] exercise="u07-peak" points=1.5 minutes=6 difficulty=1 importance=4
# **Write** `dense_peak`: a dictionary with `"dense_flops_per_second"`, an `int`, and `"mfu"`, a fraction: the FLOPs that a run does in a second, over that peak. Each is half of the points. A multiply-add is two FLOPs; `multiply_adds_per_clock` is that of **one** core, for dense products.
#
# *Worked case:* 2 cores, 4 multiply-adds, 1 MHz; 1,000 FLOPs for a token, 6,400 tokens in a second: **16,000,000** and **0.4**.


# %% solution="u07-peak"
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

# %% check="u07-peak"
# Two real devices and made-up ones, counted operation by operation.

# %% [markdown]
# <details><summary>My peak is twice what the sheet calls dense, or half of it</summary>
#
# Which factor of two did you put in, and which one stands behind the star? How many FLOPs is one multiply-add?
# </details>

# %% [markdown]
# **Measure.** The A100 has 432 tensor cores with 256 multiply-adds at 1,410 MHz, the H100 SXM 528 with 512 at 1,830 MHz. Beside them what the sheets say:

# %% tags=["nbval-check-output"]
peak_of = answer("u07-peak", dense_peak)
peaks = {
    "A100-80": peak_of(432, 256, 1410, 1, 1)["dense_flops_per_second"],
    "H100-SXM": peak_of(528, 512, 1830, 1, 1)["dense_flops_per_second"],
}
sheets = []
for name, sheet in DEVICES.items():
    dense, sparse = sheet.dense_flops_per_second("bf16"), sheet.sparse_flops_per_second("bf16")
    sheets.append(
        {
            "device": name,
            "counted": f"{peaks[name] / 1e12:,.1f}" if name in peaks else "",
            "dense": f"{dense / 1e12:,.1f}",
            "with sparsity": f"{sparse / 1e12:,.1f}",
        }
    )
pd.DataFrame(sheets).set_index("device")

# %% tags=["nbval-check-output"]
h100 = DEVICES["H100-SXM"]
dense, starred = h100.dense_peaks, h100.sparse_flops_per_second("bf16")
print(f"bf16 {dense['bf16'] / dense['fp32']:.1f} x fp32, TF32 {dense['tf32'] / 1e12:.1f} TFLOP/s")
print(
    f"a run at 40% of dense would report {0.4 * dense['bf16'] / starred:.0%} of the starred figure"
)

# %% [markdown]
# **Explain.** The table of A100 rates in lecture B (B7) prints 156, 312 and 624 for TF32, bf16 and int8, with twice as much behind a star: take the first. Of the H100 sheet lecture S quotes rows with a star, those of the tensor cores (S11): 1,979 for bf16 is 989 dense, 989 for TF32 is 495, and "67 → 1,979" is 67 → 989, about 15 times and not 30. Of somebody else's MFU ask: which peak?

# %% Which format where? [markdown] exercise="u07-choose" points=2 minutes=8 difficulty=2 importance=5
# **Write** for a model of 8B, to be trained on cards whose tensor cores take fp16, bf16 and fp8, one format for each of these, and why, in half a sentence to a sentence: (1) weights and activations in the products, (2) master weights, (3) gradients as the backward pass leaves them, (4) their sum over many micro-batches, (5) Adam's moments, (6) softmax, norms and loss. Say what would make you choose fp8 for (1).
#
# Double-click the cell below to write.

# %% [markdown] text_answer="u07-choose"
# <!-- BEGIN SOLUTION -->
# (1) bf16: as fast as fp16, with the range of fp32, so that no loss scale is needed; the rounding error of 8 significant bits is small, and the products are summed in fp32. fp8 if products take most of the time and are large, with a scale for each tensor, and after comparing the loss with a bf16 run. (2) fp32: a step is smaller than half a spacing of bf16 and would vanish. (3) bf16: it is used once; the exponent keeps small ones. (4) fp32: a sum of many small terms in bf16 stops growing; 2 N or 4 N bytes more. (5) fp32: a running average with a factor such as 0.999 changes by less than half a spacing of bf16. (6) fp32: exponentials and long sums; a small share of the time.
#
# *Rubric:* half for what is read by products in 16 bits with range as the reason, half for fp32 master weights because of vanishing updates, half for fp32 in (4), (5) and (6) with one reason, half for a condition for fp8. Another choice counts if its reason names range, spacing, bytes or speed correctly.
# <!-- END SOLUTION -->

# %% [markdown]
# ## Going further
#
# All that follows is **extra**: bonus points, in any order. The recap is at the end.

# %% [markdown]
# ## Eight bits without an exponent
#
# Lecture B's table (B7) also has int8, at twice the rate of bf16. An int8 number is a whole number from −128 to 127; what it counts is said once for a whole row, by a **scale**: x ≈ scale · integer.

# %% Quantise to int8 [markdown] exercise="u07-int8" points=1.5 minutes=9 difficulty=2 importance=2 extra=true
# **Write** `quantised`: a pair of tensors. The first holds the integers, of the shape of `x` and of type `torch.int8`; the second one fp32 scale for each row, of shape (rows, 1). The largest size in a row becomes 127 or −127; everything else is rounded to the nearest integer, a tie to the even one. A row of zeros has the scale 1; `x` itself stays as it is.
#
# *Worked case:* the row [254, −3]: the scale **2**, the integers **127** and **−2**.


# %% solution="u07-int8"
def quantised(x: Tensor) -> tuple[Tensor, Tensor]:
    """Integers of 8 bits and a scale for each row, so that scale times integer is nearly x.

    Args:
        x: Numbers in fp32 (rows, columns).
    """
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
# <details><summary>A row of zeros becomes NaN</summary>
#
# What is 0 / 0? Which scale would do no harm there?
# </details>

# %% [markdown]
# **Measure.** A product of two quantised matrices: integers times integers, added in int32, and scaled back at the end. Its typical error, beside that of the same product with factors in bf16:

# %% tags=["nbval-check-output"]
quantised_by = answer("u07-int8", quantised)
x, w = (torch.randn(64, 512, generator=torch.Generator().manual_seed(n)) for n in (1, 2))
(x_integers, x_scales), (w_integers, w_scales) = quantised_by(x), quantised_by(w)
sums = x_integers.int() @ w_integers.int().T
product = sums * x_scales * w_scales.T
exact_product = x.double() @ w.double().T
bf16_product = x.bfloat16().double() @ w.bfloat16().double().T


def typical_error(result):
    return ((result - exact_product).norm() / exact_product.norm()).item()


print(f"typical error: int8 {typical_error(product):.2%}, bf16 {typical_error(bf16_product):.2%}")
print(f"largest sum of integers: {sums.abs().max().item():,}; int16 ends at {2**15 - 1:,}")

# %% [markdown]
# The sums need more than 16 bits, hence int32. Now a single outlier in one row:

# %% tags=["nbval-check-output"]
with_outlier = x.clone()
with_outlier[0, 0] = 100.0
integers, _ = quantised_by(with_outlier)
print("different integers in the row of the outlier:", len(integers[0].unique()))
print("different integers in the row below:         ", len(integers[1].unique()))

# %% [markdown]
# **Explain.** The outlier takes the range for itself, and 511 numbers share the few integers that are left. A format with an exponent would not have noticed it.

# %% [markdown]
# ## Rounding by chance
#
# Where rounding to the nearest loses every small step, rounding **by chance** keeps them on average: a number a third of the way between two neighbours goes up in a third of the cases. Of an fp32 number, bf16 keeps the upper 16 bits. The lower ones say how far it is on the way to the next number; a random number of 16 bits is enough to decide.

# %% Round by chance [markdown] exercise="u07-stochastic" points=2 minutes=17 difficulty=4 importance=2 extra=true
# **Write** `rounded_by_chance`: `x` in fp32 rounded to one of its two neighbours in bf16, a tensor of type `torch.bfloat16`. `random` has the shape of `x` and whole numbers from 0 to 65,535 of type `torch.int32`. Over all 65,536 of them the mean of the results must be **exactly** x, and a number of bf16 must stay as it is. The numbers are far from overflow.
#
# `x.view(torch.int32)` shows the bits as a whole number; `.view(torch.float32)` leads back.
#
# *Worked case:* x = 1 + 2⁻⁹, a quarter of the way from 1 to 1 + 2⁻⁷: all results together have the mean **1.001953125**.


# %% solution="u07-stochastic"
def rounded_by_chance(x: Tensor, random: Tensor) -> Tensor:
    """x in bf16, rounded up or down with the probability that makes the mean right.

    Args:
        x: Numbers in fp32.
        random: Whole numbers from 0 to 65,535, of the same shape.
    """
    ### BEGIN SOLUTION
    carried = x.view(torch.int32) + random
    upper = (carried >> 16) << 16
    return upper.view(torch.float32).bfloat16()
    ### END SOLUTION


# %%
try_it(rounded_by_chance, torch.tensor([1.003]), torch.tensor([60_000], dtype=torch.int32))

# %% check="u07-stochastic"
# All random numbers; near one neighbour and in the middle; both signs; numbers of bf16.

# %% [markdown]
# <details><summary>My mean is a little too large</summary>
#
# For how many of the 65,536 random numbers does your result go up when the lower bits are zero?
# </details>
#
# <details><summary>My result has another number of elements than x</summary>
#
# A sum of int32 and int64 is int64, and its bits are two numbers of fp32. Which of your tensors is int64?
# </details>

# %% [markdown]
# **Measure.** Add 0.001 to 1 in bf16 a thousand times, as above, now by chance, in eight sums beside each other:

# %%
by_chance = answer("u07-stochastic", rounded_by_chance)
sums_by_chance, generator = torch.ones(8).bfloat16(), torch.Generator().manual_seed(0)
for _ in range(1000):
    random = torch.randint(2**16, (8,), dtype=torch.int32, generator=generator)
    sums_by_chance = by_chance(sums_by_chance.float() + 1e-3, random)
print(sums_by_chance.tolist())
print("mean", round(sums_by_chance.double().mean().item(), 3))

# %% [markdown]
# **Explain.** Each sum is off by some spacings, and their mean is near 2. Some recipes so save the master weights; the price is noise in every update.

# %% [markdown]
# ## Copies of autocast
#
# A cast makes a copy. Autocast remembers the copy of a *weight* until its region ends, and autograd keeps the copies that the backward pass needs.

# %% What autocast keeps [markdown] exercise="u07-autocast-bytes" points=1.5 minutes=17 difficulty=3 importance=2 extra=true
# **Write** `kept_bytes`: what autograd keeps of linear (h to f), GELU, linear (f to h), called `num_calls` times in a row, each time on its own last result, in **one** region in bf16: a dictionary with `"weights"` (copies of weights) and `"activations"`, two `int`s in bytes.
#
# - Parameters, biases and the first input are in fp32; autograd keeps what the product read.
# - A linear layer keeps its weight for the gradient of its **input**, and its input for that of its weight. GELU keeps its input.
# - The first input wants a gradient only if `wants_input_grad`.
#
# *Worked case:* 3 tokens, h 4, f 8, one call, no gradient for the input: **64** and **120**.


# %% solution="u07-autocast-bytes"
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

# %% check="u07-autocast-bytes"
# A real block under autocast: once and often; on data and behind other layers. Half each.

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
from course_utils.instruments import count_saved_bytes

kept_of = answer("u07-autocast-bytes", kept_bytes)


def measured_bytes(num_tokens):
    block = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
    with torch.autocast("cpu", torch.bfloat16):
        return count_saved_bytes(lambda: block(torch.ones(num_tokens, 64)), block).total_bytes


tokens = [4**power for power in range(1, 7)]
show.computed_and_measured(
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
from course_utils.reference import Block

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
# **Explain.** In one region both calls share the copies; each region of its own makes new ones.
#
# How much do the copies add to the 16 N of a step? AdamW on linear layers, with the backward pass behind the region, as is usual, and inside of it:


# %% tags=["nbval-check-output"]
def peak_bytes(num_layers, is_inside):
    layers = nn.Sequential(*(nn.Linear(256, 256, bias=False) for _ in range(num_layers)))
    adamw = torch.optim.AdamW(layers.parameters(), foreach=False)

    def step():
        with torch.autocast("cpu", torch.bfloat16):
            loss = layers(torch.ones(1, 256)).sum()
            if is_inside:
                loss.backward()
        if not is_inside:
            loss.backward()
        adamw.step()
        adamw.zero_grad()

    step()
    return trace_memory(step, layers, adamw).peak_bytes / (num_layers * 256**2)


for num_layers in (16, 64):
    behind, inside = (peak_bytes(num_layers, is_inside) for is_inside in (False, True))
    print(f"{num_layers} layers: behind {behind:.2f} N bytes, inside {inside:.2f} N")

# %% [markdown]
# Behind the region a copy is freed as soon as its gradient is there, and the peak is about 16 N; what is above it are AdamW's temporaries, less with more layers. Inside of it autocast holds the copies, 2 N, to the end.

# %% [markdown]
# ## The largest scale that does no harm
#
# A loss scaler finds its scale by trying. If you have all gradients at hand, you can give the best one at once.

# %% The best scale [markdown] exercise="u07-best-scale" points=1 minutes=11 difficulty=3 importance=2 extra=true
# **Write** `best_scale` for a list of gradients: a dictionary with `"scale"`, the largest power of two by which all may be multiplied so that each, **rounded to fp16**, is finite; and `"still_zero"`, how many that were not zero are zero in fp16 then. Each is half of the points.
#
# fp16's largest number is 65,504, its smallest 2⁻²⁴; a tie goes to the even neighbour. A scale below one is one, too. The largest gradient lies between 2⁻³⁰ and 2³⁰ in size.
#
# *Worked case:* `[3.0, 2.0**-40, 0.0]`: **16,384** and **1**.


# %% solution="u07-best-scale"
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

# %% check="u07-best-scale"
# A negative largest; beyond fp16 already; just above 65,504; halfway to the smallest.

# %% [markdown]
# <details><summary>Some of my scales are half of the right one</summary>
#
# The numbers of fp16 below 65,536 are 32 apart. Up to where does a number round down to 65,504?
# </details>

# %% [markdown]
# **Measure.** The gradients of the small model's weights, multiplied by your scale and by twice as much, in fp16:

# %% tags=["demonstration"]
best = answer("u07-best-scale", best_scale)(of_weights.tolist())
print(f"scale 2^{math.log2(best['scale']):.0f}, still zero: {best['still_zero']:,}")
for times in (1, 2):
    halves = (of_weights * best["scale"] * times).half()
    lost = (of_weights.count_nonzero() - halves.count_nonzero()).item()
    print(f"{times} x scale: all finite {halves.isfinite().all().item()}, zero: {lost:,}")

# %% [markdown]
# **Explain.** The scaler above found about as large a one without looking: gradients of activations on the way must be finite too, and each batch has others.

# %% [markdown]
# ## Recap
#
# 1. *Build*: a number is a sign, an exponent and a mantissa; the exponent decides the range, the mantissa the spacing.
# 2. *Predict*: an update below half a spacing vanishes, a long sum stops, a gradient below 2⁻²⁵ is zero in fp16.
# 3. *Write*: master weights in fp32 remember small steps; a loss scaler lifts gradients into fp16's range and skips a step that overflows.
# 4. *Choose*: 16 bits where products read, fp32 where something is summed or remembered; the dense peak below the line.
#
# | quantity | value |
# |---|---|
# | spacing from 2^e on, with M bits of mantissa | 2^(e − M) |
# | lost update | less than half a spacing of the weight |
# | fp16: largest, smallest normal, smallest | 65,504, 2⁻¹⁴, 2⁻²⁴ |
# | state, bytes for each parameter | 16 (fp32), 16, 18, 20 (mixed) |
# | autocast | 16 N; copies come and go, at most 2 N |
# | dense peak | cores · multiply-adds · 2 · clock |
#
# ## Further reading
#
# - Micikevicius et al. 2018, *Mixed Precision Training*, section 3 (15 minutes): master weights, loss scaling, sums in fp32.
# - Micikevicius et al. 2022, *FP8 Formats for Deep Learning*, sections 2 and 3 (15 minutes): the two formats, and a scale for each tensor.
# - PyTorch documentation, *Automatic Mixed Precision package* (10 minutes): the lists of operations for each device.
