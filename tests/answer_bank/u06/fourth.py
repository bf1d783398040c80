"""Right answers to exercises of unit 06, in a fourth style."""

import torch

# === u06-forward
# Whichever of the two loops moves less outside.


def flash_forward(machine, arrays, block_q, block_k):
    q, k, v, out, lse = arrays
    n, d = q.shape
    m = len(k)
    q_turns, k_turns = -(-n // block_q), -(-m // block_k)
    with_queries_outside = n * d + 2 * q_turns * m * d + n * d + n
    with_keys_outside = 2 * m * d + k_turns * n * d + (2 * k_turns - 1) * (n * d + n)
    if with_keys_outside < with_queries_outside:
        keys_outside(machine, arrays, block_q, block_k)
        return
    for i in range(0, n, block_q):
        queries = machine.load(q[i : i + block_q])
        result = machine.full((len(queries), d), 0.0)
        level = machine.full((len(queries),), -torch.inf)
        for j in range(0, m, block_k):
            scores = queries @ machine.load(k[j : j + block_k]).mT / d**0.5
            higher = torch.logaddexp(level, scores.logsumexp(1))
            result = result * torch.exp(level - higher)[:, None]
            scores = torch.exp(scores - higher[:, None])
            result = result + scores @ machine.load(v[j : j + block_k])
            level = higher
            del scores, higher
        machine.store(result, out[i : i + block_q])
        machine.store(level, lse[i : i + block_q])
        del queries, result, level


def keys_outside(machine, arrays, block_q, block_k):
    q, k, v, out, lse = arrays
    scale = q.shape[1] ** -0.5
    for j in range(0, len(k), block_k):
        keys, values = machine.load(k[j : j + block_k]), machine.load(v[j : j + block_k])
        for i in range(0, len(q), block_q):
            rows = slice(i, i + block_q)
            scores = machine.load(q[rows]) @ keys.mT * scale
            level = scores.logsumexp(1)
            if j:
                before = machine.load(lse[rows])
                level = torch.logaddexp(before, level)
                result = machine.load(out[rows]) * torch.exp(before - level)[:, None]
                result = result + torch.exp(scores - level[:, None]) @ values
            else:
                result = torch.exp(scores - level[:, None]) @ values
            machine.store(result, out[rows])
            machine.store(level, lse[rows])
            del scores, level, result
        del keys, values
