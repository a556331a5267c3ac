"""Folders with tokenizers from before tokenizer.json, and the ids that the official programs give:
folder_tokenizers.py OUT (tests/golden/tokenizers). Needs sentencepiece, tiktoken and transformers.

Ids of SentencePiece models are those of the package sentencepiece, of *.tiktoken those of tiktoken,
of vocab.json and vocab.txt those of transformers.
"""
import base64
import json
import os
import shutil
import sys
import tempfile
import unicodedata

import sentencepiece
import tiktoken
import transformers
from tiny_tokenizer import byte_letters, vocabulary

TRAINED_ON = ["The quick brown fox jumps over the lazy dog.", "It was the best of times, it was the worst of times.",
              "In the beginning there was the word.", "She said that he had gone there before the others came.",
              "Words of one language are the same words everywhere they are read.", "Ein kleines Haus am Fluss.",
              "12 3 45 678 9012", "def main(): return the_answer"]
TEXTS = ["", " ", "  ", "\n", "The quick brown fox", " the  worst   of times ", "then there\nthe other", "the\tword",
         "unknown: ж 漢 😀 é e\u0301", "ﬁne １２", "12 345", "it's the_answer()", "The Café's naïve résumé", "don't STOP",
         "a" * 40, "the words of the languages everywhere", "\u2581the", "漢字 and words"]
SPECIAL_TEXTS = ["a<s>b</s> c", "<unk> the", "the <special> word", "<|endoftext|>the<|im_end|>", "[MASK] the [SEP]",
                 "the<extra_id_0> word<extra_id_9>"]
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
           r"|\s*[\r\n]+|\s+(?!\S)|\s+")
KIMI_PATTERN = "|".join([
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def write(folder, files):
    os.makedirs(folder, exist_ok=True)
    for name, content in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8", newline="\n") as file:
            file.write(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def expect(folder, cases):
    write(folder, {"expected.json": "[\n" + ",\n".join(json.dumps(case, ensure_ascii=True) for case in cases) + "\n]\n"})


def sentencepiece_folder(folder, name, prefix, suffix, config, files=(), **options):
    with tempfile.TemporaryDirectory() as scratch:
        rules = os.path.join(scratch, "rules.tsv")
        with open(rules, "w", encoding="utf-8") as file:
            # "ﬁ" to "fi", digits of full width, and white space to the space.
            file.write("FB01\t66 69\nFF11\t31\nFF12\t32\n9\t20\nA\t20\n")
        if options.pop("charsmap", False):
            options["normalization_rule_tsv"] = rules
        else:
            options["normalization_rule_name"] = "identity"
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(TRAINED_ON * 4), model_prefix=os.path.join(scratch, "m"), minloglevel=2,
            hard_vocab_limit=False, num_threads=1, **options)
        os.makedirs(folder, exist_ok=True)
        shutil.copy(os.path.join(scratch, "m.model"), os.path.join(folder, name))
    write(folder, {"tokenizer_config.json": config, **dict(files)})
    pieces = sentencepiece.SentencePieceProcessor(model_file=os.path.join(folder, name))
    cases = [{"text": text, "special": False, "ids": pieces.encode(text)} for text in TEXTS]
    cases += [{"text": text, "special": True, "ids": [*prefix, *pieces.encode(text), *suffix]} for text in TEXTS]
    expect(folder, cases)


def transformers_folder(folder, files, texts):
    write(folder, files)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    cases = [{"text": text, "special": special, "ids": tokenizer.encode(text, add_special_tokens=special)}
             for text in texts for special in (False, True)]
    expect(folder, cases)


def tiktoken_folder(folder, name, pattern, config, specials):
    """Ranks by the merges of the tiny tokenizer, as tiktoken has them: bytes first."""
    bytes_of = {letter: bytes([byte]) for byte, letter in byte_letters().items()}
    pieces, _ = vocabulary(340, True)
    ranks = {}
    for piece in pieces[3:]:
        if not piece.startswith("<unused"):
            ranks[b"".join(bytes_of[letter] for letter in piece)] = len(ranks)
    lines = "".join(f"{base64.b64encode(piece).decode()} {rank}\n" for piece, rank in ranks.items())
    write(folder, {name: lines, "tokenizer_config.json": config})
    special_ids = {text: len(ranks) + index for text, index in specials.items()}
    encoding = tiktoken.Encoding("tiny", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special_ids)
    cases = []
    for text in TEXTS + SPECIAL_TEXTS:
        if name != "tiktoken.model":
            text = unicodedata.normalize("NFC", text)  # as QWenTokenizer does
        cases.append({"text": text, "special": True, "ids": encoding.encode(text, allowed_special="all")})
    expect(folder, cases)


def main(out):
    bpe = dict(model_type="bpe", vocab_size=400, byte_fallback=True, character_coverage=0.99,
               remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True)
    sentencepiece_folder(os.path.join(out, "llama"), "tokenizer.model", [1], [],
                         {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False,
                          "bos_token": {"__type": "AddedToken", "content": "<s>"}, "eos_token": "</s>"}, **bpe)
    sentencepiece_folder(os.path.join(out, "gemma"), "tokenizer.model", [2], [],
                         {"tokenizer_class": "GemmaTokenizer"}, add_dummy_prefix=False, pad_id=0, eos_id=1, bos_id=2,
                         unk_id=3, user_defined_symbols=["<special>"], **bpe)
    sentencepiece_folder(os.path.join(out, "t5"), "spiece.model", [], [1],
                         {"tokenizer_class": "T5Tokenizer", "extra_ids": 10}, model_type="unigram", vocab_size=150,
                         pad_id=0, eos_id=1, unk_id=2, bos_id=-1, charsmap=True)
    sentencepiece_folder(os.path.join(out, "unigram_bytes"), "tokenizer.model", [1], [2],
                         {"tokenizer_class": "LlamaTokenizer", "add_eos_token": True}, model_type="unigram",
                         vocab_size=400, byte_fallback=True, character_coverage=0.99, remove_extra_whitespaces=False)
    pieces, merges = vocabulary(340, True)
    pieces = pieces[3:]
    words = {piece: index for index, piece in enumerate(pieces)}
    merge_text = "#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in merges)
    end = len(words)
    byte_level = {"vocab.json": words | {"<|endoftext|>": end}, "merges.txt": merge_text}
    transformers_folder(os.path.join(out, "gpt2"), byte_level | {"tokenizer_config.json": {"tokenizer_class": "GPT2Tokenizer"}},
                        TEXTS + SPECIAL_TEXTS)
    extra = {"<|endoftext|>": end, "<|im_start|>": end + 1, "<|im_end|>": end + 2}
    decoder = {str(index): {"content": text, "lstrip": False, "normalized": False, "rstrip": False,
                            "single_word": False, "special": True} for text, index in extra.items()}
    transformers_folder(os.path.join(out, "qwen2"),
                        {"vocab.json": words, "merges.txt": merge_text, "added_tokens.json": extra,
                         "special_tokens_map.json": {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
                                                     "additional_special_tokens": ["<|im_start|>", "<|im_end|>"]},
                         "tokenizer_config.json": {"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": decoder,
                                                   "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}},
                        TEXTS + SPECIAL_TEXTS)
    roberta = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3} | {piece: index + 4 for piece, index in words.items()}
    roberta["<mask>"] = len(roberta)
    transformers_folder(os.path.join(out, "roberta"),
                        {"vocab.json": roberta, "merges.txt": merge_text,
                         "tokenizer_config.json": {"tokenizer_class": "RobertaTokenizer"}}, TEXTS)
    letters = sorted(set("".join(TRAINED_ON).lower()) - {" "})
    bert = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *["##" + letter for letter in letters], "the", "word",
            "##s", "fox", "quick", "of", "time", "cafe", "naive", "Café", "漢"]
    bert = "".join(piece + "\n" for piece in dict.fromkeys(bert))
    transformers_folder(os.path.join(out, "bert"), {"vocab.txt": bert, "tokenizer_config.json": {
        "tokenizer_class": "BertTokenizer", "do_lower_case": True}}, TEXTS + SPECIAL_TEXTS)
    transformers_folder(os.path.join(out, "bert_cased"), {"vocab.txt": bert, "tokenizer_config.json": {
        "tokenizer_class": "BertTokenizer", "do_lower_case": False}}, TEXTS)
    qwen = {text: index for index, text in enumerate(
        ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *[f"<|extra_{i}|>" for i in range(205)]])}
    tiktoken_folder(os.path.join(out, "qwen"), "qwen.tiktoken", PATTERN, {"tokenizer_class": "QWenTokenizer"}, qwen)
    count = sum(not piece.startswith("<unused") for piece in pieces)
    kimi = {"[BOS]": 0, "[EOS]": 1, "<|im_end|>": 2}
    tiktoken_folder(os.path.join(out, "kimi"), "tiktoken.model", KIMI_PATTERN,
                    {"tokenizer_class": "TikTokenTokenizer", "bos_token": "[BOS]", "eos_token": "[EOS]",
                     "added_tokens_decoder": {str(count + index): {"content": text, "special": True}
                                              for text, index in kimi.items()}}, kimi)


main(sys.argv[1])
