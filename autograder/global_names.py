"""Which names does a source read that it has not from itself?"""

import symtable
from collections.abc import Iterator


def free_names(table: symtable.SymbolTable) -> Iterator[str]:
    """The global names that a block and those within it read."""
    is_module = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (is_module or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from free_names(child)
