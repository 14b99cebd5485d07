"""Answer writing: extractive answers, answers of a language model, their prompts, grammar and reflection."""
