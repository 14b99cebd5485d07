"""A reader of the GBNF that our grammars are written in: how long a sentence can get, and sentences drawn from it."""

import re
from itertools import product

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|\{\d+,\d+\}|::=|[()|?]|[a-z0-9]+|\n')
_ESCAPED = re.compile(r"\\x([0-9A-Fa-f]{2})|\\(.)")


class Grammar:
    """Rules without recursion."""

    def __init__(self, text):
        self._rules = {}
        for line in text.splitlines():
            if line.strip() and not line.startswith("#"):
                tokens = [found[0] for found in _TOKEN.finditer(line)]
                assert tokens[1] == "::=", line
                node, rest = self._choice(tokens[2:])
                assert not rest, line
                self._rules[tokens[0]] = node

    def longest(self, rule="root"):
        """A sentence than which none has more bytes."""
        return self._longest(self._rules[rule])

    def drawn(self, chance, rule="root"):
        return "".join(self._drawn(self._rules[rule], chance))

    def every(self, rule):
        return set(self._every(self._rules[rule]))

    def _every(self, node):
        kind, what = node
        if kind == "text":
            return [str(what)]
        if kind == "class":
            return list(str(what))
        if kind == "rule":
            return self._every(self._rules[str(what)])
        if kind == "row":
            return ["".join(parts) for parts in product(*map(self._every, what))]
        assert kind == "choice"
        return [text for way in what for text in self._every(way)]

    def _choice(self, tokens):
        ways = [[]]
        while tokens and tokens[0] != ")":
            if tokens[0] == "|":
                ways.append([])
                tokens = tokens[1:]
                continue
            node, tokens = self._item(tokens)
            ways[-1].append(node)
        return ("choice", [("row", way) for way in ways]), tokens

    def _item(self, tokens):
        head, tokens = tokens[0], tokens[1:]
        if head == "(":
            node, tokens = self._choice(tokens)
            assert tokens[0] == ")"
            tokens = tokens[1:]
        elif head[0] == '"':
            node = ("text", _plain(head[1:-1]))
        elif head[0] == "[":
            node = ("class", "".join(_members(head[1:-1])))
        else:
            node = ("rule", head)
        if tokens and tokens[0] == "?":
            return ("times", (node, 0, 1)), tokens[1:]
        if tokens and tokens[0][0] == "{":
            least, most = map(int, tokens[0][1:-1].split(","))
            return ("times", (node, least, most)), tokens[1:]
        return node, tokens

    def _longest(self, node):
        kind, what = node
        if kind == "text":
            return str(what)
        if kind == "class":
            return max(what, key=lambda c: len(c.encode()))
        if kind == "rule":
            return self._longest(self._rules[str(what)])
        if kind == "row":
            return "".join(map(self._longest, what))
        if kind == "choice":
            return max(map(self._longest, what), key=lambda text: len(text.encode()))
        inner, _, most = what
        return self._longest(inner) * most

    def _drawn(self, node, chance):
        kind, what = node
        if kind == "text":
            yield str(what)
        elif kind == "class":
            yield chance.choice(str(what))
        elif kind == "rule":
            yield from self._drawn(self._rules[str(what)], chance)
        elif kind == "row":
            for one in what:
                yield from self._drawn(one, chance)
        elif kind == "choice":
            yield from self._drawn(chance.choice(what), chance)
        else:
            inner, least, most = what
            for _ in range(chance.randint(least, most)):
                yield from self._drawn(inner, chance)


def _plain(text):
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2], text)


def _members(text):
    """The characters of a class."""
    chars = [(_plain(found), len(found) > 1) for found in re.findall(r"\\x..|\\.|.", text)]
    at = 0
    while at < len(chars):
        first = chars[at][0]
        if at + 2 < len(chars) and chars[at + 1] == ("-", False):
            yield from map(chr, range(ord(first), ord(chars[at + 2][0]) + 1))
            at += 3
        else:
            yield first
            at += 1
