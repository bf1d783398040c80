# ---
# jupyter:
#   course:
#     title: One layer on eight devices
#     device: CPU
#     needs: ["01", "03", "06", "09"]
#     lecture: [E4]
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
# ![The MLP of a layer cut over four devices: each has some columns of the first weight and the matching rows of the second, so only inputs are copied and results summed. Beside it the milliseconds of one layer of Llama-3-8B: 17.9 on one device, 9.6 on two, 5.6 on four, 3.7 on eight, 12.4 on sixteen in two nodes.](hero.svg)
#
# Data parallelism gives every device all weights and some sequences. Here every device gets a part of each layer, or a part of each sequence. You cut an MLP and an attention so that their gradients stay exact, count what has to travel, and send keys around a ring.
#
# Your training plan needs 128 GB of weights, gradients and optimizer states on each device. Eight devices that share each layer need 16. What does it cost in days?
#
# 1. **Write** the two operations that make a layer parallel, and the layer.
# 2. **Compute** the bytes that travel, and **measure** what devices still keep.
# 3. **Write** ring attention, and share a causal sequence fairly.
# 4. **Explain** why tensor parallelism stays inside a node.
#
# | here | meaning |
# |---|---|
# | $t$, $c$ | ranks that share a layer (tensor), a sequence (context) |
# | $S$ | tokens in a pass |
# | $u$ | bytes of one tensor between blocks: $S$ tokens, $h$ numbers each |

# %% setup=true
from course_utils.preflight import check_setup

check_setup()

import torch
from torch import Tensor
from torch.nn import functional as F

from autograder import answer, check, compare, plan, predict, progress
from course_utils.distributed import Comm, Link, Network, NullComm, VirtualCluster, run_ranks

# %% tags=["demonstration", "nbval-ignore-output"]
plan()

# %% f and g [markdown] exercise="u11-f-and-g" points=3 minutes=9 difficulty=3 importance=5
# **Write** `f_and_g`


# %% solution="u11-f-and-g"
def f_and_g(comm: Comm):
    """Two functions: f copies and sums gradients, g sums and copies gradients."""

    class Copy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ### BEGIN SOLUTION
            return x.view_as(x)
            ### END SOLUTION

        @staticmethod
        def backward(ctx, gradient):
            ### BEGIN SOLUTION
            total = gradient.clone(memory_format=torch.contiguous_format)
            comm.all_reduce(total)
            return total
            ### END SOLUTION

    class Sum(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ### BEGIN SOLUTION
            summed = x.clone(memory_format=torch.contiguous_format)
            comm.all_reduce(summed)
            return summed
            ### END SOLUTION

        @staticmethod
        def backward(ctx, gradient):
            ### BEGIN SOLUTION
            return gradient
            ### END SOLUTION

    return Copy.apply, Sum.apply


# %% check="u11-f-and-g"
# Gradients

# %%
progress("11")
