"""What to say of an answer without a value to judge: it raised, hung, or returned no plain data."""

import re

from autograder.checking.plain_data import Plain

WHICH_TYPE = "What type does the exercise ask for, and which line makes the returned value?"

# In the message of an `observe` that sees which hooks were set.
TOO_EARLY = "in a hook that runs before grad is filled"
WHICH_HOOK = (
    "Your hooks run before grad is filled, and get the new gradient, not the parameter. Which kind "
    "of hook comes after, as the one that the notebook gives?"
)

# For answers that earn no points until somebody has looked.
A_PERSON = "A person will look at this."

# Kind of trouble: the sentence and the hint. The braces are filled from the observation.
WORDS = {
    "unwritten": (
        "Not written yet. (If you have written it: run its cell, and look there for an error.)",
        "",
    ),
    "borrowed": (
        "Your answer uses {name}, where an answer stands already.",
        "How would you work it out with code of your own?",
    ),
    "lent": (
        "Your answer uses {name}, the course's own: `answer` lends it while yours fails its check.",
        "How would you work it out with code of your own?",
    ),
    "no function": ("It is {what}, not a function.", "Which name does your solution cell define?"),
    "stopped": (
        "Stopped after {seconds:g} seconds on these sizes alone, without a result.",
        "How many turns does each loop in it make for these sizes, and does it end?",
    ),
    "no name": (
        "There is no `{name}` after your cells ran.",
        "Does the cell that defines it run without an error, and is the name the exercise's?",
    ),
    "gone": (
        "Python itself came to an end in it: {how}.",
        "Does it leave Python, ask for all the memory, or wait for something that never comes?",
    ),
    "tampered": (
        "It replaces `{what}`, a part of the course that observes it. " + A_PERSON,
        "Can your function do its work with names of its own?",
    ),
    "not judged": ("Not judged: the check itself ended with {error}. " + A_PERSON, ""),
    "nothing": ("It returned None.", "Does every way through your function end in a `return`?"),
    "printed": ("It returned None.", "It prints something. Does it also return it?"),
    "not plain": ("It returned {what}.", WHICH_TYPE),
    "raised": (
        "It raised {error}{place}: {message}{stop}",
        "What are the values in that line when these sizes come in?",
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
        "What is None there, and in which of the cases has nothing filled it?",
    ),
    (
        "wants tensors, got",
        "A collective writes into what it is given, on every rank: a tensor. What holds your "
        "number so that it can be written into?",
    ),
    (
        "positional argument",
        "How many arguments does the exercise's function take, in which order?",
    ),
    ("is not defined", "Where does that name get its value, and is it spelled the same there?"),
    (
        "waits in send",
        "A send that blocks comes back when its receiver is there. If every rank sends first, who "
        "receives?",
    ),
    (
        "deadlock:",
        "In which call does each rank stand, and which call of which rank would let it go on?",
    ),
    (
        f"mismatch in .*{_OTHER_PRECISION}",
        "Two precisions meet in one call. Which has the tensor that is given, and which the one "
        "that you have made for it?",
    ),
    (
        "mismatch in message",
        "What is sent and the buffer that it fills differ in length. Which part arrives there, and "
        "is it the one that goes out?",
    ),
    (
        f"mismatch in .*{_OTHER_SOURCE}",
        "All ranks name the same source, whoever they are. Which rank has what all others want?",
    ),
    (
        f"mismatch in .*{_OTHER_LENGTHS}",
        "Two ranks come to the same call with tensors of different lengths. What is in the one "
        "that the other lacks, or which call has a rank left out before, and in which of the "
        "cases?",
    ),
    (
        "mismatch in",
        "All ranks make the same calls in the same order. Which rank leaves one out or makes one "
        "more, and in which of the cases?",
    ),
    ("did not wait for", "Where does the handle of that call go, and who waits for it?"),
    (
        "changed its tensor before",
        "Which tensor do you write into while it is still on its way, and from when on may you?",
    ),
    (
        "autograd follows the tensor",
        "Autograd sees one rank only. Which number do the ranks need of each other, and has it a "
        "history?",
    ),
    (
        "is this rank itself",
        "How many ranks are there in this case, and how many messages have they to send?",
    ),
    (
        "IndexError",
        "How many parts are there in this case, and which one does that line ask for?",
    ),
    (
        "expected a non-empty list",
        "In which of the cases is there nothing to join?",
    ),
    (
        "split_sizes",
        "Which lengths do you ask for, and do they belong to this very tensor? What does a list "
        "hold that was cleared after it was put away?",
    ),
    (
        "hook returned",
        "What must a hook return, and what does the last line of yours, or a lambda, give back?",
    ),
    (
        "UnboundLocalError",
        "Which line should have given that name its value? And in a function inside another: which "
        "word says that the name belongs to the outer one?",
    ),
    ("stack expects", "Which of the tensors have other sizes, and what joins them all the same?"),
    (
        "assigned grad has data of a different type|assign a gradient with dtype",
        "Which precision has the parameter, and which has what you assign?",
    ),
    (
        "assigned grad has|assign a gradient of size",
        "Which shape has the parameter, and which has what you assign?",
    ),
    (
        "is invalid for input of size",
        "How many numbers has that piece, and how many has the shape you want? Are they counted in "
        "numbers, and do pieces and shapes belong to the same tensors?",
    ),
    ("must match the size", "Which shapes have the two tensors there, and which do you want?"),
    ("KeyError", "Which keys does the dictionary that comes in have for these sizes?"),
    (
        "second time",
        "Which graph does your backward walk through there: that of the second run alone, or also "
        "what came before it?",
    ),
    (
        "does not require grad",
        "Was recording on where that tensor was made, and did anything it is made of want a "
        "gradient?",
    ),
    (
        "implicitly created",
        "Which gradient comes in from behind, and where does your line use it?",
    ),
    (
        "incorrect number of gradients",
        "What do you hand to `apply`, and what does backward return for each of those?",
    ),
    (
        "requires grad is being used in an in-place operation",
        "Every change of a weight is recorded as if it belonged to the loss: should autograd "
        "record that line?",
    ),
    (
        "dtype can require gradients",
        "Which of the tensors wanted a gradient when they came in?",
    ),
    ("doesn't require gradient", "Which of the parameters ever get a gradient?"),
    ("wanted a ", "What does the exercise ask your function to return?"),
    (
        "is non-finite",
        "What does the exercise want of such a group? Who stops the whole run there?",
    ),
    (
        "Sizes of tensors must match|same number of dimensions",
        "In which dimension do these tensors differ, and need they become one? If they need only "
        "lie one after the other, which form has each of them before?",
    ),
    ("ZeroDivisionError", "What is divided by there, and for which of these sizes is it zero?"),
    ("is not callable", "What stands before the brackets there: a function, or a number?"),
    (
        "'NoneType'",
        "What is None there, and in which of the cases has nothing filled it? Or did it come from "
        "a call that works in place and gives nothing back?",
    ),
)


# What the errors of ranks have in common when each case raises a different one.
RANKS_DIFFER = (
    "deadlock:|mismatch in",
    "Ranks do not make the same calls: in some cases one waits for ever, in others two different "
    "calls meet. What has one rank in these cases that another has not, and what does it send?",
)


def more_hints(trouble: dict[str, Plain]) -> tuple[str, ...]:
    """A hint that also fits other errors of the same kind."""
    pattern, hint = RANKS_DIFFER
    return (hint,) if re.search(pattern, trouble.get("message", "")) else ()


def sentence_and_hint(trouble: dict[str, Plain]) -> tuple[str, str]:
    """The sentence and the hint for a trouble that `observe_within_limits` found."""
    kind = trouble["trouble"]
    if kind == "nothing" and trouble["printed_characters"]:
        kind = "printed"
    if kind == "borrowed" and trouble["name"].startswith("autograder.exercises."):
        kind = "lent"
    place = f" in the line `{trouble['line']}`" if trouble.get("line") else ""
    sentence, hint = WORDS[kind]
    stop = ""
    if kind == "raised":
        error = f"{trouble['error']}: {trouble['message']}"
        hint = next((question for pattern, question in ERRORS if re.search(pattern, error)), hint)
        stop = "" if error.endswith((".", "!", "?")) else "."
        if not place and trouble["message"].startswith("wanted "):  # raised by `observe` itself
            return f"What it returned has another form: {trouble['message']}{stop}", hint
    return sentence.format(place=place, stop=stop, **trouble), hint
