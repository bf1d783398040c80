"""Which pieces of Python code are the same program? Nothing is compiled or run.

Comments, docstrings and layout do not count; names, numbers, signs and indentation do.

    >>> program_of("x = a - b  # mine") == program_of("x = a  -  b")
    True
    >>> program_of("x = a - b") == program_of("x = a + b")
    False
"""

import io
import tokenize
from collections.abc import Iterator
from tokenize import COMMENT, DEDENT, ENCODING, ENDMARKER, ERRORTOKEN, INDENT, NEWLINE, NL, STRING

MAX_CHARACTERS = 50_000  # longer texts are the same only where they are equal
Program = tuple[str, ...]

IGNORED = frozenset((COMMENT, NL, ENCODING, ENDMARKER))
LAYOUT = {NEWLINE: "\n", INDENT: "\n>", DEDENT: "\n<"}  # no other token holds a line break alone


def program_of(source: str) -> Program:
    """The tokens of code that count; the stripped text itself where it is no Python."""
    as_it_is = (source.strip(),)
    if len(source) > MAX_CHARACTERS:
        return as_it_is
    program: list[str] = []
    try:
        for kind, text, *_ in tokenize.generate_tokens(io.StringIO(source).readline):
            if kind == ERRORTOKEN:
                return as_it_is  # the next ones are looked for in the square of the time
            if kind == NEWLINE and _is_docstring(program):
                program.pop()
            elif kind not in IGNORED:
                program.append(f"string {text}" if kind == STRING else LAYOUT.get(kind, text))
    except (tokenize.TokenError, SyntaxError):
        return as_it_is
    return tuple(program)


def statements_of(program: Program) -> Iterator[Program]:
    """The statements of a program, without their indentation."""
    statement: list[str] = []
    for token in (*program, LAYOUT[NEWLINE]):
        if token not in LAYOUT.values():
            statement.append(token)
        elif statement:
            yield tuple(statement)
            statement = []


def _is_docstring(program: list[str]) -> bool:
    """Whether the statement that ends here is a string and nothing else."""
    before = program[-2] if len(program) > 1 else "\n"
    return bool(program) and program[-1].startswith("string ") and before in LAYOUT.values()
