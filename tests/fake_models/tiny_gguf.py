"""A language model of half a megabyte, random: real llama.cpp, real tokens, grammars and log-odds, no sense.

Its vocabulary is every byte and a few words, so that all of Unicode can be read and written. Format:
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import numpy as np
from gguf import GGUFWriter, TokenType

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_CONTROL = ("<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>")


def build(path, *, layers=2, dim=64, context=4096, seed=0, words=("yes", "no", "да", "нет"), template=CHATML):
    """Write the model to `path`. 2 layers of 64 read 5,000 tokens/s; 8 of 512 take a second for a long prompt."""
    heads, feed = 4, 2 * dim
    writer = GGUFWriter(path, "llama")
    writer.add_name("tiny-random")
    writer.add_context_length(context)
    writer.add_embedding_length(dim)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(feed)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(dim // heads)
    writer.add_file_type(0)
    writer.add_chat_template(template)
    tokens = _vocabulary(writer, words)
    rng = np.random.default_rng(seed)

    def tensor(name, *shape):
        writer.add_tensor(name, (rng.normal(size=shape) * (2.0 / shape[-1]) ** 0.5).astype(np.float32))

    tensor("token_embd.weight", tokens, dim)
    tensor("output.weight", tokens, dim)
    writer.add_tensor("output_norm.weight", np.ones(dim, np.float32))
    for layer in range(layers):
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{norm}.weight", np.ones(dim, np.float32))
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensor(f"blk.{layer}.{name}.weight", dim, dim)
        tensor(f"blk.{layer}.ffn_gate.weight", feed, dim)
        tensor(f"blk.{layer}.ffn_up.weight", feed, dim)
        tensor(f"blk.{layer}.ffn_down.weight", dim, feed)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _vocabulary(writer, words):
    """Control tokens, all bytes, a few words. Returns how many there are."""
    tokens = [name.encode() for name in _CONTROL]
    kinds = [TokenType.UNKNOWN, *[TokenType.CONTROL] * (len(_CONTROL) - 1)]
    tokens += [f"<0x{byte:02X}>".encode() for byte in range(256)]
    kinds += [TokenType.BYTE] * 256
    tokens += [word.encode() for word in ("▁", *words)]
    kinds += [TokenType.NORMAL] * (1 + len(words))
    plain = len(tokens) - len(words)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * plain + [-float(n) for n in range(len(words))])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(4)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    return len(tokens)
