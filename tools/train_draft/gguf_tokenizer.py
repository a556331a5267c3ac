"""The byte-level BPE tokenizer that a GGUF file holds, as one of the tokenizers library."""
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

CONTROL, OWN = 3, 4  # kinds of token that are found before text is split
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
# By what tokenizer.ggml.pre calls it: expressions that split text, one after the other.
SPLITS = {"smollm": [r"\p{N}", GPT2], "gpt-2": [GPT2], "default": [GPT2], "llama-bpe": [LLAMA3]}


def tokenizer_of(file):
    told = lambda key: file.metadata["tokenizer.ggml." + key]
    if told("model") != "gpt2" or told("pre") not in SPLITS:
        raise SystemExit(f"the tokenizer is {told('model')} with the splits of {told('pre')}; gpt2 with "
                         f"those of {', '.join(SPLITS)} is supported")
    tokens = told("tokens")
    made = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)},
                                [tuple(merge.split(" ")) for merge in told("merges")],
                                ignore_merges=told("pre") == "llama-bpe"))
    splits = [pre_tokenizers.Split(Regex(split), "isolated") for split in SPLITS[told("pre")]]
    made.pre_tokenizer = pre_tokenizers.Sequence(
        splits + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    made.add_special_tokens([AddedToken(token, special=True, normalized=False)
                             for token, kind in zip(tokens, told("token_type"))
                             if kind in (CONTROL, OWN)])
    return made
