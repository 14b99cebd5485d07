"""A server of OpenAI's protocol that plays parts: what it replies depends on what it is asked to be."""

from openai_server import OpenAiServer, answer_with

from rag_core.writing.prompts import load_prompt


def serve_roles(replies):
    """Server whose `replies` are by the name of the prompt."""

    def write(asked):
        system = next((one["content"] for one in asked["messages"] if one["role"] == "system"), "")
        return next(said for purpose, said in replies.items() if _is(purpose, system))

    return OpenAiServer(answer_with(write), name="parts")


def _is(purpose, system):
    # a list of tools may follow
    langs = ("all",) if purpose in {"plan", "judge"} else ("ru", "en")
    return any(system.startswith(load_prompt(purpose, lang).system) for lang in langs)
