"""What to say of an answer without a value to judge: it raised, hung, or returned no plain data."""

import re

from autograder.checking.plain_data import Plain

WHICH_TYPE = (
    "What type does the exercise ask for, and which line produces the value that you return?"
)
WHAT_TO_RETURN = "What does the exercise ask your function to return?"

MAX_CHARACTERS = 300  # of each text in a trouble: patterns that look back take long on long ones

# In the message of an `observe` that sees which hooks were set.
TOO_EARLY = "in a hook that runs before grad is filled"
WHICH_HOOK = (
    "Your hooks run before grad is filled, and get the gradient, not the parameter. Which kind "
    "of hook runs afterward, like the one in the notebook?"
)

# What also explains other cases, in which nothing was raised.
REQUIRED_BEFORE = "Which of the tensors required a gradient when they came in?"
SHIFTED = (
    "Each input goes by the answer that `ctx.needs_input_grad` has for its neighbor. How many "
    "answers does it hold, and which argument of `forward` is the first one for?"
)
OTHER_TARGETS = (
    "In backward the logits of one piece meet the targets of another. When does your function look "
    "up its variables, and what do they hold by then?"
)
CAPTURED = (
    "Only the first input goes through autograd; the others live on in your function, with their "
    "history. Which inputs do you hand to `apply`, and which of them need a gradient?"
)

# For answers that earn no points until somebody has looked.
A_PERSON = "A person will look at this."

# Kind of trouble: the sentence and the hint. The braces are filled from the observation.
WORDS = {
    "unwritten": (
        "Not written yet. (If you have written it, run its cell and look for an error there.)",
        "",
    ),
    "borrowed": (
        "Your answer uses {name}, which already contains an answer.",
        "How would you work it out with code of your own?",
    ),
    "lent": (
        "Your answer uses {name}, the course's own: `answer` lends it to you until yours passes "
        "its check.",
        "How would you work it out with code of your own?",
    ),
    "no function": (
        "Your answer is {what}, not a function.",
        "Which name does your solution cell define?",
    ),
    "stopped": (
        "Stopped after {seconds:g} seconds without a result for these sizes.",
        "How often does each loop run for these sizes, and does it end?",
    ),
    "no name": (
        "There is no `{name}` after your cells ran.",
        "Does the cell that defines it run without an error, and is the name spelled as in the "
        "exercise?",
    ),
    "gone": (
        "Python itself crashed in it: {how}.",
        "Does it exit Python, use up the memory, or wait for something that never comes?",
    ),
    "not counted": (
        "Not counted: it {what}, where no instrument sees the work that is judged here.",
        "How would you do that work with operations of PyTorch, in the thread that called you?",
    ),
    "not judged": ("Not judged: the check itself failed with {error}. " + A_PERSON, ""),
    "changed": (
        "It changes its argument `{name}`.",
        "Who else may still need that object, and what could your function change instead?",
    ),
    "left": (
        "{what}.",
        "What runs next, and which `with` block would undo the change even after an error?",
    ),
    "nothing": ("It returned None.", "Does every path through your function end in a `return`?"),
    "printed": ("It returned None.", "It prints something. Does it also return it?"),
    "not plain": ("It returned {what}.", WHICH_TYPE),
    "wrong form": ("Expected {wanted}; it returned {came}.", WHAT_TO_RETURN),
    "raised": (
        "It raised {error}{place}: {message}{stop}",
        "What values does that line work on for these sizes?",
    ),
}


# How the calls of two ranks, or of a sender and its receiver, differ.
_OTHER_PRECISION = r"of \([\d, ]*\) (\w+)\b.* of \([\d, ]*\) (?!\1\b)\w"
_OTHER_LENGTHS = r"calls (\w+) of .* and rank \d+ \1 of"
_OTHER_SOURCE = r"calls broadcast of (.*) from rank .* and rank \d+ broadcast of \1 from rank"

# What to ask about an error that was raised; the first pattern found in its message decides.
ERRORS = (
    (TOO_EARLY, WHICH_HOOK),
    (
        "wants tensors, got None",
        "What is None there, and in which cases has nothing filled it?",
    ),
    (
        "wants tensors, got",
        "A collective writes into the tensor that it is given, on every rank. What could hold "
        "your number so that it can be written into?",
    ),
    (
        "OutOfFastMemory",
        "How many numbers fit into fast memory, which tiles do you hold there at once, and which "
        "of them does nobody need any more?",
    ),
    (
        "takes numbers out of fast memory",
        "Which of your decisions needs a number, and which could be made from sizes alone?",
    ),
    (
        "lies in no memory of the machine",
        "Where was that tensor made? On which side of the bus does it lie?",
    ),
    (
        "lies in slow memory",
        "Nothing is computed in slow memory. Which part of it do you need next, and how large may "
        "it be?",
    ),
    (
        "positional argument",
        "How many arguments does the exercise's function take, and in what order?",
    ),
    ("is not defined", "Where does that name get its value, and is it spelled the same there?"),
    (
        "waits in send",
        "A blocking send returns once its receiver is there. If every rank sends first, who "
        "receives?",
    ),
    (
        "deadlock:",
        "In which call is each rank waiting, and which call of which rank would release it?",
    ),
    (
        f"mismatch in .*{_OTHER_PRECISION}",
        "Two precisions meet in one call. What is the precision of the tensor you were given, "
        "and of the one you made?",
    ),
    (
        "mismatch in message",
        "The message and the buffer that it fills differ in length. Which part arrives there, "
        "and which part was sent?",
    ),
    (
        f"mismatch in .*{_OTHER_SOURCE}",
        "All ranks must name the same source. Which rank has what the others need?",
    ),
    (
        f"mismatch in .*{_OTHER_LENGTHS}",
        "Two ranks make the same call with tensors of different lengths. What does one tensor "
        "have that the other lacks: did a rank skip an earlier call, or does each rank go through "
        "its tensors in its own order?",
    ),
    (
        "mismatch in",
        "All ranks must make the same calls in the same order. Which rank skips one or makes an "
        "extra one, and in which cases?",
    ),
    ("did not wait for", "Where does the handle of that call go, and who waits for it?"),
    (
        "changed its tensor before",
        "Which tensor do you write into while it is still in flight, and when may you?",
    ),
    (
        "is not contiguous",
        "A call sends memory as it lies. Which of your tensors is a transposed or expanded view of "
        "another, and what gives it memory of its own?",
    ),
    (
        "autograd follows the tensor",
        "Autograd sees only one rank. Which number do the ranks need from each other, and does "
        "it have a graph?",
    ),
    (
        "is this rank itself",
        "How many ranks are there in this case, and how many messages do they have to send?",
    ),
    (
        "IndexError",
        "How many elements are there in this case, and which one does that line ask for?",
    ),
    (
        "expected a non-empty list",
        "In which cases is there nothing to join?",
    ),
    (
        "empty sequence|iterable argument is empty",
        "In which of the cases is there nothing to choose from, and what is the answer there?",
    ),
    (
        "split_sizes",
        "Which lengths do you ask for, and do they belong to this very tensor? What does a "
        "stored list hold after you clear it?",
    ),
    (
        "hook returned|hook .* has changed the type",
        "What must a hook return, and what does the last line of yours, or a lambda, return?",
    ),
    (
        "UnboundLocalError",
        "Which line should have given that name its value? And in a nested function: which "
        "keyword says that the name belongs to the outer one?",
    ),
    ("to unpack", "How many values are there in this case, and how many names take them?"),
    ("stack expects", "Which of the tensors differ in size, and what joins them anyway?"),
    (
        "assigned grad has data of a different type|assign a gradient with dtype",
        "What is the precision of the parameter, and what is that of the gradient you assign?",
    ),
    (
        "assigned grad has|assign a gradient of size",
        "What is the shape of the parameter, and what is that of the gradient you assign?",
    ),
    (
        "is invalid for input of size",
        "How many numbers does that piece have, and how many does the shape need? Are they "
        "counted in numbers, and do pieces and shapes belong to the same tensors?",
    ),
    (
        "shapes cannot be multiplied|size mismatch, got",
        "What shapes do the two factors there have, and which of their sides have to be equal?",
    ),
    (
        "an invalid gradient at index|times as many elements as",
        "How many of these numbers belong to one rank, how many to all, and in which shape? What "
        "did you make room for?",
    ),
    ("to match target batch_size", OTHER_TARGETS),
    ("Expected target size", "In which dimension does `cross_entropy` expect the classes?"),
    (
        "must match the size",
        "What shapes do the two tensors there have, and what shapes do you want?",
    ),
    ("KeyError", "Which keys does the dictionary passed to you have for these sizes?"),
    (
        "second time",
        "Which graph does your backward go through there: only that of the second run, or also "
        "what came before it?",
    ),
    (
        "does not require grad",
        "Was recording on where that tensor was made, and did anything it is made of require a "
        "gradient?",
    ),
    (
        "implicitly created",
        "Which gradient does backward receive, and where does your line use it?",
    ),
    (
        "incorrect number of gradients",
        "What do you pass to `apply`, and what does backward return for each of those?",
    ),
    (
        "requires grad is being used in an in-place operation",
        "Autograd records a change of a weight as if it were part of the loss. Should it record "
        "that line?",
    ),
    ("dtype can require gradients", REQUIRED_BEFORE),
    ("doesn't require gradient", "Which of the parameters ever get a gradient?"),
    (
        "is non-finite",
        "What does the exercise want done with such a group? What stops the whole run there?",
    ),
    (
        "Sizes of tensors must match|same number of dimensions",
        "In which dimension do these tensors differ, and do they have to become one? If they "
        "only need to lie one after the other, what shape should each have first?",
    ),
    (
        r"tokens behind \d",
        "The cache holds the tokens up to here already. Which token has it not seen?",
    ),
    (
        "view size is not compatible",
        "A view joins only dimensions that follow one another in memory. Must they be joined, and "
        "which method copies where it has to?",
    ),
    (
        "empty (iterable|sequence)|iterable argument is empty|arg is an empty",
        "What is the answer where there is nothing to go through?",
    ),
    (r"for \^", "What does ^ mean in Python, and how do you write a power?"),
    ("ZeroDivisionError", "What do you divide by there, and for which of these sizes is it zero?"),
    ("is not callable", "What is in front of the parentheses there: a function, or a number?"),
    (
        "'NoneType'",
        "What is None there, and in which cases has nothing filled it? Or did it come from a "
        "call that works in place and returns nothing?",
    ),
)


# What else may be behind an error: it is asked where it explains the other cases, too.
ALSO = (
    (
        "deadlock:|mismatch in",
        "The ranks do not make the same calls: in some cases one waits forever, in others two "
        "different calls meet. What does one rank have in these cases that another lacks, and "
        "what does it send?",
    ),
    ("dtype can require gradients", SHIFTED),
    ("second time", CAPTURED),
)


def _shortened(trouble: dict[str, Plain]) -> dict[str, Plain]:
    """A trouble with short texts to print: a student's class or message may be anything.

    What moves a cursor, turns the direction of writing or is half a character is left out.
    """
    return {
        name: "".join(filter(_can_be_shown, text[:MAX_CHARACTERS])) if type(text) is str else text
        for name, text in trouble.items()
    }


def _can_be_shown(character: str) -> bool:
    return character.isprintable() or character == "\n"


def more_hints(trouble: dict[str, Plain]) -> tuple[str, ...]:
    """Hints that also fit other errors of the same kind, or other cases."""
    message = _shortened(trouble).get("message", "")
    return tuple(hint for pattern, hint in ALSO if re.search(pattern, message))


def is_trouble(observed: dict[str, Plain]) -> bool:
    """Whether it is a trouble with all that its sentence needs; what comes back may be anything."""
    try:
        sentence_and_hint(observed)
    except (KeyError, TypeError, ValueError, AttributeError):
        return False
    return True


def sentence_and_hint(trouble: dict[str, Plain]) -> tuple[str, str]:
    """The sentence and the hint for a trouble that `observe_within_limits` found."""
    trouble = _shortened(trouble)
    kind = trouble["trouble"]
    if kind == "nothing" and trouble["printed_characters"]:
        kind = "printed"
    place = f" in the line `{trouble['line']}`" if trouble.get("line") else ""
    sentence, hint = WORDS[kind]
    stop = ""
    if kind == "raised":
        error = f"{trouble['error']}: {trouble['message']}"
        hint = next((question for pattern, question in ERRORS if re.search(pattern, error)), hint)
        stop = "" if error.endswith((".", "!", "?")) else "."
    return sentence.format(place=place, stop=stop, **trouble), hint
