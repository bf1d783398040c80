"""Answer banks of unit 04: loops that leak, a caching allocator, fragmentation."""

import textwrap

from tests.answer_bank import AnswerBank, Wrong

IMPORTS = "import torch\nfrom torch.nn import functional as F\n"


def _evaluate(body: str) -> str:
    return f"{IMPORTS}\ndef evaluate(model, batches):\n" + _indented(body)


def _indented(body: str) -> str:
    return textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")


LOSS = "F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())"

EVALUATION = AnswerBank(
    function="evaluate",
    wrong=[
        Wrong(
            "as given",
            _evaluate(f"""
                losses = []
                for ids, targets in batches:
                    losses.append({LOSS})
                return torch.stack(losses).mean()
            """),
            "What does a loss carry besides its number?",
        ),
        Wrong(
            "del in the loop",
            _evaluate(f"""
                losses = []
                for ids, targets in batches:
                    loss = {LOSS}
                    losses.append(loss)
                    del loss
                return torch.stack(losses).mean()
            """),
            "What does a loss carry besides its number?",
        ),
        Wrong(
            "a number only at the end",
            _evaluate(f"""
                losses = []
                for ids, targets in batches:
                    losses.append({LOSS})
                return torch.stack(losses).mean().item()
            """),
            "When does a loss have to let go of its graph?",
        ),
        Wrong(
            "detached, with the loss in a variable",
            _evaluate(f"""
                total = 0.0
                for ids, targets in batches:
                    loss = {LOSS}
                    total += loss.detach()
                return total / len(batches)
            """),
            "Which name still holds them",
        ),
        Wrong(
            "no_grad around the loss alone",
            _evaluate("""
                total = 0.0
                for ids, targets in batches:
                    logits = model(ids)
                    with torch.no_grad():
                        total += F.cross_entropy(logits.flatten(0, 1), targets.flatten()).item()
                return total / len(batches)
            """),
            "Which name still holds them",
        ),
        Wrong(
            "detached at once",
            _evaluate(f"""
                losses = [{LOSS}.item() for ids, targets in batches]
                return sum(losses) / len(losses)
            """),
            "Who will ever ask for them here?",
        ),
        Wrong(
            "logits of all batches",
            _evaluate("""
                with torch.no_grad():
                    logits = [model(ids) for ids, _ in batches]
                    losses = [
                        F.cross_entropy(each.flatten(0, 1), targets.flatten())
                        for each, (_, targets) in zip(logits, batches)
                    ]
                return torch.stack(losses).mean().item()
            """),
            "What of a batch do you keep until the end",
        ),
        Wrong(
            "logits of all batches in one tensor",
            _evaluate("""
                with torch.no_grad():
                    logits = torch.cat([model(ids) for ids, _ in batches])
                    targets = torch.cat([each for _, each in batches])
                    return F.cross_entropy(logits.flatten(0, 1), targets.flatten()).item()
            """),
            "What of a batch do you keep until the end",
        ),
        Wrong(
            "backward frees the graph",
            _evaluate(f"""
                total = 0.0
                for ids, targets in batches:
                    loss = {LOSS}
                    loss.backward()
                    total += loss.item()
                return total / len(batches)
            """),
            "What would the training loop around yours find changed?",
        ),
        Wrong(
            "backward, and gradients freed",
            _evaluate(f"""
                total = 0.0
                for ids, targets in batches:
                    loss = {LOSS}
                    loss.backward()
                    model.zero_grad()
                    total += loss.item()
                return total / len(batches)
            """),
            "Who will ever ask for them here?",
        ),
        Wrong(
            "left in training mode",
            _evaluate(f"""
                model.eval()
                with torch.no_grad():
                    losses = [{LOSS} for ids, targets in batches]
                model.train()
                return torch.stack(losses).mean().item()
            """),
            "What would the training loop around yours find changed?",
        ),
        Wrong(
            "weights that no longer require a gradient",
            _evaluate(f"""
                for weight in model.parameters():
                    weight.requires_grad_(False)
                losses = [{LOSS} for ids, targets in batches]
                return torch.stack(losses).mean().item()
            """),
            "What would the training loop around yours find changed?",
        ),
        Wrong(
            "gradients switched off for good",
            _evaluate(f"""
                torch.set_grad_enabled(False)
                losses = [{LOSS} for ids, targets in batches]
                return torch.stack(losses).mean().item()
            """),
            "Who switches it on again",
        ),
        Wrong(
            "the last batch alone",
            _evaluate(f"""
                with torch.no_grad():
                    for ids, targets in batches:
                        loss = {LOSS}
                return loss.item()
            """),
            "Which losses are in it",
        ),
    ],
    right=[
        f"{IMPORTS}\n@torch.no_grad()\ndef evaluate(model, batches):\n"
        + _indented(f"""
            losses = [{LOSS} for ids, targets in batches]
            return torch.stack(losses).mean()
        """),
        _evaluate("""
            total, was_training = 0.0, model.training
            model.eval()
            with torch.inference_mode():
                for ids, targets in batches:
                    logits = model(ids)
                    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
                    total += loss.item()
            model.train(was_training)
            return total / len(batches)
        """),
        _evaluate(f"""
            was_enabled = torch.is_grad_enabled()
            torch.set_grad_enabled(False)
            total = torch.zeros(())
            for ids, targets in batches:
                total += {LOSS}
            torch.set_grad_enabled(was_enabled)
            return float(total) / len(batches)
        """),
    ],
    features={
        "one sequence": lambda case: case["num_sequences"] == 1,
        "several sequences": lambda case: case["num_sequences"] > 1,
        "training mode": lambda case: case["is_training"],
        "evaluation mode": lambda case: not case["is_training"],
        "more than three batches": lambda case: case["num_batches"] > 3,
    },
)


def _average(
    statistic: str = "average = 0.9 * average + 0.1 * hidden.std().detach()",
    hidden: str = "hidden = body(ids)",
    loss: str = "F.cross_entropy(head(hidden).flatten(0, 1), targets.flatten()).backward()",
    zero: str = "optimizer.zero_grad()",
    result: str = "average",
) -> str:
    return f"""{IMPORTS}
def train_with_average(body, head, optimizer, batches):
    average = torch.zeros(())
    for ids, targets in batches:
        {hidden}
        {statistic}
        {loss}
        optimizer.step()
        {zero}
    return {result}
"""


ATTACHED = "average = 0.9 * average + 0.1 * hidden.std()"

AVERAGE = AnswerBank(
    function="train_with_average",
    wrong=[
        Wrong("as given", _average(ATTACHED), "does it ever walk from the average"),
        Wrong(
            "del of the variable",
            _average(ATTACHED, zero="optimizer.zero_grad(); del hidden"),
            "does it ever walk from the average",
        ),
        Wrong(
            "the average detached, the new number not",
            _average("average = 0.9 * average.detach() + 0.1 * hidden.std()"),
            "One hidden state outlives the loop",
        ),
        Wrong(
            "a number only at the end",
            _average(ATTACHED, result="average.item()"),
            "In which line of the loop",
        ),
        Wrong(
            "a copy of the states in a variable",
            _average("copy = hidden.detach().clone(); average = 0.9 * average + 0.1 * copy.std()"),
            "one hidden state more than needed",
        ),
        Wrong(
            "the states detached for the loss too",
            _average(ATTACHED, hidden="hidden = body(ids).detach()"),
            "where do you cut it?",
        ),
        Wrong(
            "no_grad around the body",
            _average(
                ATTACHED,
                hidden="""with torch.no_grad():
            hidden = body(ids)""",
            ),
            "where do you cut it?",
        ),
        Wrong(
            "gradients not zeroed",
            _average(zero="pass"),
            "are they gone before the next batch?",
        ),
        Wrong(
            "no step",
            _average().replace("optimizer.step()", "pass"),
            "No weight is trained any more",
        ),
        Wrong(
            "factors swapped",
            _average("average = 0.1 * average + 0.9 * hidden.std().item()"),
            "Which numbers enter it, when",
        ),
        Wrong(
            "the plain mean",
            _average("average = average + hidden.std().item() / len(batches)"),
            "Which numbers enter it, when",
        ),
    ],
    right=[
        _average("average = 0.9 * average + 0.1 * hidden.std().item()"),
        _average("average = 0.9 * average + 0.1 * hidden.detach().std()"),
        _average(
            """with torch.no_grad():
            average = torch.lerp(hidden.std(), average.to(hidden.dtype), 0.9)""",
            result="float(average)",
        ),
        _average(ATTACHED, zero="optimizer.zero_grad(); average = average.detach()"),
        _average(hidden="optimizer.zero_grad(); hidden = body(ids)", zero="pass"),
    ],
    features={
        "one sequence": lambda case: case["num_sequences"] == 1,
        "several sequences": lambda case: case["num_sequences"] > 1,
        "more than three batches": lambda case: case["num_batches"] > 3,
    },
)


def _samples(kept: str, result: str = "states") -> str:
    return f"""{IMPORTS}
@torch.no_grad()
def last_states(body, batches):
    states = []
    for ids, targets in batches:
        hidden = body(ids)
        states.append({kept})
    return {result}
"""


SAMPLES = AnswerBank(
    function="last_states",
    wrong=[
        Wrong("as given", _samples("hidden[:, -1]"), "What does a part of a tensor hold on to?"),
        Wrong(
            "detached",
            _samples("hidden[:, -1].detach()"),
            "What does a part of a tensor hold on to?",
        ),
        Wrong(
            "all is copied, then a part is taken",
            _samples("hidden.clone()[:, -1]"),
            "What does a part of a tensor hold on to?",
        ),
        Wrong("contiguous", _samples("hidden[:, -1].contiguous()"), "Does the method that you"),
        Wrong("reshaped", _samples("hidden[:, -1].contiguous().view(len(ids), -1)"), "Does the"),
        Wrong(
            "copied only at the end",
            _samples("hidden[:, -1]", "[each.clone() for each in states]"),
            "have to come into a storage of its own?",
        ),
        Wrong("the first token", _samples("hidden[:, 0].clone()"), "What has changed against"),
        Wrong("one tensor", _samples("hidden[:, -1].clone()", "torch.cat(states)"), "not a list"),
        Wrong(
            "without no_grad",
            _samples("hidden[:, -1].clone()").replace("@torch.no_grad()", ""),
            "carry a graph",
        ),
        Wrong("halved", _samples("hidden[:, -1].half()"), "as they were"),
        Wrong("one axis more", _samples("hidden[:, -1:].clone()"), "What has changed against"),
    ],
    right=[
        _samples("hidden[:, -1].clone()"),
        _samples("hidden[torch.arange(len(ids)), -1]"),
        f"{IMPORTS}\n@torch.inference_mode()\ndef last_states(body, batches):\n"
        "    return [torch.stack([row[-1] for row in body(ids)]) for ids, _ in batches]",
    ],
    features={
        "one sequence": lambda case: case["num_sequences"] == 1,
        "several sequences": lambda case: case["num_sequences"] > 1,
        "more than three batches": lambda case: case["num_batches"] > 3,
    },
)


RULES = {
    "size": "max(1, -(-num_bytes // 512)) * 512",
    "small": "size <= 2**20",
    "found": "min(fitting, key=lambda block: (block['size'], block['start']))",
    "reserve": "2 * 2**20 if size <= 2**20 else 20 * 2**20 if size < 10 * 2**20 "
    "else -(-size // 2**21) * 2**21",
    "splits": "rest >= 512 if small else rest > 2**20",
    "pool": "block['small'] == small",
    "before": "other['start'] + other['size'] == address",
    "after": "end == other['start']",
    "same": "other['segment'] == block['segment']",
    "reuse": "fitting",
}


def _allocator(**changes: str) -> str:
    rules = RULES | changes
    return f"""
class Allocator:
    def __init__(self, reserve):
        self.reserve = reserve
        self.available = []
        self.taken = {{}}

    def allocate(self, num_bytes):
        size = {rules["size"]}
        small = {rules["small"]}
        fitting = [
            block for block in self.available if {rules["pool"]} and block["size"] >= size
        ]
        if {rules["reuse"]}:
            block = {rules["found"]}
            self.available.remove(block)
        else:
            total = {rules["reserve"]}
            start = self.reserve(total)
            self.segments = getattr(self, "segments", 0) + 1
            block = dict(start=start, size=total, small=small, segment=self.segments)
        rest = block["size"] - size
        if rest and ({rules["splits"]}):
            self.available.append(dict(block, start=block["start"] + size, size=rest))
            block["size"] = size
        self.taken[block["start"]] = block
        return block["start"]

    def free(self, address):
        block = self.taken.pop(address)
        end = address + block["size"]
        for other in list(self.available):
            if not ({rules["same"]}):
                continue
            if {rules["before"]}:
                block["start"] = other["start"]
            elif not ({rules["after"]}):
                continue
            block["size"] += other["size"]
            self.available.remove(other)
        self.available.append(block)
"""


NEIGHBOURS_IN_A_LIST = """
class Allocator:
    def __init__(self, reserve):
        self.reserve, self.small, self.large = reserve, [], []

    def allocate(self, num_bytes):
        size = -(-num_bytes // 512) * 512
        pool = self.small if size <= 2**20 else self.large
        free = [p for p in pool if p["free"] and p["size"] >= size]
        if not free:
            total = 2**21 if size <= 2**20 else max(20 * 2**20, -(-size // 2**21) * 2**21)
            if 10 * 2**20 <= size:
                total = -(-size // 2**21) * 2**21
            free = [{"start": self.reserve(total), "size": total, "free": True}]
            pool.append(free[0])
        best = min(free, key=lambda p: (p["size"], p["start"]))
        best["free"] = False
        if best["size"] - size > (0 if pool is self.small else 2**20):
            rest = {"start": best["start"] + size, "size": best["size"] - size, "free": True}
            pool.insert([p is best for p in pool].index(True) + 1, rest)
            best["size"] = size
        return best["start"]

    def free(self, address):
        for pool in (self.small, self.large):
            for n, p in enumerate(pool):
                if p["start"] == address and not p["free"]:
                    p["free"] = True
                    if n + 1 < len(pool) and pool[n + 1]["free"]:
                        p["size"] += pool.pop(n + 1)["size"]
                    if n > 0 and pool[n - 1]["free"]:
                        pool[n - 1]["size"] += pool.pop(n)["size"]
                    return
"""

ALLOCATOR = AnswerBank(
    function="Allocator",
    wrong=[
        Wrong("sizes not rounded up", _allocator(size="num_bytes"), "multiples of 512"),
        Wrong("segments as small as blocks", _allocator(reserve="size"), "what is the rest for?"),
        Wrong(
            "segments for the requested size",
            _allocator(
                reserve="2 * 2**20 if size <= 2**20 else 20 * 2**20 if num_bytes < 10 * 2**20 "
                "else -(-num_bytes // 2**21) * 2**21"
            ),
            "that of the request or that of its block?",
            1.5,
        ),
        Wrong(
            "nothing returned",
            _allocator().replace('return block["start"]', "return None"),
            "Not even the first request",
        ),
        Wrong(
            "nothing freed",
            _allocator(same="False").replace("self.available.append(block)", "pass"),
            "What must your `free` change",
        ),
        Wrong(
            "split in front",
            _allocator().replace(
                """dict(block, start=block["start"] + size, size=rest))
            block["size"] = size""",
                """dict(block, size=rest))
            block["start"], block["size"] = block["start"] + rest, size""",
            ),
            "On which side does the exercise want the rest?",
        ),
        Wrong(
            "joined beyond a segment of the pool",
            _allocator(same="other['small'] == block['small']"),
            "Two segments may lie side by",
        ),
        Wrong("neighbours in a list", NEIGHBOURS_IN_A_LIST, "stand beside each other in your list"),
        Wrong(
            "the largest",
            _allocator(found="min(fitting, key=lambda block: (-block['size'], block['start']))"),
            "You take the largest free block",
        ),
        Wrong("never reused", _allocator(reuse="False"), "Where do you look for a free block"),
        Wrong("never split", _allocator(splits="False"), "the part of a block that nobody asked"),
        Wrong(
            "both pools split above a MiB",
            _allocator(splits="rest > 2**20"),
            "From how many bytes on",
            1.5,
        ),
        Wrong(
            "a rest of one MiB is split off",
            _allocator(splits="rest >= 512 if small else rest >= 2**20"),
            "'at least' there",
            1.5,
        ),
        Wrong("always split", _allocator(splits="True"), "What would they be of use for", 1.5),
        Wrong("never joined", _allocator(before="False", after="False"), "never grow"),
        Wrong("joined with the one before only", _allocator(after="False"), "not with the one beh"),
        Wrong("joined with the one after only", _allocator(before="False"), "not with the one bef"),
        Wrong("joined beyond a segment", _allocator(same="True"), "Two segments may lie side by"),
        Wrong("one pool", _allocator(pool="True"), "Which blocks may a request", 3.0),
        Wrong("one MiB is large", _allocator(small="size < 2**20"), "'up to' or", 1.5),
        Wrong(
            "the first by address",
            _allocator(found="min(fitting, key=lambda block: block['start'])"),
            "the first free block by address",
        ),
        Wrong(
            "of equal ones the highest",
            _allocator(found="min(fitting, key=lambda block: (block['size'], -block['start']))"),
            "the one with the highest address",
        ),
        Wrong("any that fits", _allocator(found="fitting[0]"), "By what are they to be compared"),
        Wrong(
            "the first in order of segments",
            _allocator(
                found="min(fitting, key=lambda block: (block['segment'], block['start']))",
            ),
            "By what are they to be compared",
        ),
        Wrong(
            "of equal ones the first in the list",
            _allocator(found="min(fitting, key=lambda block: block['size'])"),
            "whatever came when",
        ),
        Wrong(
            "of equal ones the first in order of segments",
            _allocator(
                found="min(fitting, key=lambda b: (b['size'], b['segment'], b['start']))",
            ),
            "whatever came when",
        ),
    ],
    right=[
        _allocator(),
        """
from bisect import insort

class Allocator:
    def __init__(self, reserve):
        self.reserve, self.pools, self.used, self.segments = reserve, ([], []), {}, {}

    def allocate(self, num_bytes):
        size = (num_bytes + 511) & ~511
        is_large = size > 1 << 20
        pool = self.pools[is_large]
        for n, (length, start, segment) in enumerate(pool):
            if length >= size:
                del pool[n]
                break
        else:
            length = 2 << 20
            if is_large:
                length = 20 << 20 if size < 10 << 20 else (size + (2 << 20) - 1) >> 21 << 21
            start = segment = self.reserve(length)
        if length - size > (1 << 20 if is_large else 0):
            insort(pool, (length - size, start + size, segment))
            length = size
        self.used[start] = (length, segment, is_large)
        return start

    def free(self, address):
        length, segment, is_large = self.used.pop(address)
        start, pool = address, self.pools[is_large]
        near = [each for each in pool if each[2] == segment]
        for each in near:
            if each[1] + each[0] == address:
                start, length = each[1], length + each[0]
                pool.remove(each)
        for each in near:
            if each[1] == start + length:
                length += each[0]
                pool.remove(each)
        insort(pool, (length, start, segment))
""",
    ],
    features={
        "segments side by side": lambda case: case["segments"] == "upwards",
        "segments from above": lambda case: case["segments"] == "downwards",
        "a traced training": lambda case: isinstance(case["script"], str),
        "exactly one MiB": lambda case: 2**20 in _numbers(case),
        "larger than a segment": lambda case: max(_numbers(case)) > 20 * 2**20,
    },
)


def _numbers(case: dict) -> list[int]:
    return [0] if isinstance(case["script"], str) else case["script"]


MIB = 2**20


def _fragment(body: str) -> str:
    return "def fragment(device_bytes):\n" + _indented(body)


FRAGMENT = AnswerBank(
    function="fragment",
    wrong=[
        Wrong(
            "the first half is freed",
            _fragment("""
                n = device_bytes // 2**21
                return [2**21] * n + [-i for i in range(1, n // 2 + 1)]
            """),
            "which blocks must stay in use",
        ),
        Wrong(
            "whole segments are freed",
            _fragment("""
                n = device_bytes // 2**20 // 20
                return [20 * 2**20] * n + [-i for i in range(1, n + 1)]
            """),
            "which blocks must stay in use",
        ),
        Wrong(
            "whole small segments are freed",
            _fragment("""
                n = device_bytes // 2**20
                return [2**20] * n + [-i for i in range(1, n + 1) if (i - 1) % 4 < 2]
            """),
            "which blocks must stay in use",
        ),
        Wrong(
            "quarters",
            _fragment("return [device_bytes // 4] * 4 + [-1, -3]"),
            "so that several share a segment?",
        ),
        Wrong(
            "an empty script",
            _fragment("return []"),
            "which blocks must stay in use",
        ),
        Wrong(
            "every third is freed",
            _fragment("""
                n = device_bytes // 2**21
                return [2**21] * n + [-i for i in range(1, n + 1, 3)]
            """),
            "How many of the blocks are still in use",
        ),
        Wrong(
            "blocks of three MiB",
            _fragment("""
                n = device_bytes // (3 * 2**20)
                return [3 * 2**20] * n + [-i for i in range(1, n + 1, 2)]
            """),
            "how much of each is left over?",
        ),
        Wrong(
            "counted from zero",
            _fragment("""
                n = device_bytes // 2**21
                return [2**21] * n + [-i for i in range(0, n, 2)]
            """),
            "From which number on",
        ),
        Wrong(
            "blocks of 512 B",
            _fragment("""
                n = 10000
                return [512] * n + [-i for i in range(1, n + 1, 2)]
            """),
            "how many of them fill the device?",
        ),
    ],
    right=[
        _fragment("""
            n = device_bytes // 2**21
            return [2**21] * n + [-i for i in range(1, n + 1, 2)]
        """),
        _fragment("""
            segments = device_bytes // 2**20 // 20
            script = segments * 5 * [4 * 2**20]
            for first in range(1, 5 * segments, 5):
                script += [-first, -first - 2, -first - 4]
            return script
        """),
    ],
    features={
        "the smallest device": lambda case: case["device_bytes"] == 40 * MIB,
        "the largest device": lambda case: case["device_bytes"] == 400 * MIB,
    },
)

BANKS = {
    "u04-repair-evaluation": EVALUATION,
    "u04-repair-average": AVERAGE,
    "u04-repair-samples": SAMPLES,
    "u04-allocator": ALLOCATOR,
    "u04-fragment": FRAGMENT,
}
