"""The Telegram bot: handlers, access, worker, views, commands of the terminal.

aiogram's types are built when they are first used: with its import aiogram 3.31 builds all four hundred, which takes
2.4 s of each start and 107 MB, most for types that this bot never meets. Names of annotations are found in the modules
of the types; a module that makes such a type while it is imported must have no name of its own that aiogram uses
otherwise.
"""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class DeferredTypesFinder:
    """Finder of `sys.meta_path` for aiogram alone: it imports as usual, but for what pydantic does meanwhile."""

    @staticmethod
    def find_spec(name: str, *_: object) -> ModuleSpec | None:
        """How aiogram is found and imported, once; None for all else."""
        if name != "aiogram":
            return None
        sys.meta_path.remove(DeferredTypesFinder)
        spec = find_spec(name)
        if spec and spec.loader:
            execute = spec.loader.exec_module
            spec.loader.exec_module = lambda module: _execute_deferred(execute, module)  # type: ignore[method-assign]
        return spec


def _execute_deferred(execute: Any, module: ModuleType) -> None:
    """Import aiogram while `model_rebuild` of its types only notes the names of their annotations."""
    from pydantic import BaseModel

    model_base: Any = BaseModel
    rebuild = model_base.__dict__["model_rebuild"]

    def rebuild_or_note(model: type[Any], /, _types_namespace: Any = None, **options: Any) -> bool | None:
        if _types_namespace is None or not model.__module__.startswith("aiogram."):
            result: bool | None = rebuild.__func__(model, _types_namespace=_types_namespace, **options)
            return result
        # Pydantic looks for names in the module of the model, where only type checkers import them.
        vars(sys.modules[model.__module__]).update(_types_namespace)
        return None

    model_base.model_rebuild = classmethod(rebuild_or_note)
    model_base.model_config["defer_build"] = True  # inherited: types have it set, methods and replies do not
    try:
        execute(module)
    finally:
        model_base.model_rebuild = rebuild
        model_base.model_config.pop("defer_build", None)


if "aiogram" not in sys.modules and DeferredTypesFinder not in sys.meta_path:
    sys.meta_path.insert(0, DeferredTypesFinder)
