"""Right answers to the exercises of unit 13, in a second style."""

import math
from collections import Counter, deque

import torch

# === u13-cached-step


def decode_attention(q, k_new, v_new, k_cache, v_cache, length):
    k_cache.select(2, length).copy_(k_new)
    v_cache.select(2, length).copy_(v_new)
    keys, values = k_cache.narrow(2, 0, length + 1), v_cache.narrow(2, 0, length + 1)
    q = q.unflatten(1, (keys.shape[1], -1)) * q.shape[-1] ** -0.5
    weights = torch.softmax(torch.einsum("bkgd,bktd->bkgt", q, keys), dim=-1)
    return torch.einsum("bkgt,bktd->bkgd", weights, values).flatten(1, 2)


# === u13-latent-step


def latent_attention(q_nope, q_rope, latents, rope_keys, key_up, value_up):
    out = []
    for h in range(q_nope.size(1)):
        absorbed = q_nope[:, h] @ key_up[:, h].T
        s = torch.einsum("br,btr->bt", absorbed, latents)
        s = s + torch.einsum("bd,btd->bt", q_rope[:, h], rope_keys)
        w = torch.softmax(s / math.sqrt(q_nope.size(2) + q_rope.size(2)), dim=1)
        out.append(torch.einsum("bt,btr->br", w, latents) @ value_up[:, h])
    return torch.stack(out, dim=1)


# === u13-paged


class PagedCache:
    def __init__(self, num_blocks, block_size):
        self.free_ones = deque(range(num_blocks))
        self.cells = block_size
        self.users = Counter()
        self.rows = {}
        self.copies = []

    def append(self, sequence):
        is_new = sequence not in self.rows
        row = [[], 0] if is_new else self.rows[sequence]
        slot = row[1] % self.cells
        needs_block = slot == 0
        needs_copy = slot > 0 and self.users[row[0][-1]] > 1
        if (needs_block or needs_copy) and not self.free_ones:
            raise MemoryError("full")
        if needs_block or needs_copy:
            block = self.free_ones.popleft()
            self.users[block] = 1
            if needs_copy:
                old = row[0].pop()
                self.users[old] -= 1
                self.copies += [[old, block, slot]]
            row[0].append(block)
        row[1] += 1
        self.rows[sequence] = row
        return row[0][-1], slot

    def table(self, sequence):
        return self.rows[sequence][0]

    def fork(self, sequence, child):
        blocks, length = self.rows[sequence]
        self.users.update(blocks)
        self.rows[child] = [blocks[:], length]

    def free(self, sequence):
        blocks, _ = self.rows.pop(sequence)
        self.users.subtract(blocks)
        self.free_ones.extend(block for block in blocks if not self.users[block])


# === u13-accept


def speculative_rule(p, q):
    common = [min(pair) for pair in zip(p, q)]
    alpha = sum(common)
    accept = [m / y if y > 0 else 0 for m, y in zip(common, q)]
    if alpha == 1:
        return accept, [0 for _ in p]
    return tuple(accept), tuple((x - m) / (1 - alpha) for x, m in zip(p, common))
