"""Settings of the process: environment variables and `.env`, by section.

Errors name the variable and never repeat its value, because some values are secret.
"""

import difflib
import logging
import re
import sys
from collections.abc import Iterable
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from dotenv.parser import parse_stream
from pydantic import BaseModel, Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict, SettingsError
from pydantic_settings.sources import DotEnvSettingsSource, EnvSettingsSource

from rag_core.errors import SettingsWrong
from rag_core.settings import RagSettings

# Telegram's conditions: https://core.telegram.org/bots/api#setwebhook
_WEBHOOK_URL_PATTERN = re.compile(r"https://[^\s/:@?#]+(:(443|80|88|8443))?(/[^\s?#{}]*)?")
_WEBHOOK_SECRET_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,256}")
# Ids of people are positive; groups and channels, whose anonymous admins write under their id, have negative ones.
_PERSON_ID_PATTERN = re.compile(r"[1-9][0-9]{0,15}")
_MAX_USER_ID = 10**16
_LISTEN_PATTERN = re.compile(r"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}")
_VARIABLE_PATTERN = re.compile(r"[a-z]+__[a-z]+(?:_[a-z]+)*")
# Telegram accounts that many people write under: anonymous admins of groups, channels, service notices.
_SHARED_ACCOUNTS = frozenset({1087968824, 136817688, 777000})


log = logging.getLogger(__name__)


class BotSettings(BaseModel, extra="forbid", frozen=True):
    """Connection to Telegram, admins, language, rate limits."""

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
    reader_limit: int = Field(60, ge=1, description="Questions that one reader may ask within an hour.")
    chat_limit: int = Field(300, ge=1, description="Questions that may be asked in one group within an hour.")

    contact: str = Field(
        "", max_length=100, description="Whom readers can reach who want a human being: a @name, link or mail address."
    )
    update_answers: bool = Field(
        True, description="true: an answer says for two days that a post behind it was edited or deleted."
    )
    guest: bool = Field(
        False,
        description="true: answers from public channels where it is called into a chat it is not in (guest mode).",
    )

    @field_validator("admins", mode="before")
    @classmethod
    def _people_only(cls, value: object) -> tuple[int, ...]:
        if isinstance(value, str):
            value = [part for part in map(str.strip, value.split(",")) if part]
        ids = [parse_person_id(str(one)) for one in value] if isinstance(value, Iterable) else [None]
        if None in ids:
            raise ValueError(
                "write the numeric ids of people, separated by commas, such as 123456789 (/start tells you yours); "
                "groups and channels cannot be admins"
            )
        return tuple(filter(None, ids))

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        if find_time_zone(value) is None:
            raise ValueError(f"there is no time zone {value!r}; try Europe/Moscow or UTC")
        return value

    @property
    def zone(self) -> tzinfo:
        """Time zone of the dates in answers."""
        return find_time_zone(self.timezone) or UTC


def is_person(user_id: object) -> bool:
    """Check that this is the numeric id of one person: chats have negative ids, and some accounts are shared."""
    return isinstance(user_id, int) and 0 < user_id < _MAX_USER_ID and user_id not in _SHARED_ACCOUNTS


def parse_person_id(text: str) -> int | None:
    """Parse the numeric id of one person; None where it is none."""
    return int(text) if _PERSON_ID_PATTERN.fullmatch(text) and is_person(int(text)) else None


def find_time_zone(name: str) -> tzinfo | None:
    """Find a time zone by its name; None for one that is not known."""
    try:
        # UTC needs no time zone database, which slim containers lack.
        return UTC if name == "UTC" else ZoneInfo(name)
    except (LookupError, OSError, ValueError):  # ZoneInfo raises any of them, also for odd paths
        return None


class WebhookSettings(BaseModel, extra="forbid", frozen=True):
    """Webhook settings. Without a URL updates are polled."""

    url: str = Field("", description="Public https address that a proxy passes on to the port below. Empty: polling.")
    secret: SecretStr = Field(
        SecretStr(""), validate_default=True, description="What Telegram shows to prove who it is. Needed with the url."
    )
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8080, ge=1, le=65_535, description="Port to listen on.")
    public: bool = Field(False, description="true: listen on an address that other machines reach.")

    @field_validator("url")
    @classmethod
    def _as_telegram_wants_it(cls, value: str) -> str:
        if value and not _WEBHOOK_URL_PATTERN.fullmatch(value):
            raise ValueError("it must begin with https://, and its port be 443 (needs no writing), 80, 88 or 8443")
        return value

    @field_validator("secret")
    @classmethod
    def _long_enough(cls, value: SecretStr, info: ValidationInfo) -> SecretStr:
        secret = value.get_secret_value()
        if (info.data.get("url") or secret) and not _WEBHOOK_SECRET_PATTERN.fullmatch(secret):
            raise ValueError(
                "with WEBHOOK__URL it must be 1 to 256 of A-Z, a-z, 0-9, _ and -, such as openssl rand -hex 32 prints"
            )
        return value


class HistorySettings(BaseModel, extra="forbid", frozen=True):
    """History over MTProto, with the bot's own token. Without an api_id there is none."""

    api_id: int = Field(0, ge=0, description="api_id from my.telegram.org: history and deletions come by themselves.")
    api_hash: SecretStr = Field(
        SecretStr(""), validate_default=True, description="api_hash from my.telegram.org. Keep it secret."
    )

    @field_validator("api_hash")
    @classmethod
    def _complete(cls, value: SecretStr, info: ValidationInfo) -> SecretStr:
        if bool(value.get_secret_value()) != bool(info.data.get("api_id")):
            raise ValueError("HISTORY__API_ID and HISTORY__API_HASH belong together: set both, or none")
        return value


class MediaSettings(BaseModel, extra="forbid", frozen=True):
    """Reading of the files of posts."""

    files: Literal["read", "keep", "off"] = Field(
        "read",
        description="read: pictures, voices and documents become text; keep: their files stay in data/media; off.",
    )


class LogSettings(BaseModel, extra="forbid", frozen=True):
    """Content and format of the log."""

    texts: bool = Field(False, description="true: texts of questions go to the log, and failures with all they say.")
    format: Literal["plain", "json"] = Field("plain", description="plain, or json: one object on each line.")


class MonitoringSettings(BaseModel, extra="forbid", frozen=True):
    """Monitoring settings: /healthz, /readyz, /metrics."""

    port: int = Field(0, ge=0, le=65535, description="Port of /healthz, /readyz and /metrics. 0: none is opened.")
    host: str = Field("127.0.0.1", description="Address to listen on; one that others reach needs MONITORING__PUBLIC.")
    public: bool = Field(False, description="true: MONITORING__HOST may be an address that others can reach.")


class McpSettings(BaseModel, extra="forbid", frozen=True):
    """Questions of other assistants and programs over HTTP: MCP and POST /ask."""

    listen: str = Field(
        "", description="Where programs ask with tokens of /token, such as 127.0.0.1:8770. Empty: nowhere."
    )

    @field_validator("listen")
    @classmethod
    def _has_port(cls, value: str) -> str:
        _, _, port = value.rpartition(":")
        if value and not (_LISTEN_PATTERN.fullmatch(value) and 0 < int(port) < 65_536):
            raise ValueError("write an address and a port, such as 127.0.0.1:8770")
        return value

    @property
    def host(self) -> str:
        """Address to listen on."""
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """Port to listen on."""
        return int(self.listen.rpartition(":")[2])


class Settings(RagSettings, BaseSettings):
    """All settings of the process, by section: those of the engine, and those of the bot."""

    model_config = SettingsConfigDict(env_nested_delimiter="__", env_ignore_empty=True, extra="ignore", frozen=True)

    bot: BotSettings = BotSettings()
    webhook: WebhookSettings = WebhookSettings()
    history: HistorySettings = HistorySettings()
    media: MediaSettings = MediaSettings()
    log: LogSettings = LogSettings()
    monitoring: MonitoringSettings = MonitoringSettings()
    mcp: McpSettings = McpSettings()

    def rag(self) -> RagSettings:
        """Settings for `open_engine`: without tokens and passwords of the bot."""
        return RagSettings(**{name: getattr(self, name) for name in RagSettings.model_fields})


class _ExternalSettings(BaseSettings):
    """Variables of the desktop."""

    model_config = SettingsConfigDict(extra="ignore", frozen=True)

    display: str = ""
    wayland_display: str = ""
    ssh_connection: str = ""


def is_desktop() -> bool:
    """Whether the environment is that of a desktop, where a browser can be opened: not of ssh, nor of a server."""
    external = _ExternalSettings()
    shows = bool(external.display or external.wayland_display) or sys.platform == "darwin"
    return shows and not external.ssh_connection


def read_settings(env_file: Path | None = Path(".env"), *, data_dir: Path | None = None) -> Settings:
    """Read the environment, then `env_file` (may be missing); `data_dir` wins over DATA__DIR.

    Raises SettingsWrong with one sentence that names the variable, and never its value: some are secret.
    """
    overrides = {} if data_dir is None else {"data": {"dir": data_dir}}
    try:
        if env_file and env_file.is_file():
            with env_file.open(encoding="utf-8") as stream:
                wrong = [one for one in parse_stream(stream) if one.error or (one.key and one.value is None)]
            if wrong:
                text = wrong[0].original.string
                line = wrong[0].original.line + text[: len(text) - len(text.lstrip())].count("\n")
                raise SettingsWrong(
                    f'Line {line} of {env_file} has no "=", or quotes that do not end: write NAME=value.'
                )
        for source in (EnvSettingsSource(Settings), DotEnvSettingsSource(Settings, env_file)):
            for name in source.env_vars:
                section = name.lower().partition("__")[0]
                # a variable of no section may be another program's
                if section not in Settings.model_fields and _VARIABLE_PATTERN.fullmatch(name.lower()):
                    log.warning(_describe_unknown_setting(name.upper()))
        return Settings(_env_file=env_file, **overrides)  # type: ignore[arg-type]
    except ValidationError as exc:
        first = exc.errors(include_input=False)[0]
        name, said = "__".join(map(str, first["loc"][:2])).upper(), first["msg"]
        if said == "Extra inputs are not permitted":
            raise SettingsWrong(_describe_unknown_setting(name)) from None
        reason = said.removeprefix("Value error, ").removeprefix("Input ")
        raise SettingsWrong(f"The setting {name} cannot be used: {reason}. See citegram --settings.") from None
    except (SettingsError, UnicodeDecodeError, OSError) as exc:
        raise SettingsWrong(f"The settings cannot be read: {exc}. See citegram --settings.") from None


def _describe_unknown_setting(name: str) -> str:
    known = (
        f"{section}__{field}".upper()
        for section, about in Settings.model_fields.items()
        for field in getattr(about.annotation, "model_fields", ())
    )
    near = difflib.get_close_matches(name, known, 1, 0.8)
    remedy = "take it out of .env or the environment." + (f" Did you mean {near[0]}?" if near else "")
    return f"There is no setting {name}: {remedy} citegram --settings shows them all."


def format_settings() -> str:
    """Format all settings as lines of .env with their defaults, below each what it does."""
    lines = []
    for name, section in Settings.model_fields.items():
        for field, about in section.annotation.model_fields.items():  # type: ignore[union-attr]
            lines.append(f"{name}__{field}".upper() + f"={format_default(about.default)}")
            lines.append(f"    {about.description}")
    return "\n".join(lines)


def format_default(value: object) -> str:
    """Format a default as it is written in .env; nothing where there is none."""
    if isinstance(value, SecretStr) or value in (None, "", ()):
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
