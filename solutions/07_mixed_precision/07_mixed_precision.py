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
# | lecture E, bytes in mixed precision (E12, E13); lecture S (*Scaling LLM Training, Part I*), bytes per parameter (S11); lecture B (*Building LLMs in Practice*), formats and rates (B7) | 120 minutes, and 30 for the extras | CPU | 01, 03, 04 |
#
# Cells that came with the notebook stay where they are; add cells of your own wherever you like.

# %% [markdown]
# ## What you can do after it
#
# 1. **Build** numbers from their bits, and round to any format.
# 2. **Predict** where a format breaks: what overflows, what vanishes, and where a sum stops.
# 3. **Write** master weights and loss scaling.
# 4. **Choose** a format for each part of training, and the peak rate to divide by.

# %% [markdown]
# ## Names and symbols
#
# The lectures name formats and give them no letters. A number of one **sign** bit, some bits of **exponent** and some of **mantissa**:
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
# N counts parameters.

# %% [markdown]
# ## Setup

# %% nbgrader={"grade": false, "grade_id": "u07-setup", "locked": true, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
from course_utils.ready import check_setup

check_setup()

import math

import pandas as pd
import torch
from torch import Tensor

from course_utils.checks import answer, check, compare, predict
from course_utils.configs import FORMATS
from course_utils.show import (
    computed_and_measured,
    explorer,
    nearest_number,
    ranges_and_steps,
    running_sums,
    try_it,
)

# %% [markdown]
# ## A tour: one number in 8 bits
#
# Put 0.3 into the smallest format and look at what is there:

# %% tags=["nbval-check-output"]
x = torch.tensor(0.3).to(torch.float8_e5m2)
print(x.item(), "has the bits", format(x.view(torch.uint8).item(), "08b"))

# %% [markdown]
# Eight bits can say 256 things, and 0.3 is not among them. The bits, and the two numbers beside it:

# %%
nearest_number(exponent_bits=5, mantissa_bits=2, value="0.3")

# %% [markdown]
# From left to right: the sign; the exponent 01101, which is 13, minus a **bias** of 15, so 2⁻²; and the mantissa 01, a quarter of the way to the next power of two: 2⁻² · 1.25 = 0.3125.
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

# %% [markdown] exercise={"id": "u07-value", "title": "A number from its bits", "difficulty": 2, "importance": 4, "minutes": 10}
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


# %% nbgrader={"grade": false, "grade_id": "u07-value", "locked": false, "schema_version": 3, "solution": true, "task": false}
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
    bias = 2 ** (num_exponent_bits - 1) - 1
    if exponent == 2**num_exponent_bits - 1:
        return sign * math.inf if mantissa == 0 else math.nan
    if exponent == 0:
        return sign * part * 2.0 ** (1 - bias)
    return sign * (1 + part) * 2.0 ** (exponent - bias)
    ### END SOLUTION


# %%
try_it(value_of, "00111110", 5)
try_it(value_of, "00000001", 5)

# %% nbgrader={"grade": true, "grade_id": "u07-value-test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
# fp8, fp16, bf16, tf32, fp32; zero, subnormal, normal, infinite, NaN.
check("u07-value", value_of)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u07-value", value_of)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>My zero is a very small number</summary>
#
# With a hidden one every number is at least a power of two. For which exponent does the card leave it out?
# </details>
#
# <details><summary>My subnormal numbers are half of what they should be</summary>
#
# The smallest normal number has exponent 1. Which power of two is that? The largest subnormal number lies one step below it.
# </details>

# %% [markdown]
# **Measure.** Your function on every pattern of three formats, against the same bits in a tensor of torch:

# %% tags=["nbval-check-output"]
value = answer("u07-value", value_of)


def all_numbers(num_exponent_bits, num_mantissa_bits):
    width = 1 + num_exponent_bits + num_mantissa_bits
    return [value(format(n, f"0{width}b"), num_exponent_bits) for n in range(2**width)]


def all_in_torch(dtype, integers):
    patterns = torch.arange(2 ** (8 * dtype.itemsize))
    return patterns.to(integers).view(dtype).double().tolist()


def is_same(a, b):
    return a == b or (math.isnan(a) and math.isnan(b))


numbers = {}
for name, dtype, integers in (
    ("bf16", torch.bfloat16, torch.uint16),
    ("fp16", torch.float16, torch.uint16),
    ("fp8-e5m2", torch.float8_e5m2, torch.uint8),
):
    sizes = FORMATS[name]
    mine = all_numbers(sizes.num_exponent_bits, sizes.num_mantissa_bits)
    equal = sum(map(is_same, mine, all_in_torch(dtype, integers)))
    print(f"{name}: {equal:,} of {len(mine):,} patterns agree")
    numbers[name] = mine

# %% [markdown]
# fp8-e4m3 follows other rules: it has no infinity and one NaN of each sign, so that its largest exponent holds numbers too. Its numbers come from torch. A table from the patterns alone:

# %% tags=["nbval-check-output"]
numbers["fp8-e4m3"] = all_in_torch(torch.float8_e4m3fn, torch.uint8)
numbers["int8"] = list(range(-128, 128))


def facts(all_of_them):
    finite = sorted(set(each for each in all_of_them if math.isfinite(each)))
    below_one = sum(abs(each) < 1 for each in finite)
    return {
        "largest": f"{max(finite):,.6g}",
        "smallest above 0": f"{min(each for each in finite if each > 0):.3g}",
        "next after 1": f"{min(each for each in finite if each > 1):.6g}",
        "from 1 to 2": sum(1 <= each < 2 for each in finite),
        "between -1 and 1": f"{below_one / len(finite):.0%}",
    }


pd.DataFrame({name: facts(each) for name, each in numbers.items()}).T

# %% tags=["nbval-check-output"]
compare(
    "u07-between",
    "numbers",
    computed=2 ** FORMATS["fp16"].num_mantissa_bits,
    measured=sum(1 <= each < 2 for each in numbers["fp16"]),
)

# %% [markdown]
# **Explain.** From one power of two to the next there are always 2^M numbers, so that the step grows with the number, and the *relative* step stays about the same. About half of a format's numbers lie between −1 and 1. int8 is the opposite: equal steps, and nothing between 0 and 1; it needs a scale beside it (an extra).
#
# All formats at one glance:

# %%
ranges_and_steps()

# %% [markdown]
# bf16 is fp32 with its last 16 bits cut off: the same range. fp16 spends three of those bits on digits instead, and pays with range. tf32 has the range of the one and the digits of the other.

# %% [markdown]
# ## Rounding
#
# Every result of an operation is rounded to the nearest number of its format. The distance between two neighbours is the **step**: 2^(power − M), where 2^power is the power of two at or below the number. Below the smallest normal number the step shrinks no further.

# %% [markdown] exercise={"id": "u07-round", "title": "Round to any format", "difficulty": 4, "importance": 4, "minutes": 18}
# **Write** `rounded`: the number of a format nearest to a finite `x`, a `float`.
#
# - A **tie**, exactly in the middle, goes to an even number of steps, as with Python's `round`.
# - The power never falls below 1 − bias: there the numbers are subnormal.
# - The largest number is one step below 2^(bias + 1). What would be rounded to 2^(bias + 1) or beyond is infinity, with the sign of `x`.
#
# `math.frexp(x)` gives a fraction from a half to below one, and the exponent that goes with it; for 0 it gives (0.0, 0).
#
# *Worked case:* 0.3 in 5 + 2 bits: the step is 2^(−2 − 2) = 0.0625, 0.3 are 4.8 steps, and 5 steps are **0.3125**.


# %% nbgrader={"grade": false, "grade_id": "u07-round", "locked": false, "schema_version": 3, "solution": true, "task": false}
def rounded(x: float, num_exponent_bits: int, num_mantissa_bits: int) -> float:
    """The number of a format nearest to ``x``; infinite if ``x`` is too large.

    Args:
        x: A finite number.
        num_exponent_bits: Bits of the format's exponent.
        num_mantissa_bits: Bits of its mantissa.
    """
    ### BEGIN SOLUTION
    bias = 2 ** (num_exponent_bits - 1) - 1
    _, above = math.frexp(x)
    step = 2.0 ** (max(above - 1, 1 - bias) - num_mantissa_bits)
    nearest = round(x / step) * step
    if abs(nearest) >= 2.0 ** (bias + 1):
        return math.copysign(math.inf, x)
    return nearest
    ### END SOLUTION


# %%
try_it(rounded, 0.3, 5, 2)
try_it(rounded, -70000.0, 5, 10)

# %% nbgrader={"grade": true, "grade_id": "u07-round-test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
# Five formats; ties, both ends of the range, subnormal numbers, both signs.
check("u07-round", rounded)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u07-round", rounded)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>Only some numbers are wrong, by one step</summary>
#
# Is each of them exactly in the middle between two neighbours? What do 0.5, 1.5 and 2.5 become with `round`, and what with your way?
# </details>
#
# <details><summary>All my steps are twice too large</summary>
#
# What does `math.frexp(1.0)` give? Which power of two is at or below 1?
# </details>
#
# <details><summary>Very small numbers do not become zero</summary>
#
# How small is the smallest step of the format? Below half of it, which number is nearest?
# </details>

# %% [markdown]
# **Measure.** Two thousand numbers of all sizes, against torch's conversion:

# %% tags=["nbval-check-output"]
rounded_of = answer("u07-round", rounded)
generator = torch.Generator().manual_seed(0)
powers = torch.randint(-30, 20, (2000,), generator=generator)
samples = torch.randn(2000, generator=generator) * 2.0**powers
for name, dtype in (
    ("bf16", torch.bfloat16),
    ("fp16", torch.float16),
    ("fp8-e5m2", torch.float8_e5m2),
):
    sizes = FORMATS[name]
    widths = (sizes.num_exponent_bits, sizes.num_mantissa_bits)
    pairs = zip(samples.tolist(), samples.to(dtype).double().tolist(), strict=True)
    equal = sum(rounded_of(x, *widths) == theirs for x, theirs in pairs)
    print(f"{name}: {equal:,} of {len(samples):,} equal")

# %% [markdown]
# **Explain.** They agree because these numbers come from fp32. From float64 torch goes to bf16 *by way of* fp32 and rounds twice, which can land on the wrong neighbour:

# %% tags=["nbval-check-output"]
a_bit_above_the_middle = 1 + 2**-8 + 2**-30
print("once: ", rounded_of(a_bit_above_the_middle, 8, 7))
print("twice:", torch.tensor(a_bit_above_the_middle, dtype=torch.float64).bfloat16().item())

# %% [markdown]
# Move the sliders: which value breaks which format?

# %%
explorer(
    nearest_number,
    exponent_bits=([2, 3, 4, 5, 6, 7, 8], 5),
    mantissa_bits=([1, 2, 3, 4, 5, 7, 10, 23], 10),
    value=(["1e-38", "1e-8", "0.001", "0.1", "1.0", "1.003", "257", "65504", "70000"], "0.1"),
)

# %% [markdown]
# One of its positions standing still:

# %%
nearest_number(exponent_bits=8, mantissa_bits=7, value="257")

# %% [markdown]
# ## Where formats break
#
# **Too large.** The largest number of fp16 is 65,504. Half a step above it everything is infinite:

# %% tags=["nbval-check-output"]
for x in (65_504.0, 65_519.0, 65_520.0, 70_000.0):
    print(f"{x:,} in fp16: {rounded_of(x, 5, 10):,}   in bf16: {rounded_of(x, 8, 7):,}")

# %% [markdown]
# **Too small.** A gradient of 10⁻⁸ is nothing unusual:

# %% tags=["nbval-check-output"]
print(f"1e-8 in fp16: {rounded_of(1e-8, 5, 10)}   in bf16: {rounded_of(1e-8, 8, 7):.4g}")

# %% [markdown]
# **Too close.** bf16 keeps 8 significant bits. Positions of tokens, counted in bf16, coincide:

# %% tags=["nbval-check-output"]
positions = torch.arange(4096).bfloat16()
print(f"{len(positions.unique()):,} different positions of {len(positions):,}")
print(positions[255:261].tolist())

# %% [markdown]
# That is why rotary angles are computed in fp32 also where the rest is bf16.
#
# **Without telling.** fp8-e4m3 has no infinity to round to. This torch gives its largest number instead, and an overflow leaves no trace:

# %% tags=["nbval-check-output"]
print(torch.tensor([400.0, 500.0, 1e6, math.inf]).to(torch.float8_e4m3fn).tolist())

# %% [markdown]
# **tf32** is no format to store numbers in: an fp32 tensor keeps its 4 bytes, and tensor cores may round the *factors* of a product to 10 bits of mantissa. For matrix products torch leaves that off unless you turn it on, and a CPU ignores it:

# %% tags=["nbval-ignore-output"]
x = 1 + 2**-12
print("one factor, rounded to tf32:", rounded_of(x, 8, 10))
if torch.cuda.is_available():
    matmul, one = torch.backends.cuda.matmul, torch.eye(64, device="cuda")
    before = matmul.fp32_precision
    for precision in ("ieee", "tf32"):
        matmul.fp32_precision = precision
        print(f"on this GPU, {precision}: {(x * one @ one)[0, 0].item()}")
    matmul.fp32_precision = before
else:
    print("No CUDA device here: on one, this cell also multiplies with and without tf32.")

# %% [markdown]
# ## Sums that stop
#
# **Predict.** You add 0.01 to a running sum in bf16, 4,096 times, and start at 0. What is the sum?

# %%
predict("u07-sum", None, "sum")

# %% [markdown]
# As the sum grows, its step grows, and the term does not:

# %% tags=["nbval-check-output"]
term, total, shown = torch.tensor(0.01).bfloat16(), torch.tensor(0.0).bfloat16(), []
for n in range(1, 4097):
    total = total + term
    if n in (1, 16, 64, 256, 512, 1024, 4096):
        shown.append({"terms": n, "sum": total.item(), "exact": n * term.item()})
pd.DataFrame(shown)

# %% [markdown] exercise={"id": "u07-stops", "title": "Where a sum stops", "difficulty": 3, "importance": 5, "minutes": 9}
# **Write** `stops_at`: the value that a running sum of equal terms never leaves, a `float`. `term` is a positive number of the format itself; the sum starts at 0 and stays within the format's range. Give it without adding.
#
# Think of the step of the sum: from 2^k to 2^(k + 1) it is 2^(k − M). How small must a term be against it to be rounded away, and what happens to a tie?
#
# *Worked case:* the term 1.0 with 2 bits of mantissa: 1, 2, … 8, and 8 + 1 = 9 lies between 8 and 10, a tie that goes to **8.0**.


# %% nbgrader={"grade": false, "grade_id": "u07-stops", "locked": false, "schema_version": 3, "solution": true, "task": false}
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

# %% nbgrader={"grade": true, "grade_id": "u07-stops-test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
# Powers of two and terms between them; four formats.
check("u07-stops", stops_at)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u07-stops", stops_at)
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>My value is half of the right one</summary>
#
# At your value the step is as large as the term, or less. Which terms are still rounded *up* to a whole step?
# </details>
#
# <details><summary>Only terms that are no power of two are wrong</summary>
#
# The step changes at powers of two only. Which is the first one whose step is at least twice the term?
# </details>

# %% [markdown]
# **Measure.** The sum above, and how far one can count: ones, added one by one in formats with M bits of mantissa.

# %% tags=["nbval-check-output"]
stop_of = answer("u07-stops", stops_at)
compare("u07-sum", "sum", computed=stop_of(term.item(), 7), measured=total.item())


# %%
def counted(num_mantissa_bits):
    total, before = 1.0, 0.0
    while total != before:
        before, total = total, rounded_of(total + 1.0, 8, num_mantissa_bits)
    return int(total)


widths = [2, 3, 5, 7, 10, 12]
computed_and_measured(
    [2**width for width in widths],
    computed=[int(stop_of(1.0, width)) for width in widths],
    measured=[counted(width) for width in widths],
    size_label="numbers from 1 up to 2, 2^M",
    unit="last number counted",
)

# %% [markdown]
# **Explain.** And yet torch's own sum is almost right:

# %% tags=["nbval-check-output"]
terms = torch.full((4096,), 0.01, dtype=torch.bfloat16)
print(terms.sum().item(), "of", 4096 * term.item())

# %% [markdown]
# Its running sums are in fp32, and only the result is rounded. Matrix products need the same: each number of a result is a sum of thousands of products. Here is one of 4,096 products of bf16 numbers between ½ and 1, with the running sum in your bf16, and in fp32:

# %%
a, b = (torch.empty(4096).uniform_(0.5, 1, generator=generator).bfloat16().double() for _ in "ab")
products = (a * b).tolist()


def running(widths):
    total, sums = 0.0, []
    for product in products:
        total = rounded_of(total + product, *widths)
        sums.append(total)
    return sums


running_sums(
    {
        "float64": (a * b).cumsum(0).tolist(),
        "products of bf16, sum in fp32": running((8, 23)),
        "products of bf16, sum in bf16": running((8, 7)),
    },
    stop=stop_of(1.0, 7),
)

# %% [markdown]
# No product is larger than 1, so that from 256, where the sum of ones stops, none can move the sum. The bf16 *factors* do little harm: their errors are independent and average out. So tensor cores take factors of 16 bits and add in fp32 (Micikevicius et al. 2018, section 3.3), and so do optimizers and gradient sums, which are next. For fp8 it is not that simple: DeepSeek-V3 found that the tensor cores of an H800 add fp8 products with fewer bits than fp32 has, and moves its sums out of them at intervals (its report, section 3.3).

# %% [markdown]
# ## Going further
#
# All that follows is **extra**: bonus points, in any order. The recap is at the end.

# %% [markdown]
# ## Eight bits without an exponent
#
# Lecture B's table (B7) also has int8, at twice the rate of bf16. An int8 number is a whole number from −128 to 127; what it counts is said once for a whole row, by a **scale**: x ≈ scale · integer.

# %% [markdown] exercise={"id": "u07-int8", "title": "Quantise to int8", "difficulty": 2, "importance": 2, "minutes": 10, "extra": true}
# **Write** `quantised`: a pair of tensors. The first holds the integers, of the shape of `x` and of type `torch.int8`; the second one fp32 scale for each row, of shape (rows, 1). The largest size in a row becomes 127 or −127; everything else is rounded to the nearest integer. A row of zeros has the scale 1.
#
# *Worked case:* the row [254, −3]: the scale **2**, the integers **127** and **−2**.


# %% nbgrader={"grade": false, "grade_id": "u07-int8", "locked": false, "schema_version": 3, "solution": true, "task": false}
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

# %% nbgrader={"grade": true, "grade_id": "u07-int8-test", "locked": true, "points": 1.5, "schema_version": 3, "solution": false, "task": false}
# Rows of several sizes; the largest below zero; rows of zeros; ties.
check("u07-int8", quantised)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u07-int8", quantised)
### END HIDDEN TESTS

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
exact = x.double() @ w.double().T
in_bf16 = x.bfloat16().double() @ w.bfloat16().double().T


def typical_error(result):
    return ((result - exact).square().mean() / exact.square().mean()).sqrt().item()


print(f"typical error: int8 {typical_error(product):.2%}, bf16 {typical_error(in_bf16):.2%}")
print(f"largest sum of integers: {sums.abs().max().item():,}; int16 ends at {2**15 - 1:,}")

# %% [markdown]
# The sums need more than 16 bits, hence int32. Now a single outlier in one row:

# %% tags=["nbval-check-output"]
x[0, 0] = 100.0
x_integers, _ = quantised_by(x)
print("different integers in the row of the outlier:", len(x_integers[0].unique()))
print("different integers in the row below:         ", len(x_integers[1].unique()))

# %% [markdown]
# **Explain.** The outlier takes the range for itself, and 511 numbers share the few integers that are left. A format with an exponent would not have noticed it. Gradients have such outliers, so that int8 is at home in inference more than in training.

# %% [markdown]
# ## Rounding by chance
#
# Where rounding to the nearest loses every small step, rounding **by chance** keeps them on average: a number a third of the way between two neighbours goes up in a third of the cases. Of an fp32 number, bf16 keeps the upper 16 bits; what a random number of 16 bits does to the lower ones decides.

# %% [markdown] exercise={"id": "u07-stochastic", "title": "Round by chance", "difficulty": 4, "importance": 2, "minutes": 12, "extra": true}
# **Write** `rounded_by_chance`: `x` in fp32 rounded to one of its two neighbours in bf16, a tensor of type `torch.bfloat16`. `random` has the shape of `x` and whole numbers from 0 to 65,535 of type `torch.int32`. Over all 65,536 of them the mean of the results must be **exactly** x, and a number of bf16 must stay as it is. The numbers are far from overflow.
#
# `x.view(torch.int32)` shows the bits as a whole number; `.view(torch.float32)` leads back.
#
# *Worked case:* x = 1 + 2⁻⁹, a quarter of the way from 1 to 1 + 2⁻⁷: all results together have the mean **1.001953125**.


# %% nbgrader={"grade": false, "grade_id": "u07-stochastic", "locked": false, "schema_version": 3, "solution": true, "task": false}
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

# %% nbgrader={"grade": true, "grade_id": "u07-stochastic-test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
# All random numbers; near one neighbour and in the middle; both signs; numbers of bf16.
check("u07-stochastic", rounded_by_chance)
### BEGIN HIDDEN TESTS
from course_utils.checks import grade

grade("u07-stochastic", rounded_by_chance)
### END HIDDEN TESTS

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
# **Measure.** Add 0.001 to 1, a thousand times, in bf16; eight sums beside each other, rounded to the nearest and by chance:

# %%
by_chance = answer("u07-stochastic", rounded_by_chance)
nearest, chance = torch.ones(8).bfloat16(), torch.ones(8).bfloat16()
for _ in range(1000):
    nearest = (nearest.float() + 1e-3).bfloat16()
    random = torch.randint(2**16, (8,), dtype=torch.int32, generator=generator)
    chance = by_chance(chance.float() + 1e-3, random)
print("to the nearest:", nearest.tolist())
print("by chance:     ", chance.tolist())

# %% [markdown]
# **Explain.** Each sum by chance is off by some steps, and their mean is near 2. Some recipes so save the master weights; the price is noise in every update.
