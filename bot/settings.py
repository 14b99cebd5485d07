"""The environment and `.env`, read in one place. Everything else gets plain frozen values.

`BOT__TOKEN` is the field `token` of the section `bot`; `RagSettings` names its sections without a prefix
(`DATA__DIR`). A name that a section does not know is refused; names outside our sections are not ours.
"""

from __future__ import annotations

from datetime import UTC, tzinfo
from pathlib import Path
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict, SettingsError

from rag_core.errors import SettingsWrong
from rag_core.settings import (
    AnswerSettings,
    Budgets,
    DataSettings,
    ModelSettings,
    QdrantSettings,
    RagSettings,
    SearchSettings,
)

__all__ = ["BotSettings", "Settings", "read_settings"]


class BotSettings(BaseModel, extra="forbid", frozen=True):
    """How the bot reaches Telegram, and who may tell it what to do."""

    token: SecretStr = Field(SecretStr(""), description="Token from @BotFather. Keep it secret.")
    admins: Annotated[tuple[int, ...], NoDecode] = Field(
        (), description="Numeric ids of the admins, separated by commas. /start tells you yours."
    )
    api: str = Field(
        "https://api.telegram.org",
        pattern=r"^https?://\S+$",
        description="Address of the Bot API server; change it for a server of your own.",
    )
    proxy: SecretStr = Field(
        SecretStr(""), description="Proxy to Telegram: socks5://user:password@host:port or http://host:port."
    )
    timezone: str = Field("UTC", description="Time zone of the dates in answers, such as Europe/Moscow.")
    language: Literal["ru", "en"] = Field("en", description="ru or en: spoken to those whose own language is unknown.")

    @field_validator("admins", mode="before")
    @classmethod
    def _by_commas(cls, value: object) -> object:
        if isinstance(value, str):
            return [part for part in value.replace(" ", "").split(",") if part]
        return value

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            _zone(value)
        except (LookupError, OSError, ValueError):  # ZoneInfo raises any of them, also for odd paths
            raise ValueError(f"there is no time zone {value!r}; try Europe/Moscow or UTC") from None
        return value

    @property
    def zone(self) -> tzinfo:
        """The time zone of the dates in answers."""
        return _zone(self.timezone)


def _zone(name: str) -> tzinfo:
    # UTC needs no time zone database, which slim containers lack.
    return UTC if name == "UTC" else ZoneInfo(name)


class Settings(BaseSettings):
    """All settings of the process, by section."""

    model_config = SettingsConfigDict(env_nested_delimiter="__", env_ignore_empty=True, extra="ignore", frozen=True)

    bot: BotSettings = BotSettings()
    data: DataSettings = DataSettings()
    models: ModelSettings = ModelSettings()
    qdrant: QdrantSettings = QdrantSettings()
    retrieval: SearchSettings = SearchSettings()
    answer: AnswerSettings = AnswerSettings()
    budgets: Budgets = Budgets()

    def rag(self) -> RagSettings:
        """What `open_rag` needs."""
        return RagSettings(**{name: getattr(self, name) for name in RagSettings.model_fields})


class _HubsOwn(BaseSettings):
    """What the hub's own tools read: the address of a mirror. MODELS__HUB goes before it."""

    model_config = SettingsConfigDict(extra="ignore", frozen=True)

    hf_endpoint: str = ""


def read_settings(env_file: Path | None = Path(".env"), *, data_dir: Path | None = None) -> Settings:
    """Read the environment, then `env_file` (missing is fine); `data_dir` wins over DATA__DIR.

    Raises SettingsWrong, one sentence that names the variable. Values are never repeated: some are secret.
    """
    given = {} if data_dir is None else {"data": {"dir": data_dir}}
    try:
        settings = Settings(_env_file=env_file, **given)  # type: ignore[arg-type]
        mirror = _HubsOwn(_env_file=env_file).hf_endpoint
        if mirror and "hub" not in settings.models.model_fields_set:
            return settings.model_copy(update={"models": settings.models.model_copy(update={"hub": mirror})})
        return settings
    except ValidationError as exc:
        first = exc.errors(include_input=False)[0]
        raise SettingsWrong(_sentence([str(part) for part in first["loc"]], first["msg"])) from None
    except (SettingsError, UnicodeDecodeError, OSError) as exc:
        raise SettingsWrong(f"The settings cannot be read: {exc}. See .env.example.") from None


def _sentence(place: list[str], message: str) -> str:
    name = "__".join(place[:2]).upper()
    if message == "Extra inputs are not permitted":
        return f"There is no setting {name}: .env.example lists them all."
    said = message.removeprefix("Value error, ").removeprefix("Input ")
    return f"The setting {name} cannot be used: {said}. See .env.example."
