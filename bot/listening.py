"""Where a port of ours may be opened: on this machine only, unless somebody said that others shall reach it."""

from __future__ import annotations

from ipaddress import ip_address

from rag_core.errors import SettingsWrong

__all__ = ["allowed_host"]


def allowed_host(host: str, public: bool, setting: str) -> str:
    """The host, if it may be listened on: loopback, or anything where that is meant to be `public`.

    `setting` is the variable that named the host, such as WATCH__HOST; its section has one PUBLIC. Raises
    SettingsWrong. A name is not looked up: what it stands for may change, so only "localhost" is known.
    """
    if public or host == "localhost":
        return host
    try:
        loopback = ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        section = setting.partition("__")[0]
        raise SettingsWrong(
            f"{setting} is {host!r}, where others could reach this port: write 127.0.0.1, "
            f"or set {section}__PUBLIC=true if that is meant."
        )
    return host
