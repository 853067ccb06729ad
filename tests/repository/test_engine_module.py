"""The engine as a module of the interpreter, beside others that bring C++ libraries."""

import ast
import re
import shutil
from pathlib import Path

import pytest

import cclmark
from cclmark import _engine as engine
from commands import completed

STUB = ast.parse((Path(cclmark.__file__).with_name("_engine.pyi")).read_text())
MOST_POSITIONAL = 4


def test_nothing_but_the_entry_is_exported():
    """Else a module linked statically with the C++ library shares half of it with torch's or zmq's:
    streams that read no numbers, crashes in torch's start."""
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("nm is not here")
    listed = completed([nm, "-D", "--defined-only", engine.__file__], check=True)
    assert [line.split()[-1] for line in listed.stdout.splitlines()] == ["PyInit__engine"]


def functions_of_the_stub():
    """The functions and methods of the stub, with the names under which the module has them."""
    for node in STUB.body:
        for function in node.body if isinstance(node, ast.ClassDef) else [node]:
            decorated = isinstance(function, ast.FunctionDef) and function.decorator_list
            if isinstance(function, ast.FunctionDef) and not decorated:
                yield [node.name] if function is node else [node.name, function.name], function


@pytest.mark.parametrize(
    ("path", "function"),
    [pytest.param(*one, id=".".join(one[0])) for one in functions_of_the_stub()],
)
def test_the_stub_has_the_arguments_of_the_module(path, function):
    bound = engine
    for name in path:
        bound = getattr(bound, name)
    positional, keyword = function.args.args, function.args.kwonlyargs
    with_default = [one.arg for one in positional[len(positional) - len(function.args.defaults) :]]
    with_default += [
        one.arg for one, value in zip(keyword, function.args.kw_defaults, strict=True) if value
    ]
    names = [one.arg for one in positional] + ["*"] * bool(keyword) + [one.arg for one in keyword]
    # Types are left out: nested brackets contain commas.
    signature = bound.__doc__.splitlines()[0].partition("(")[2].rpartition(") -> ")[0]
    while re.search(r"\[[^\[\]]*\]", signature):
        signature = re.sub(r"\[[^\[\]]*\]", "", signature)
    arguments = signature.split(", ") if signature else []
    assert [one.partition(":")[0] for one in arguments] == names
    assert [one.partition(":")[0] for one in arguments if " = " in one] == with_default
    assert len([one for one in positional if one.arg != "self"]) <= MOST_POSITIONAL
