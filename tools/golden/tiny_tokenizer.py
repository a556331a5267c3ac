"""A byte-level BPE tokenizer small enough for the tiny checkpoints, written as tokenizer.json."""
import json
import os

SPECIAL = ["<unk>", "<s>", "</s>"]
TEMPLATE = ("{% for message in messages %}<s>{{ message['role'] }}\n{{ message['content'] }}</s>\n"
            "{% endfor %}{% if add_generation_prompt %}<s>assistant\n{% endif %}")
# Pairs worth merging in English; "Ġ" is the space as byte-level BPE spells it.
MERGES = ["Ġ t", "h e", "i n", "a n", "Ġt he", "e r", "o n", "r e", "Ġ a", "e n", "a t", "o u",
          "Ġ w", "i s", "e s", "o r", "Ġ s", "in g", "e d", "Ġ o", "an d", "Ġ c", "i t", "a r",
          "Ġ b", "l l", "Ġ f", "Ġ p", "a l", "o m", "Ġ i", "i c", "l e", "r o", "Ġ m", "a s",
          "e t", "v e", "Ġ d", "Ġ in", "c h", "Ġ h", "i on", "Ġo f", "Ġ g", "u r", "o w", "s t",
          "Ġ l", "Ġa nd", "Ġ e", "i l", "u t", "Ġ n", "i d", "o l", "Ġt o", "c e", "en t", "g h",
          "Ġis", "Ġ re"]


def byte_letters():
    """The letter that stands for each byte in byte-level BPE (GPT-2's table)."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in kept}
    for byte in range(256):
        if byte not in letters:
            letters[byte] = chr(256 + len(letters) - len(kept))
    return letters


def vocabulary(size, full_bytes):
    """(pieces, merges): the special tokens, bytes (all, or printable ASCII, tab and newline), merges."""
    letters = byte_letters()
    wanted = range(256) if full_bytes else [9, 10, *range(32, 127)]
    pieces = SPECIAL + [letters[byte] for byte in wanted]
    merges = []
    for merge in MERGES:
        left, _, right = merge.partition(" ")
        if len(pieces) < size and right and left in pieces and right in pieces:
            merges.append((left, right))
            pieces.append(left + right)
    while len(pieces) < size:
        pieces.append(f"<unused{len(pieces)}>")
    return pieces, merges


def write_tokenizer(folder, size, full_bytes):
    pieces, merges = vocabulary(size, full_bytes)
    added = [{"id": index, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for index, text in enumerate(SPECIAL)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                  "use_regex": True}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {piece: index for index, piece in enumerate(pieces)},
                  "merges": [list(merge) for merge in merges]},
    }
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
              "unk_token": "<unk>", "add_bos_token": False, "chat_template": TEMPLATE}
    for name, value in (("tokenizer.json", tokenizer), ("tokenizer_config.json", config)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(value, file, ensure_ascii=False, separators=(",", ":"))
            file.write("\n")
