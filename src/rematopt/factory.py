"""From the name of a factory, as people write it on the command line, to a model and its arguments."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rematopt.errors import InvalidInputError, RematoptError

if TYPE_CHECKING:
    from rematopt.zoo import Example

FORMS = "path.py:name, package.module:name or zoo:name"


def make_example(factory: str, sizes: Mapping[str, Any] | None = None) -> Example:
    """Call the factory that ``factory`` names and check what it returns.

    Parameters
    ----------
    factory : str
        ``path.py:name``, ``package.module:name`` (looked up in the current folder, too) or
        ``zoo:name`` for a model that rematopt ships.
    sizes : mapping, optional
        Keyword arguments of the factory.

    Returns
    -------
    tuple
        ``(model, args, kwargs)``: an ``nn.Module`` and the arguments of one call.

    Raises
    ------
    InvalidInputError
        If the file, the module or the name does not exist, is not callable, does not take these
        sizes, raises, or returns something else.
    """
    function = find_factory(factory)
    sizes = dict(sizes or {})
    _check_sizes(factory, function, sizes)
    try:
        result = function(**sizes)
    except RematoptError:
        raise
    except Exception as error:
        raise InvalidInputError(f"factory {factory} raised {_describe(error)}") from error
    return _checked(factory, result)


def find_factory(factory: str) -> Callable[..., Any]:
    """Return the function that ``factory`` names.

    Raises
    ------
    InvalidInputError
        If there is none.
    """
    source, colon, name = factory.rpartition(":")
    if not colon or not source or not name:
        raise InvalidInputError(f"factory {factory!r} is not of the form {FORMS}")
    if source == "zoo":
        return _zoo_factory(name)
    module = _load_file(Path(source)) if source.endswith(".py") else _load_module(source)
    try:
        function = getattr(module, name)
    except AttributeError:
        found = ", ".join(_functions(module)) or "none"
        raise InvalidInputError(f"{source} defines no {name!r}; functions it defines: {found}") from None
    if not callable(function):
        raise InvalidInputError(
            f"{factory} is of type {type(function).__name__}; expected a function that returns (model, args, kwargs)"
        )
    checked: Callable[..., Any] = function
    return checked


def _zoo_factory(name: str) -> Callable[..., Any]:
    from rematopt.zoo import MODELS

    if name not in MODELS:
        raise InvalidInputError(f"the zoo has no {name!r}; it has {', '.join(MODELS)}")
    return MODELS[name]


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InvalidInputError(f"there is no file {path}; a factory is {FORMS}")
    # As when the file is run as a script: what lies beside it can be imported.
    _allow_imports_from(path.parent)
    name = f"rematopt_factory_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # so it is for every path that ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise InvalidInputError(f"running {path} raised {_describe(error)}") from error
    return module


def _load_module(name: str) -> ModuleType:
    _allow_imports_from(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise InvalidInputError(f"cannot import {name}: {error}; a factory is {FORMS}") from error
    except (Exception, SystemExit) as error:
        raise InvalidInputError(f"importing {name} raised {_describe(error)}") from error


def _allow_imports_from(folder: Path) -> None:
    if str(folder.resolve()) not in sys.path:
        sys.path.insert(0, str(folder.resolve()))


def _functions(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]


def _check_sizes(factory: str, function: Callable[..., Any], sizes: Mapping[str, Any]) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:
        return  # some built-in callables have no signature; the call itself will tell
    try:
        signature.bind(**sizes)
    except TypeError as error:
        takes = ", ".join(signature.parameters) or "no arguments"
        raise InvalidInputError(f"factory {factory}: {error}; it takes {takes}") from None


def _checked(factory: str, result: Any) -> Example:
    from torch import nn

    match result:
        case (nn.Module() as model, tuple() | list() as args, dict() as kwargs):
            return model, tuple(args), kwargs
        case tuple():
            found = "(" + ", ".join(type(part).__name__ for part in result) + ")"
        case _:
            found = type(result).__name__
    raise InvalidInputError(
        f"factory {factory} returned {found}; expected (model, args, kwargs): an nn.Module, a tuple and a dict"
    )


def _describe(error: BaseException) -> str:
    """Type, message and the place where it was raised, in one line."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message} ({Path(frame.filename).name}, line {frame.lineno})"
