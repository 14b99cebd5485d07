"""What is imported when: types of aiogram are built when they are first used, and each of them can be; commands that
send nothing load none of it.
"""

import subprocess
import sys

PROGRAM = """
import importlib, sys, typing
for name in ("ask", "data", "models", "eval"):
    importlib.import_module(f"bot.cli.{name}")
    assert "aiogram" not in sys.modules, name
from pydantic import BaseModel
import aiogram
from aiogram.types import Game, Message, Update

assert not BaseModel.model_config and BaseModel.model_rebuild.__func__.__module__ == "pydantic.main"
for package in (aiogram.types, aiogram.methods):
    models = [getattr(package, name) for name in package.__all__]
    models = [model for model in models if isinstance(model, type) and issubclass(model, BaseModel)]
    assert len(models) > 100 and not any(model.__pydantic_complete__ for model in models if model.model_fields)
    for model in models:
        typing.get_type_hints(model, localns={"Bot": aiogram.Bot})  # no field
sent = {"message_id": 1, "date": 1, "chat": {"id": 1, "type": "private"}, "text": "hello"}
update = Update.model_validate({"update_id": 1, "message": sent})
assert isinstance(update.message, Message) and update.message.text == "hello"
assert not Game.__pydantic_complete__
import bot.app, bot.cli.data, bot.cli.doctor
assert "telethon" not in sys.modules
print("all found")
"""


def test_no_type_is_built_by_the_import_and_libraries_are_loaded_where_used(root):
    """Aiogram's models take seconds of processor time: `ask` and `import` have no use for them."""
    run = subprocess.run([sys.executable, "-W", "error", "-c", PROGRAM], cwd=root, capture_output=True, text=True)
    assert run.stdout.strip() == "all found", run.stderr
