"""Answer banks of unit 04: loops that leak, a caching allocator, fragmentation."""

import textwrap

from tests.answer_bank import AnswerBank, Wrong

IMPORTS = "import torch\nfrom torch.nn import functional as F\n"


def _indented(body: str) -> str:
    return textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")


LOSS = "F.cross_entropy(head(body(x)).flatten(0, 1), y.flatten())"


PIECES = {
    "average": "average = 0.9 * average + 0.1 * probabilities.amax(-1).mean().item()",
    "state": "hidden[:, -1].detach().clone()",
    "loss": "F.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()",
    "evaluation": f"with torch.no_grad():\n    losses = [{LOSS} for x, y in held_out]",
    "mean": "torch.stack(losses).mean()",
    "result": "{'loss': mean, 'confidence': average, 'states': states}",
}


def _train(**pieces: str) -> str:
    """A right answer with some pieces written otherwise."""
    chosen = PIECES | pieces
    return f"""import copy
{IMPORTS}
def train(body, head, optimizer, batches, held_out):
    average, states = torch.zeros(()), []
    for ids, targets in batches:
        hidden = body(ids)
        logits = head(hidden)
        probabilities = logits.softmax(dim=-1)
        {chosen["average"]}
        states.append({chosen["state"]})
        {chosen["loss"]}
        optimizer.step()
        optimizer.zero_grad()
{_indented(chosen["evaluation"])}
    mean = {chosen["mean"]}
    return {chosen["result"]}
"""


ONE_THIRD, TWO_THIRDS = 1.0, 2.0
ATTACHED = "average = 0.9 * average + 0.1 * probabilities.amax(-1).mean()"
LIST = "losses = []\nfor x, y in held_out:\n    "
A_PART = "What does a part of a tensor hold on to?"
OTHER_STATES = "What has changed against the given loop?"

TRAINING = AnswerBank(
    function="train",
    wrong=[
        Wrong(
            "all three leaks",
            _train(
                average=ATTACHED,
                state="hidden.detach()[:, -1]",
                evaluation=f"losses = [{LOSS} for x, y in held_out]",
            ),
            "What does a loss carry besides its number?",
        ),
        Wrong(
            "the evaluation alone repaired",
            _train(average=ATTACHED, state="hidden.detach()[:, -1]"),
            "does it ever walk from the average",
            ONE_THIRD,
        ),
        Wrong(
            "del of the loss",
            _train(evaluation=f"{LIST}loss = {LOSS}\n    losses.append(loss)\n    del loss"),
            "What does a loss carry besides its number?",
            TWO_THIRDS,
        ),
        Wrong(
            "a running sum with its graph",
            _train(
                evaluation=f"total = 0\nfor x, y in held_out:\n    total += {LOSS}",
                mean="total / len(held_out)",
            ),
            "What does a loss carry besides its number?",
            TWO_THIRDS,
        ),
        Wrong(
            "a number only at the end, with the logits in a variable",
            _train(
                evaluation=f"{LIST}logits = head(body(x))\n    losses.append("
                "F.cross_entropy(logits.flatten(0, 1), y.flatten()))",
                mean="torch.stack(losses).mean().item()",
            ),
            "When does a loss have to drop its graph?",
            TWO_THIRDS,
        ),
        Wrong(
            "detached, with the loss in a variable",
            _train(evaluation=f"{LIST}loss = {LOSS}\n    losses.append(loss.detach())"),
            "Which name still holds them",
            TWO_THIRDS,
        ),
        Wrong(
            "detached, and the name deleted",
            _train(evaluation=f"{LIST}loss = {LOSS}\n    losses.append(loss.data)\n    del loss"),
            "one batch's activations are all live at the peak",
            TWO_THIRDS,
        ),
        Wrong(
            "gradients freed by autograd.grad",
            _train(
                evaluation=f"weights = list(body.parameters())\n{LIST}"
                f"loss = {LOSS}\n    torch.autograd.grad(loss, weights)\n"
                "    losses.append(loss.detach())"
            ),
            "Who will ever ask for a graph here?",
            TWO_THIRDS,
        ),
        Wrong(
            "a mean over tokens",
            _train(
                evaluation="""
                with torch.no_grad():
                    losses = [
                        F.cross_entropy(head(body(x)).flatten(0, 1), y.flatten(), reduction="none")
                        for x, y in held_out
                    ]
                """,
                mean="torch.cat(losses).mean()",
            ),
            "over batches or over tokens?",
            TWO_THIRDS,
        ),
        Wrong(
            "the last batch alone", _train(mean="losses[-1]"), "Which losses are in it", TWO_THIRDS
        ),
        Wrong("the sum", _train(mean="sum(losses)"), "Which losses are in it", TWO_THIRDS),
        Wrong(
            "recording restored to what is usual",
            _train(
                evaluation="torch.set_grad_enabled(False)\n"
                f"losses = [{LOSS} for x, y in held_out]\ntorch.set_grad_enabled(True)"
            ),
            "leave recording as it was, whichever that is?",
            TWO_THIRDS,
        ),
        Wrong(
            "gradients filled with zeros",
            _train(
                evaluation="optimizer.zero_grad(set_to_none=False)\nwith torch.no_grad():\n"
                f"    losses = [{LOSS} for x, y in held_out]"
            ),
            "Whose are they, in the middle of a training step?",
            TWO_THIRDS,
        ),
        Wrong(
            "no_grad for all of it",
            _train().replace("def train", "@torch.no_grad()\ndef train"),
            "Was recording on where that tensor was made",
        ),
        Wrong(
            "del of the probabilities",
            _train(average=f"{ATTACHED}; del probabilities"),
            "does it ever walk from the average",
            TWO_THIRDS,
        ),
        Wrong(
            "the average detached, the new number not",
            _train(average=ATTACHED.replace("* average", "* average.detach()")),
            "One batch's probabilities outlive the loop",
            TWO_THIRDS,
        ),
        Wrong(
            "the average detached at the end",
            _train(
                average=ATTACHED,
                result="dict(loss=mean, confidence=average.detach(), states=states)",
            ),
            "In which line of the loop",
            TWO_THIRDS,
        ),
        Wrong(
            "factors swapped",
            _train(average="average = 0.1 * average + 0.9 * probabilities.amax(-1).mean().item()"),
            "Which numbers enter it, when",
            TWO_THIRDS,
        ),
        Wrong(
            "the plain mean",
            _train(average="average += probabilities.amax(-1).mean().item() / len(batches)"),
            "Which numbers enter it, when",
            TWO_THIRDS,
        ),
        Wrong(
            "all is copied, then a part is taken",
            _train(state="hidden.detach().clone()[:, -1]"),
            A_PART,
            TWO_THIRDS,
        ),
        Wrong(
            "a deep copy of the part",
            _train(state="copy.deepcopy(hidden.detach()[:, -1])"),
            A_PART,
            TWO_THIRDS,
        ),
        Wrong("moved to the CPU", _train(state="hidden.detach()[:, -1].cpu()"), A_PART, TWO_THIRDS),
        Wrong(
            "reshaped",
            _train(state="hidden.detach()[:, -1].contiguous().view(len(ids), -1)"),
            "Does the method that you",
            TWO_THIRDS,
        ),
        Wrong(
            "a copy with its graph",
            _train(state="hidden[:, -1].clone()"),
            "carry a graph",
            TWO_THIRDS,
        ),
        Wrong(
            "the first token",
            _train(state="hidden[:, 0].detach().clone()"),
            OTHER_STATES,
            TWO_THIRDS,
        ),
        Wrong(
            "one tensor",
            _train(
                result="dict(loss=mean, confidence=average, "
                "states=torch.cat(states) if states else [])"
            ),
            "not a list",
            TWO_THIRDS,
        ),
        Wrong(
            "halved",
            _train(state="hidden[:, -1].detach().half()"),
            "in another precision",
            TWO_THIRDS,
        ),
        Wrong(
            "in double precision",
            _train(state="hidden[:, -1].detach().clone().double()"),
            "in another precision",
            TWO_THIRDS,
        ),
        Wrong(
            "gradients set to zero before each batch",
            _train(
                loss="optimizer.zero_grad(); F.cross_entropy(logits.flatten(0, 1), "
                "targets.flatten()).backward()"
            ).replace("        optimizer.zero_grad()\n", ""),
            "its first step with them",
            TWO_THIRDS,
        ),
        Wrong(
            "numpy", _train(state="hidden[:, -1].detach().numpy().copy()"), "not a list", TWO_THIRDS
        ),
        Wrong(
            "one axis more",
            _train(state="hidden[:, -1:].detach().clone()"),
            OTHER_STATES,
            TWO_THIRDS,
        ),
        Wrong(
            "a tuple",
            _train(result="mean, average, states"),
            "What does the exercise ask your function to return?",
        ),
    ],
    right=[
        _train(),
        _train(
            average=f"{ATTACHED}.detach()",
            state="hidden.detach()[torch.arange(len(ids)), -1]",
            evaluation="""
            was_training = body.training
            body.eval()
            head.eval()
            total = 0.0
            with torch.inference_mode():
                for x, y in held_out:
                    logits = head(body(x))
                    total += F.cross_entropy(logits.flatten(0, 1), y.flatten()).item()
            body.train(was_training)
            head.train(was_training)
            """,
            mean="total / len(held_out)",
        ),
        _train(
            average="with torch.no_grad(): "
            "average = torch.lerp(probabilities.amax(-1).mean(), average.to(logits.dtype), 0.9)",
            state="torch.from_numpy(hidden.detach()[:, -1].numpy().copy())",
            evaluation=f"""
            was_enabled = torch.is_grad_enabled()
            torch.set_grad_enabled(False)
            total = torch.zeros(())
            for x, y in held_out:
                total += {LOSS}
            torch.set_grad_enabled(was_enabled)
            """,
            mean="float(total) / len(held_out)",
            result="dict(confidence=float(average), states=states, loss=mean)",
        ),
        _train(
            average=f"{ATTACHED}; average = average.detach()",
            state="torch.tensor(hidden[:, -1].tolist(), dtype=hidden.dtype)",
        ),
        _train(
            average="average = 0.9 * average + 0.1 * probabilities.detach().amax(-1).mean()",
            state="torch.stack([row[-1] for row in hidden.detach()])",
            loss="F.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()",
        ).replace("optimizer.zero_grad()", "body.zero_grad(); head.zero_grad()"),
    ],
    features={
        f"{name}, {number}": lambda case, name=name, has=has: case["scenario"] == name and has(case)
        for name in ("loss", "confidence", "states")
        for number, has in {
            "one sequence": lambda case: case["num_sequences"] == 1,
            "several sequences": lambda case: case["num_sequences"] > 1,
            "training mode": lambda case: case["is_training"],
            "evaluation mode": lambda case: not case["is_training"],
            "a frozen head": lambda case: case["is_head_frozen"],
        }.items()
    }
    | {
        "a small first batch": lambda case: case["is_first_batch_small"],
        "gradients there before": lambda case: case["has_gradients"],
        "gradients there before a training": lambda case: (
            case["has_gradients"] and case["num_batches"]
        ),
        "another precision": lambda case: (
            case["scenario"] == "states" and case["precision"] == "float32"
        ),
        "a caller without recording": lambda case: not case["is_recording"],
        "an evaluation after training": lambda case: (
            case["scenario"] == "loss" and case["num_batches"]
        ),
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


ALLOCATOR = AnswerBank(
    function="Allocator",
    wrong=[
        Wrong(
            "nothing returned",
            _allocator().replace('return block["start"]', "return None"),
            "Not even the first request",
        ),
        Wrong(
            "joined beyond a segment of the pool",
            _allocator(same="other['small'] == block['small']"),
            "Two segments may lie side by",
        ),
        Wrong("joined beyond a segment", _allocator(same="True"), "Two segments may lie side by"),
        Wrong("one pool", _allocator(pool="True"), "Which blocks may a request", 3.0),
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
            "a block is freed twice",
            _fragment("return [2**21] * (device_bytes // 2**21) + [-1, -3, -1]"),
            "From which number on",
        ),
        Wrong(
            "a block too many",
            _fragment("return [2**21] * (device_bytes // 2**21 + 1) + [-1, -3]"),
            "how much of each is left over?",
        ),
        Wrong(
            "whole segments are freed",
            _fragment("""
                n = device_bytes // 2**20 // 20
                return [20 * 2**20] * n + [-i for i in range(1, n + 1)]
            """),
            "How large may a hole get",
        ),
        Wrong(
            "whole small segments are freed",
            _fragment("""
                n = device_bytes // 2**20
                return [2**20] * n + [-i for i in range(1, n + 1) if (i - 1) % 4 < 2]
            """),
            "Which block must stay in use in each of them?",
        ),
        Wrong(
            "an empty script",
            _fragment("return []"),
            "How many of your blocks fill the device?",
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
        "a large device": lambda case: case["device_bytes"] >= 900 * MIB,
    },
)

BANKS = {
    "u04-repair-training": TRAINING,
    "u04-allocator": ALLOCATOR,
    "u04-fragment": FRAGMENT,
}
