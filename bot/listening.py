"""HTTP listeners of the bot: which address they may use, and which requests a local one takes.

A port on 127.0.0.1 can be reached by every web page that a browser on this machine shows: pages may send requests to
any address (cross-site request forgery), and let their own name resolve to 127.0.0.1 (DNS rebinding).
"""

from __future__ import annotations

import re
from ipaddress import ip_address

from aiohttp import web
from aiohttp.typedefs import Handler

from rag_core.errors import SettingsWrong

__all__ = ["allowed_host", "refuse_foreign_pages"]

_LOOPBACK = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?", re.IGNORECASE)
_REFUSAL = "This port is for this machine: ask it as 127.0.0.1 or localhost, and not from another site's page.\n"
_OWN_SITE = {"same-origin", "none"}  # none: typed into the address bar, or a bookmark


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


@web.middleware
async def refuse_foreign_pages(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse with 403 what another site's page sends through a browser: middleware for a port on this machine.

    The Host header must name this machine; its port is not compared, as a tunnel may have another. The Origin header
    must be the same origin. Sec-Fetch-Site covers what browsers send without an Origin (images, links, forms by GET).
    Programs send neither, and are not concerned.
    """
    hosts = request.headers.getall("Host", [])
    if len(hosts) != 1 or not _LOOPBACK.fullmatch(hosts[0]):
        raise web.HTTPForbidden(text=_REFUSAL)
    if any(origin.lower() != f"http://{hosts[0]}".lower() for origin in request.headers.getall("Origin", [])):
        raise web.HTTPForbidden(text=_REFUSAL)
    sites = request.headers.getall("Sec-Fetch-Site", [])
    if not _OWN_SITE.issuperset(sites) and not _opens_the_page(request):
        raise web.HTTPForbidden(text=_REFUSAL)
    return await handler(request)


def _opens_the_page(request: web.Request) -> bool:
    """Whether this is a link to the start page, in a window of its own: it shows nothing to the page with the link."""
    asked = (request.method, request.rel_url.raw_path, request.headers.get("Sec-Fetch-Dest"))
    return asked == ("GET", "/", "document")
