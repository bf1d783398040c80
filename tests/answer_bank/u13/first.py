"""Right answers to the exercises of unit 13, in a first style."""

import torch

# === u13-cached-step


def decode_attention(q, k_new, v_new, k_cache, v_cache, length):
    k_cache[:, :, length], v_cache[:, :, length] = k_new, v_new
    b, a, d = q.shape
    grouped = q.view(b, k_cache.shape[1], -1, d)
    scores = grouped @ k_cache[:, :, : length + 1].mT / d**0.5
    return (scores.softmax(-1) @ v_cache[:, :, : length + 1]).reshape(b, a, d)


# === u13-latent-step


def latent_attention(q_nope, q_rope, latents, rope_keys, key_up, value_up):
    width = q_nope.shape[-1] + q_rope.shape[-1]
    into = torch.bmm(q_nope.transpose(0, 1), key_up.permute(1, 2, 0)).transpose(0, 1)
    queries = torch.cat([into, q_rope], dim=-1) / width**0.5
    keys = torch.cat([latents, rope_keys], dim=-1)
    weights = torch.softmax(queries @ keys.transpose(1, 2), dim=-1)
    summed = torch.bmm(weights, latents)
    return torch.bmm(summed.transpose(0, 1), value_up.transpose(0, 1)).transpose(0, 1)


# === u13-paged


class PagedCache:
    def __init__(self, num_blocks, block_size):
        self.all, self.size, self.sequences, self.copies = num_blocks, block_size, {}, []

    def holders(self, block):
        return [name for name, (table, _) in self.sequences.items() if block in table]

    def first_free(self):
        for block in range(self.all):
            if not self.holders(block):
                return block
        raise MemoryError

    def append(self, sequence):
        table, length = self.sequences.get(sequence, ((), 0))
        if length % self.size == 0:
            table = (*table, self.first_free())
        elif len(self.holders(table[-1])) > 1:
            new = self.first_free()
            self.copies.append((table[-1], new, length % self.size))
            table = (*table[:-1], new)
        self.sequences[sequence] = table, length + 1
        return table[-1], length % self.size

    def table(self, sequence):
        return list(self.sequences[sequence][0])

    def fork(self, sequence, child):
        self.sequences[child] = self.sequences[sequence]

    def free(self, sequence):
        del self.sequences[sequence]


# === u13-accept


def speculative_rule(p, q):
    p, q = [float(x) for x in p], [float(x) for x in q]
    accept = [1.0 if x >= y else x / y for x, y in zip(p, q)]
    rejected = sum(y * (1 - c) for y, c in zip(q, accept))
    after = [(x - y * c) / rejected if rejected > 1e-12 else x for x, y, c in zip(p, q, accept)]
    return accept, after
