"""`citegram doctor`: check the configuration, the data and the machine, and say what to do."""

import argparse

from bot import doctor as machine_checks
from bot.doctor import Check, archive_checks, run_checks, telegram_checks
from bot.settings import Settings
from bot.views.text import dump_json
from rag_core.storage import channels

_LINE_MARKS = {True: "ok  ", None: "note", False: "BAD "}

# In the order of the report, each with its timeout in seconds: checks that read whole files take longer.
CHECKS = (
    Check("start", 10, archive_checks.report_start),
    Check("disk", 10, machine_checks.check_free_space),
    Check("file system", 10, machine_checks.check_file_system),
    Check("permissions", 10, machine_checks.check_permissions),
    Check("settings", 10, machine_checks.check_settings),
    Check("archive", 20, archive_checks.check_channels, of_archive=True),
    Check("files of posts", 20, archive_checks.check_media, of_archive=True),
    Check("backups", 60, archive_checks.check_backups, of_archive=True),
    Check("indexes", 20, archive_checks.check_indexes, of_archive=True),
    Check("models", 60, machine_checks.check_models, of_archive=True),
    Check("work", 10, archive_checks.check_jobs, of_archive=True),
    Check("telegram", 30, telegram_checks.check_telegram),
    Check("rights", 60, telegram_checks.check_rights, of_archive=True),
    Check("history", 30, telegram_checks.check_history, of_archive=True),
    Check("servers", 10, machine_checks.check_servers),
)


def declare(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the arguments to the parser of the command."""
    parser.add_argument("--json", action="store_true", help="one line of JSON instead of sentences")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run all checks and print the findings. Returns 1 if a finding needs action."""
    as_json = getattr(args, "json", False)
    findings: list[dict[str, object]] = []
    async with archive_checks.open_check_context(settings, verbose=getattr(args, "verbose", False)) as context:
        async for name, (fine, text) in run_checks(context, CHECKS):
            findings.append({"check": name, "fine": fine, "what": text})
            if not as_json:
                print(_LINE_MARKS[fine], text, flush=True)
        known = await channels.load_channels(context.archive) if context.archive else {}
    bad, notes = (sum(finding["fine"] is fine for finding in findings) for fine in (False, None))
    if as_json:
        print(dump_json({"fine": not bad, "findings": findings}))
    elif bad:
        print(f"\n{bad} thing{'s' * (bad > 1)} must be mended: see BAD.")
    elif not known and not settings.bot.token.get_secret_value():
        print("\nNothing is set up yet. Next: citegram init asks for your bot's token; citegram demo needs none.")
    elif not known:
        print("\nNo channel yet. Next: citegram run, then send /start to your bot, or citegram import result.json.")
    else:
        print("\nNothing is wrong. See note for what you can still do." if notes else "\nAll is well.")
    return 1 if bad else 0
