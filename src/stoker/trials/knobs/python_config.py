"""A key of a configuration that is a Python module: the copy gets one assignment at its end.

So the module may build its dictionaries as it likes. The value is written as a literal: text a user types is
never code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from stoker.errors import UsageError
from stoker.trials.knobs.known import nearest_first


def with_assignment(text: str, name: str, value: str, shown: str) -> str:
    tree = _parsed(text, shown)
    root, *keys = name.split(".")
    names = sorted(set(_names(tree)))
    if root not in names:
        raise UsageError(
            f"{shown} defines no {root}",
            seen=f"it defines {', '.join(nearest_first(root, names)[:8])}" if names else "it defines nothing",
            hint="the path begins with the module's own name for it: CONFIG.optim.lr",
        )
    target = root + "".join(f"[{key!r}]" for key in keys)
    return f"{text.rstrip()}\n\n{target} = {_literal(value)!r}\n"


def _parsed(text: str, shown: str) -> ast.Module:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UsageError(f"{shown} is no Python module", seen=str(error)) from None
    if reason := _tied_to_its_place(tree):
        raise UsageError(f"a copy of {shown} would not work from another folder", seen=reason)
    return tree


def _tied_to_its_place(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            return f"line {node.lineno} imports from its own package"
        if isinstance(node, ast.Name) and node.id in ("__file__", "_base_"):
            return f"line {node.lineno} uses {node.id}"
    return ""


def _names(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
