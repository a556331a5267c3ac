#!/usr/bin/env python3
"""Builds the tokenizer.json of the published model for each vocabulary file of llama.cpp.

    make_tokenizer_json.py MODELS OUT    MODELS holds ggml-vocab-*.gguf; writes OUT/NAME.json

The pieces and merges come from the GGUF file; the normalizer, pre-tokenizer and decoder are those
of the model's published tokenizer.json, written here independently of src/files. Standard library
only.
"""
import base64
import glob
import json
import os
import re
import struct
import sys

MARK = "▁"
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}"
          + REST)
GPT4O = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}?"
         rf"|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}?|\p{{N}}{{1,3}}" + REST)
K2_UPPER = UPPER[:-1] + r"&&[^\p{Han}]]"
K2_LOWER = LOWER[:-1] + r"&&[^\p{Han}]]"
KIMI_K2 = (rf"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?{K2_UPPER}*{K2_LOWER}+{CONTRACTIONS}?"
           rf"|[^\r\n\p{{L}}\p{{N}}]?{K2_UPPER}+{K2_LOWER}*{CONTRACTIONS}?|\p{{N}}{{1,3}}"
           r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
V3_WORDS = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLM_LETTERS = (
    r"A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}"
    r"\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}"
    r"\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}"
    r"\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}"
    r"\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}"
    r"\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}"
    r"\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}"
    r"\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}"
    r"\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}"
    r"\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}"
    r"\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}"
    r"\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}"
    r"\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}"
    r"\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}"
    r"\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}"
    r"\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}"
    r"\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}")
LLM_CJK = "[一-龥ࠀ-一가-퟿]+"


def split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def byte_level(use_regex=True):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
            "use_regex": use_regex}


def digits(individual):
    return {"type": "Digits", "individual_digits": individual}


def sequence(kind, *steps):
    return {"type": "Sequence", kind: list(steps)}


def pre(*steps):
    return sequence("pretokenizers", *steps)


NFC = {"type": "NFC"}
# name: (normalizer, pre-tokenizer, ignore_merges)
BYTE_LEVEL = {
    "aquila": (None, byte_level(), False),
    "gpt-2": (None, byte_level(), False),
    "gpt-neox": (NFC, byte_level(), False),
    "mpt": (NFC, byte_level(), False),
    "command-r": (NFC, pre(digits(True), byte_level()), False),
    "starcoder": (None, pre(digits(True), byte_level()), False),
    "refact": (None, pre(digits(True), byte_level()), False),
    "smollm": (None, pre(digits(True), byte_level()), False),
    "falcon": (None, pre({"type": "Punctuation", "behavior": "Contiguous"}, byte_level(),
                         digits(False), split("[0-9][0-9][0-9]")), False),
    "llama-bpe": (None, pre(split(LLAMA3), byte_level(False)), True),
    "qwen2": (NFC, pre(split(QWEN2), byte_level(False)), False),
    "qwen35": (NFC, pre(split(QWEN35), byte_level(False)), False),
    "deepseek-llm": (None, pre(split("[\r\n]"), split(r"\s?[" + LLM_LETTERS + "]+"),
                               split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"), split(r"\s+$"),
                               split(LLM_CJK), digits(True), byte_level(False)), False),
    "deepseek-coder": (None, pre(split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"),
                                 split(LLM_CJK), digits(True), byte_level(False)), False),
    # Published without a vocabulary file here: on llama-bpe's pieces.
    "deepseek-v3": (None, pre(split(r"\p{N}{1,3}"), split("[一-龥\u3040-ゟ゠-ヿ]+"), split(V3_WORDS),
                              byte_level(False)), False),
    "tekken": (None, pre(split(TEKKEN), byte_level(False)), True),
    "gpt-4o": (None, pre(split(GPT4O), byte_level(False)), False),
    "kimi-k2": (None, pre(split(KIMI_K2), byte_level(False)), False),
}
ON_LLAMA_BPE = ("deepseek-v3", "tekken", "gpt-4o", "kimi-k2")


SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
           12: "d"}
STRING, ARRAY = 8, 9


def read_metadata(path):
    """The key-value pairs of a GGUF file (format: docs/gguf.md of ggml-org/ggml)."""
    with open(path, "rb") as file:
        data = file.read()
    at = 0

    def scalar(code):
        nonlocal at
        value, = struct.unpack_from("<" + code, data, at)
        at += struct.calcsize("<" + code)
        return value

    def string():
        nonlocal at
        size = scalar("Q")
        at += size
        return data[at - size:at].decode("utf-8", "surrogateescape")

    def value(kind):
        nonlocal at
        if kind == STRING:
            return string()
        if kind != ARRAY:
            return scalar(SCALARS[kind])
        item, count = scalar("I"), scalar("Q")
        if item in (STRING, ARRAY):
            return [value(item) for _ in range(count)]
        code = f"<{count}{SCALARS[item]}"
        at += struct.calcsize(code)
        return list(struct.unpack_from(code, data, at - struct.calcsize(code)))

    magic, _, _, count = struct.unpack_from("<4sIQQ", data)
    if magic != b"GGUF":
        raise SystemExit(f"{path} is not a GGUF file")
    at = struct.calcsize("<4sIQQ")
    return {string(): value(scalar("I")) for _ in range(count)}


class Vocabulary:
    def __init__(self, path):
        self.fields = read_metadata(path)
        self.pieces = self.get("tokens")
        self.kinds = self.get("token_type")
        self.name = self.fields.get("general.name", "")

    def get(self, key, otherwise=None):
        return self.fields.get("tokenizer.ggml." + key, otherwise)

    def added_tokens(self, normalized_users):
        """Control tokens and what users added; not what fills the matrix up."""
        unknown = self.get("unknown_token_id", 0 if self.get("model") == "llama" else None)
        phi3 = re.search("phi-?3", self.name, re.I) is not None
        tokens = []
        for index, (piece, kind) in enumerate(zip(self.pieces, self.kinds)):
            special = kind == 3 or (kind == 2 and index == unknown)
            if (not special and kind != 4) or re.fullmatch(r"\[PAD\d+\]", piece):
                continue
            tokens.append({
                "id": index, "content": piece, "single_word": False,
                "lstrip": self.get("model") == "t5" and piece == "<mask>",
                "rstrip": phi3 and piece not in ("<unk>", "<s>", "<|endoftext|>"),
                "normalized": normalized_users and not special, "special": special})
        return tokens


def merges_of_scores(pieces, scores, kinds):
    """As transformers derives them from a SentencePiece model."""
    ids = {piece: index for index, piece in enumerate(pieces) if kinds[index] in (1, 4, 5)}
    found = []
    for piece, index in ids.items():
        local = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))
                 if piece[:cut] in ids and piece[cut:] in ids]
        local.sort(key=lambda pair: (ids[pair[0]], ids[pair[1]]))
        found += [(scores[index], pair) for pair in local]
    found.sort(key=lambda item: -item[0])
    return [list(pair) for _, pair in found]


def bpe_model(vocabulary, merges, **options):
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
             "ignore_merges": False,
             "vocab": {piece: index for index, piece in enumerate(vocabulary.pieces)},
             "merges": merges}
    model.update(options)
    return model


def read_merges(vocabulary):
    merges = []
    for merge in vocabulary.get("merges"):
        cut = merge.index(" ", 1)
        merges.append([merge[:cut], merge[cut + 1:]])
    return merges


def build_byte_level(vocabulary, name):
    normalizer, pre_tokenizer, ignore_merges = BYTE_LEVEL[name]
    return {"added_tokens": vocabulary.added_tokens(True), "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer, "decoder": byte_level(),
            "model": bpe_model(vocabulary, read_merges(vocabulary), ignore_merges=ignore_merges)}


def build_marks(vocabulary):
    """SentencePiece's BPE: spaces as marks, unknown characters as bytes."""
    model = vocabulary.get("model")
    prefix = vocabulary.get("add_space_prefix", model == "llama")
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
    decoders = [{"type": "Replace", "pattern": {"String": MARK}, "content": " "},
                {"type": "ByteFallback"}, {"type": "Fuse"}]
    normalizer = replace
    if prefix:
        normalizer = sequence("normalizers", {"type": "Prepend", "prepend": MARK}, replace)
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    merges = (read_merges(vocabulary) if model == "gemma4" else
              merges_of_scores(vocabulary.pieces, vocabulary.get("scores"), vocabulary.kinds))
    unknown = vocabulary.pieces[vocabulary.get("unknown_token_id", 0)]
    return {"added_tokens": vocabulary.added_tokens(False), "normalizer": normalizer,
            "pre_tokenizer": None, "decoder": sequence("decoders", *decoders),
            "model": bpe_model(vocabulary, merges, unk_token=unknown, fuse_unk=True,
                               byte_fallback=True)}


def build_unigram(vocabulary):
    charsmap = bytes(value & 255 for value in vocabulary.get("precompiled_charsmap"))
    metaspace = {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always",
                 "split": True}
    return {"added_tokens": vocabulary.added_tokens(False),
            "normalizer": {"type": "Precompiled",
                           "precompiled_charsmap": base64.b64encode(charsmap).decode()},
            "pre_tokenizer": pre({"type": "WhitespaceSplit"}, metaspace), "decoder": metaspace,
            "model": {"type": "Unigram", "unk_id": vocabulary.get("unknown_token_id"),
                      "byte_fallback": False,
                      "vocab": [[piece, float(score)] for piece, score in
                                zip(vocabulary.pieces, vocabulary.get("scores"))]}}


def build_word_piece(vocabulary):
    def spelled(piece, kind):
        if kind != 1 or (piece.startswith("[") and piece.endswith("]") and len(piece) > 2):
            return piece
        return piece[len(MARK):] if piece.startswith(MARK) else "##" + piece

    pieces = [spelled(piece, kind) for piece, kind in zip(vocabulary.pieces, vocabulary.kinds)]
    return {"added_tokens": vocabulary.added_tokens(False),
            "normalizer": {"type": "BertNormalizer", "clean_text": True,
                           "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                      "max_input_chars_per_word": 100,
                      "vocab": {piece: index for index, piece in enumerate(pieces)}}}


def build(path, name):
    vocabulary = Vocabulary(path)
    model = vocabulary.get("model")
    if model == "gpt2":
        built = build_byte_level(vocabulary, name)
    elif model in ("llama", "gemma4"):
        built = build_marks(vocabulary)
    elif model == "t5":
        built = build_unigram(vocabulary)
    else:
        built = build_word_piece(vocabulary)
    return {"version": "1.0", "truncation": None, "padding": None, **built, "post_processor": None}


def main():
    models, out = sys.argv[1:3]
    os.makedirs(out, exist_ok=True)
    sources = {}
    for path in sorted(glob.glob(os.path.join(models, "ggml-vocab-*.gguf"))):
        sources[os.path.basename(path)[len("ggml-vocab-"):-len(".gguf")]] = path
    sources.update({name: sources["llama-bpe"] for name in ON_LLAMA_BPE})
    for name, path in sources.items():
        with open(os.path.join(out, name + ".json"), "w", encoding="utf-8") as file:
            json.dump(build(path, name), file, ensure_ascii=False)


main()
