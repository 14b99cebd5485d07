"""Tables of texts beside a test: cells between bars, no line that begins with #."""

from pathlib import Path


def read_table(test, name):
    """Read the rows of a table that lies beside a test; a written \\n is the end of a line."""
    lines = Path(test).with_name(name).read_text("utf-8").splitlines()
    return [tuple(line.replace("\\n", "\n").split(" | ")) for line in lines if not line.startswith("#")]
