"""Answer banks of unit 13."""

from autograder.observing.u13.paged_scripts import script_of
from tests.answer_bank import AnswerBank, Wrong


def is_latent(case):
    return "latent_attention" in case["model"]


CACHE_BYTES = AnswerBank(
    function="cache_bytes",
    wrong=[
        Wrong(
            "through a float",
            """
            def cache_bytes(model, num_sequences, context, element_bytes, window):
                tokens = min(context, window or context)
                latent = model.latent_attention
                numbers = 2.0 * model.num_kv_heads * model.head_dim
                if latent is not None:
                    numbers = float(latent.kv_rank + latent.rope_head_dim)
                return int(numbers * num_sequences * tokens * model.num_layers * element_bytes)
            """,
            "Where does your whole number become a float?",
        ),
    ],
    right=[
        """
        def cache_bytes(model, num_sequences, context, element_bytes, window):
            kept = context if window == 0 or window > context else window
            mla = model.latent_attention
            if mla:
                per_token = mla.kv_rank + mla.rope_head_dim
            else:
                per_token = sum(model.num_kv_heads * model.head_dim for _ in ("keys", "values"))
            return element_bytes * per_token * kept * num_sequences * model.num_layers
        """,
        """
        import math

        def cache_bytes(model, b, t, e, w):
            sizes = [b, len(range(t)[-w:]) if w else t, model.num_layers, e]
            mla = model.latent_attention
            own = [2, model.num_kv_heads, model.head_dim]
            return math.prod(sizes + ([mla.kv_rank + mla.rope_head_dim] if mla else own))
        """,
    ],
    features={
        "latents": is_latent,
        "own keys": lambda case: case["model"]["num_heads"] == case["model"]["num_kv_heads"],
        "one key head": lambda case: case["model"]["num_kv_heads"] == 1,
        "a window": lambda case: 0 < case["window"] < case["context"],
        "a long window": lambda case: case["window"] > case["context"],
        "latents in a window": lambda case: is_latent(case) and case["window"],
        "one byte": lambda case: case["element_bytes"] == 1,
        "beyond a float": lambda case: case["context"] > 2**50,
    },
)

CACHED_STEP = AnswerBank(
    function="decode_attention",
    wrong=[
        Wrong(
            "a mask over the whole buffer",
            """
            import torch
            from torch.nn import functional as F

            def decode_attention(q, k_new, v_new, k_cache, v_cache, length):
                k_cache[:, :, length], v_cache[:, :, length] = k_new, v_new
                seen = torch.arange(k_cache.shape[2]) <= length
                out = F.scaled_dot_product_attention(
                    q[:, :, None], k_cache, v_cache, attn_mask=seen[None], enable_gqa=True
                )
                return out[:, :, 0]
            """,
            "do you read beyond it?",
            points=1.5,
        ),
        Wrong(
            "the buffers written again",
            """
            import torch
            from torch.nn import functional as F

            def decode_attention(q, k_new, v_new, k_cache, v_cache, length):
                keys = torch.cat([k_cache[:, :, :length], k_new[:, :, None]], dim=2)
                values = torch.cat([v_cache[:, :, :length], v_new[:, :, None]], dim=2)
                k_cache[:, :, : length + 1], v_cache[:, :, : length + 1] = keys, values
                return F.scaled_dot_product_attention(
                    q.unsqueeze(2), keys, values, enable_gqa=True
                ).squeeze(2)
            """,
            "Which tensor has them side by side already?",
            points=1.5,
        ),
        Wrong(
            "the axis of the one query left in",
            """
            from torch.nn import functional as F

            def decode_attention(q, k_new, v_new, k_cache, v_cache, length):
                k_cache[:, :, length], v_cache[:, :, length] = k_new, v_new
                keys, values = k_cache[:, :, : length + 1], v_cache[:, :, : length + 1]
                return F.scaled_dot_product_attention(
                    q[:, :, None], keys, values, enable_gqa=True
                )
            """,
            "What does the exercise ask your function to return?",
        ),
        Wrong(
            "no result",
            """
            def decode_attention(q, k_new, v_new, k_cache, v_cache, length):
                k_cache[:, :, length], v_cache[:, :, length] = k_new, v_new
            """,
            "?",
        ),
    ],
    right=[
        """
        def decode_attention(q, k_new, v_new, k_cache, v_cache, length):
            k_cache[:, :, length], v_cache[:, :, length] = k_new, v_new
            b, a, d = q.shape
            grouped = q.view(b, k_cache.shape[1], -1, d)
            scores = grouped @ k_cache[:, :, : length + 1].mT / d**0.5
            return (scores.softmax(-1) @ v_cache[:, :, : length + 1]).reshape(b, a, d)
        """,
        """
        import torch

        def decode_attention(q, k_new, v_new, k_cache, v_cache, length):
            k_cache.select(2, length).copy_(k_new)
            v_cache.select(2, length).copy_(v_new)
            keys, values = k_cache.narrow(2, 0, length + 1), v_cache.narrow(2, 0, length + 1)
            q = q.unflatten(1, (keys.shape[1], -1)) * q.shape[-1] ** -0.5
            weights = torch.softmax(torch.einsum("bkgd,bktd->bkgt", q, keys), dim=-1)
            return torch.einsum("bkgt,bktd->bkgd", weights, values).flatten(1, 2)
        """,
    ],
    features={
        "own keys": lambda case: case["num_heads"] == case["num_kv_heads"],
        "shared keys": lambda case: case["num_heads"] > case["num_kv_heads"] > 1,
        "one key head": lambda case: case["num_kv_heads"] == 1,
        "an empty cache": lambda case: case["length"] == 0,
        "full afterwards": lambda case: case["room"] == case["length"] + 1,
        "noise behind": lambda case: case["room"] > case["length"] + 1,
        "bytes of shared keys": lambda case: (
            case["scenario"] == "bytes" and case["num_heads"] > case["num_kv_heads"]
        ),
    },
)

LATENT_STEP = AnswerBank(
    function="latent_attention",
    wrong=[
        Wrong(
            "only the scores",
            """
            def latent_attention(q_nope, q_rope, latents, rope_keys, key_up, value_up):
                return q_rope @ rope_keys.mT
            """,
            "What does the exercise ask your function to return?",
        ),
        Wrong(
            "the axis of the one query left in",
            """
            import torch

            def latent_attention(q_nope, q_rope, latents, rope_keys, key_up, value_up):
                scale = (q_nope.shape[-1] + q_rope.shape[-1]) ** -0.5
                scores = torch.einsum("ban,ran->bar", q_nope, key_up) @ latents.mT
                scores = scores + q_rope @ rope_keys.mT
                summed = (scores * scale).softmax(-1) @ latents
                return torch.einsum("bar,raw->baw", summed, value_up)[:, :, None]
            """,
            "What does the exercise ask your function to return?",
        ),
        Wrong(
            "divided by the width itself",
            """
            import torch

            def latent_attention(q_nope, q_rope, latents, rope_keys, key_up, value_up):
                scale = 1 / (q_nope.shape[-1] + q_rope.shape[-1])
                scores = torch.einsum("ban,ran->bar", q_nope, key_up) @ latents.mT
                scores = scores + q_rope @ rope_keys.mT
                summed = (scores * scale).softmax(-1) @ latents
                return torch.einsum("bar,raw->baw", summed, value_up)
            """,
            "by what is it divided",
        ),
        Wrong(
            "every head's keys, one head after the other",
            """
            import torch

            def latent_attention(q_nope, q_rope, latents, rope_keys, key_up, value_up):
                rows = []
                for head in range(q_nope.shape[1]):
                    keys = latents @ key_up[:, head]
                    scores = keys @ q_nope[:, head, :, None] + rope_keys @ q_rope[:, head, :, None]
                    scale = (q_nope.shape[-1] + q_rope.shape[-1]) ** -0.5
                    weights = (scores[..., 0] * scale).softmax(-1)
                    summed = weights[:, None] @ latents
                    rows.append((summed @ value_up[:, head])[:, 0])
                return torch.stack(rows, 1)
            """,
            "keys of all heads are made again",
            points=1.25,
        ),
    ],
    right=[
        """
        import torch

        def latent_attention(q_nope, q_rope, latents, rope_keys, key_up, value_up):
            width = q_nope.shape[-1] + q_rope.shape[-1]
            into = torch.bmm(q_nope.transpose(0, 1), key_up.permute(1, 2, 0)).transpose(0, 1)
            queries = torch.cat([into, q_rope], dim=-1) / width**0.5
            keys = torch.cat([latents, rope_keys], dim=-1)
            weights = torch.softmax(queries @ keys.transpose(1, 2), dim=-1)
            summed = torch.bmm(weights, latents)
            return torch.bmm(summed.transpose(0, 1), value_up.transpose(0, 1)).transpose(0, 1)
        """,
        """
        import math
        import torch

        def latent_attention(q_nope, q_rope, latents, rope_keys, key_up, value_up):
            out = []
            for h in range(q_nope.size(1)):
                absorbed = q_nope[:, h] @ key_up[:, h].T
                s = torch.einsum("br,btr->bt", absorbed, latents)
                s = s + torch.einsum("bd,btd->bt", q_rope[:, h], rope_keys)
                w = torch.softmax(s / math.sqrt(q_nope.size(2) + q_rope.size(2)), dim=1)
                out.append(torch.einsum("bt,btr->br", w, latents) @ value_up[:, h])
            return torch.stack(out, dim=1)
        """,
    ],
    features={
        "one cached token": lambda case: case["context"] == 1,
        "values wider than keys": lambda case: case["width"] > case["nope"],
        "values narrower than keys": lambda case: case["width"] < case["nope"],
        "many cached tokens": lambda case: case["context"] > 20,
    },
)

PAGED = AnswerBank(
    function="PagedCache",
    wrong=[
        Wrong(
            "a list of free blocks that is simply popped, and lengths that outlive their sequence",
            """
            class PagedCache:
                def __init__(self, num_blocks, block_size):
                    self.copies, self.size, self.unused = [], block_size, list(range(num_blocks))
                    self.tables, self.lengths = {}, {}

                def append(self, sequence):
                    length = self.lengths.setdefault(sequence, 0)
                    self.lengths[sequence] += 1
                    if length == 0:
                        self.tables[sequence] = []
                    if length % self.size == 0:
                        self.tables[sequence].append(self.unused.pop())
                    return self.tables[sequence][-1], length % self.size

                def table(self, sequence):
                    return list(self.tables[sequence])

                def fork(self, sequence, child):
                    self.lengths[child] = self.lengths[sequence]
                    self.tables[child] = list(self.tables[sequence])

                def free(self, sequence):
                    self.unused += self.tables.pop(sequence)
            """,
            "What should a request raise when no block is free?",
        ),
        Wrong(
            "never a copy, every fork its own blocks",
            """
            class PagedCache:
                def __init__(self, num_blocks, block_size):
                    self.copies, self.size, self.unused = [], block_size, list(range(num_blocks))
                    self.tables, self.lengths = {}, {}

                def append(self, sequence):
                    length = self.lengths.get(sequence, 0)
                    if length % self.size == 0:
                        if not self.unused:
                            raise MemoryError
                        self.tables.setdefault(sequence, []).append(self.unused.pop())
                    self.lengths[sequence] = length + 1
                    return self.tables[sequence][-1], length % self.size

                def table(self, sequence):
                    return self.tables[sequence]

                def fork(self, sequence, child):
                    self.lengths[child] = self.lengths[sequence]
                    self.tables[child] = [self.unused.pop() for _ in self.tables[sequence]]

                def free(self, sequence):
                    self.unused += self.tables.pop(sequence)
                    del self.lengths[sequence]
            """,
            "?",
            points=2.0,
        ),
    ],
    right=[
        """
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
        """,
        """
        from collections import Counter, deque

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
        """,
    ],
    features={
        "tight": lambda case: case["num_blocks"] < 10 and case["scenario"] == "copy",
        "ample": lambda case: case["num_blocks"] > 10 and case["scenario"] == "copy",
        "blocks of one cell": lambda case: case["block_size"] == 1,
        "a fork": lambda case: any(each[0] == "fork" for each in script_of(case)),
        "a name again": lambda case: any(
            each[0] == "free" and ["append", each[1]] in script_of(case)[number:]
            for number, each in enumerate(script_of(case))
        ),
    },
)

TOUCHED = AnswerBank(
    function="expected_experts",
    wrong=[],
    right=[
        """
        from math import comb

        def expected_experts(num_experts, experts_per_token, num_tokens):
            missed = comb(num_experts - 1, experts_per_token) / comb(num_experts, experts_per_token)
            return sum(1 - missed**num_tokens for _ in range(num_experts))
        """,
        """
        def expected_experts(num_experts, experts_per_token, num_tokens):
            reached = 0.0
            for _ in range(num_tokens):
                reached += experts_per_token * (num_experts - reached) / num_experts
            return reached
        """,
    ],
    features={
        "one token": lambda case: case["num_tokens"] == 1,
        "one expert each": lambda case: case["experts_per_token"] == 1 < case["num_tokens"],
        "all experts": lambda case: case["experts_per_token"] == case["num_experts"],
        "hundreds": lambda case: case["num_experts"] > 200,
    },
)

ACCEPT = AnswerBank(
    function="speculative_rule",
    wrong=[
        Wrong(
            "only the chances to accept",
            """
            def speculative_rule(p, q):
                return [min(1, x / y) if y else 1 for x, y in zip(p, q)]
            """,
            "?",
        ),
        Wrong(
            "divides by zero where q is",
            """
            def speculative_rule(p, q):
                accept = [min(1, x / y) for x, y in zip(p, q)]
                after = [max(0, x - y) for x, y in zip(p, q)]
                return accept, [x / (sum(after) or 1) for x in after]
            """,
            "?",
        ),
    ],
    right=[
        """
        def speculative_rule(p, q):
            p, q = [float(x) for x in p], [float(x) for x in q]
            accept = [1.0 if x >= y else x / y for x, y in zip(p, q)]
            rejected = sum(y * (1 - c) for y, c in zip(q, accept))
            after = [(x - y * c) / rejected if rejected > 1e-12 else x
                     for x, y, c in zip(p, q, accept)]
            return accept, after
        """,
        """
        def speculative_rule(p, q):
            common = [min(pair) for pair in zip(p, q)]
            alpha = sum(common)
            accept = [m / y if y > 0 else 0 for m, y in zip(common, q)]
            if alpha == 1:
                return accept, [0 for _ in p]
            return tuple(accept), tuple((x - m) / (1 - alpha) for x, m in zip(p, common))
        """,
    ],
    features={
        "q without a token": lambda case: "0" in case["q"],
        "p without a token": lambda case: "0" in case["p"],
        "equal": lambda case: case["p"] == case["q"],
        "nothing in common": lambda case: all(
            "0" in pair for pair in zip(case["p"], case["q"], strict=True)
        ),
        "two tokens": lambda case: len(case["p"]) == 2,
    },
)

SPECULATE = AnswerBank(
    function="speculation",
    wrong=[],
    right=[
        """
        def speculation(acceptance, draft_cost, draft_length):
            if acceptance == 1:
                tokens = draft_length + 1
            else:
                tokens = (1 - acceptance ** (draft_length + 1)) / (1 - acceptance)
            return {"tokens": tokens, "speedup": tokens / (1 + draft_cost * draft_length)}
        """,
        """
        def speculation(acceptance, draft_cost, draft_length):
            tokens = 1.0
            for _ in range(draft_length):
                tokens = 1 + acceptance * tokens
            return dict(speedup=tokens / (draft_cost * draft_length + 1), tokens=tokens)
        """,
    ],
    features={
        "always accepted": lambda case: case["acceptance"] == 1,
        "never accepted": lambda case: case["acceptance"] == 0,
        "no drafts": lambda case: case["draft_length"] == 0,
        "free drafts": lambda case: case["draft_cost"] == 0,
    },
)

CAPACITY = AnswerBank(
    function="capacity_losses",
    wrong=[],
    right=[
        """
        def capacity_losses(choices, num_experts, capacity):
            load = {}
            lucky = set()
            dropped = 0
            for experts in zip(*choices):
                for token, expert in enumerate(experts):
                    load[expert] = load.get(expert, 0) + 1
                    if load[expert] <= capacity:
                        lucky.add(token)
                    else:
                        dropped += 1
            used = sum(min(capacity, each) for each in load.values())
            return {
                "dropped": dropped,
                "lost_tokens": len(choices) - len(lucky),
                "empty_places": num_experts * capacity - used,
            }
        """,
        """
        import numpy as np

        def capacity_losses(choices, num_experts, capacity):
            ranked = np.array(choices).T
            got = np.zeros(ranked.shape, dtype=bool)
            for expert in range(num_experts):
                rows, columns = np.nonzero(ranked == expert)
                got[rows[:capacity], columns[:capacity]] = True
            return {
                "dropped": int((~got).sum()),
                "lost_tokens": int((~got.any(axis=0)).sum()),
                "empty_places": int(num_experts * capacity - got.sum()),
            }
        """,
    ],
    features={
        "one choice": lambda case: len(case["choices"][0]) == 1,
        "three choices": lambda case: len(case["choices"][0]) == 3,
        "one place": lambda case: case["capacity"] == 1,
        "places for all": lambda case: case["capacity"] == len(case["choices"]),
    },
)

BANKS = {
    "u13-cache-bytes": CACHE_BYTES,
    "u13-cached-step": CACHED_STEP,
    "u13-latent-step": LATENT_STEP,
    "u13-paged": PAGED,
    "u13-touched": TOUCHED,
    "u13-accept": ACCEPT,
    "u13-speculate": SPECULATE,
    "u13-capacity": CAPACITY,
}
