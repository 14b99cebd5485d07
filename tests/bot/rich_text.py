"""Rich messages as tests read them: their words, links and notes."""

PARTS = ("text", "credit", "summary", "blocks", "cells")


def walk(part):
    if isinstance(part, dict):
        yield part
        part = [part[name] for name in PARTS if name in part]
    for inner in part if isinstance(part, list) else ():
        yield from walk(inner)


def join_words(text):
    if isinstance(text, list):
        return "".join(map(join_words, text))
    return text if isinstance(text, str) else join_words(text["text"])


def find_notes(rich):
    blocks = [one for one in walk(rich) if isinstance(one.get("text"), dict) and one["text"]["type"] == "reference"]
    return {block["text"]["name"]: block for block in blocks}


def list_marks(rich):
    return [one["reference_name"] for one in walk(rich) if one.get("type") == "reference_link"]


def list_links(part):
    return [one["url"] for one in walk(part) if one.get("type") == "url"]


def outline(blocks, depth=0):
    """A line for each block and row, as a reader sees it."""
    lines = []
    for block in blocks:
        kind, words = block["type"], join_words(block.get("text", block.get("summary", "")))
        lines.append(
            f"{'  ' * depth}{kind}: {words}" + (f" — {join_words(block['credit'])}" if "credit" in block else "")
        )
        lines += [f"  {' | '.join(join_words(cell['text']) for cell in row)}" for row in block.get("cells", ())]
        lines += outline(block.get("blocks", []), depth + 1)
    return lines


def read_body(rich):
    """What an answer says, block by block, and the lines that name its sources."""
    notes = [id(block) for block in find_notes(rich).values()]
    body, sources = [], []
    for block in [one for one in walk(rich["blocks"]) if "type" in one and is_block(one)]:
        if id(block) in notes:
            sources.append(join_words(block["credit"]))
        elif "cells" in block:
            body += [": ".join(join_words(cell["text"]) for cell in row) for row in block["cells"]]
        elif "text" in block:
            body.append(join_words(block["text"]) + ("\n" + join_words(block["credit"]) if "credit" in block else ""))
        elif "summary" in block:
            body.append(join_words(block["summary"]))
    return body, sources


def is_block(part):
    return part["type"] in {"paragraph", "heading", "blockquote", "expandable_blockquote", "details", "table"}
