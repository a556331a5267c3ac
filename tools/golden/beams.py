#!/usr/bin/env python3
"""Beam searches over the tiny checkpoints of tests/golden/models, as transformers' generate gives them.

Usage: python tools/golden/beams.py      (needs tools/golden/requirements.txt)

Writes tests/golden/beams.json; tests/golden/README.md tells what is in there. Searches whose width changes
from step to step, which transformers has none of, come from `search` below; it is checked to give what
generate does where the width stays. Searches whose answers are held to a regular expression are generate's
with prefix_allowed_tokens_fn, which takes tokens out behind the log-softmax: the log-probs of the others stay
as they are.
"""
import functools
import json
import os

import regex
import tokenizers
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "../../tests/golden/models")
TARGET = os.path.join(HERE, "../../tests/golden/beams.json")
EOS = 2


def rows_of(model, sequences):
    """Log-probs behind each of `sequences`, by a forward pass over the whole of it."""
    with torch.no_grad():
        return [torch.log_softmax(model(torch.tensor([ids])).logits[0, -1].double(), -1) for ids in sequences]


class Held:
    """What answers to a model's prompts are held to: a regular expression of ASCII alone."""

    def __init__(self, folder, pattern):
        self.pattern = regex.compile(pattern)
        tokenizer = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        # The tokens' own characters stand for bytes; of those of ASCII, all but the space stand for themselves.
        pieces = [tokenizer.id_to_token(id).replace("\u0120", " ") for id in range(tokenizer.get_vocab_size())]
        self.pieces = {id: piece for id, piece in enumerate(pieces) if piece.isascii() and piece[0] != "<"}
        self.allowed = functools.lru_cache(maxsize=None)(self._allowed)

    def _allowed(self, tokens):
        """What may stand behind these: any tokens that spell the beginning of a match, and the end of one."""
        text = "".join(self.pieces[token] for token in tokens)
        fits = [id for id, piece in self.pieces.items()
                if self.pattern.fullmatch(text + piece, partial=True)]
        return fits + [EOS] if self.pattern.fullmatch(text) else fits

    def behind(self, prompt):
        """The prefix_allowed_tokens_fn of a prompt. What stands behind an end is nobody's business, nor is what a
        beam of no probability has become, which transformers goes on with where too few tokens are allowed."""
        def allowed(_, ids):
            tokens = tuple(ids.tolist()[len(prompt):])
            known = all(token in self.pieces for token in tokens)
            return (self.allowed(tokens) if known else []) or [EOS]
        return allowed


def search(model, prompt, widths, max_tokens, ends, length_penalty=1.0, early_stopping=False, min_tokens=0,
           held=None):
    """The search by its definition. Returns the answers, best first: (score, tokens)."""
    kept = max(widths)
    beams, answers = [(0.0, [])], []
    for length in range(1, max_tokens + 1):
        last = length == max_tokens
        width = kept if last else widths[min(length - 1, len(widths) - 1)]
        rows = rows_of(model, [prompt + tokens for _, tokens in beams])
        candidates = [(total + logprob, tokens + [token]) for (total, tokens), row in zip(beams, rows)
                      for token, logprob in enumerate(row.tolist())
                      if not (token in ends and length <= min_tokens)
                      and (held is None or token in held.allowed(tuple(tokens)))]
        candidates.sort(key=lambda candidate: -candidate[0])
        for total, tokens in candidates[:width]:
            if last or tokens[-1] in ends:
                answers.append((total / length ** length_penalty, tokens))
        answers = sorted(answers, key=lambda answer: -answer[0])[:kept]
        beams = [c for c in candidates if c[1][-1] not in ends][:width]
        if not beams:
            break
        if len(answers) == kept:
            reach = max_tokens if early_stopping == "never" and length_penalty > 0 else length
            if early_stopping is True or beams[0][0] / reach ** length_penalty <= answers[-1][0]:
                break
    return answers


def generate(model, prompt, width, max_tokens, ends, length_penalty=1.0, early_stopping=False, min_tokens=0,
             held=None):
    """The same by transformers. Where fewer answers fit than there are beams, it fills up with what has no
    probability (-1e9 or less), which is left out."""
    ids = torch.tensor([prompt])
    options = dict(num_beams=width, num_return_sequences=width, early_stopping=early_stopping,
                   length_penalty=length_penalty) if width > 1 else {}
    with torch.no_grad():
        out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False,
                             max_new_tokens=max_tokens, min_new_tokens=min_tokens or None,
                             eos_token_id=ends or None, pad_token_id=0, return_dict_in_generate=True,
                             prefix_allowed_tokens_fn=held and held.behind(prompt),
                             output_scores=True, **options)
    answers = []
    for row in out.sequences.tolist():
        tokens = []
        for token in row[len(prompt):]:
            tokens.append(token)
            if token in ends:
                break
        answers.append(tokens)
    if width > 1:
        scores = out.sequences_scores.tolist()
    else:
        scores = [out_score(model, prompt, answers[0], length_penalty)]
    return [(score, tokens) for score, tokens in zip(scores, answers) if score > -1e6]


def out_score(model, prompt, tokens, length_penalty):
    total = sum(rows_of(model, [prompt + tokens[:i]])[0][token].item() for i, token in enumerate(tokens))
    return total / len(tokens) ** length_penalty


def same(left, right):
    return (len(left) == len(right) and all(a[1] == b[1] and abs(a[0] - b[0]) < 1e-4 for a, b in zip(left, right)))


def frequent_ends(model, prompt):
    """Three ids that some beams draw and others do not, so that answers end at different lengths."""
    drawn = [token for _, tokens in search(model, prompt, [8], 8, []) for token in tokens[2:]]
    ranked = sorted(set(drawn), key=lambda token: (drawn.count(token), token))
    return ranked[:3]


def prompts_of(model, seed, count):
    generator = torch.Generator().manual_seed(seed)
    vocab = model.config.vocab_size
    for _ in range(count):
        length = int(torch.randint(5, 30, (1,), generator=generator))
        yield [1] + torch.randint(3, vocab, (length,), generator=generator).tolist()


# Each leaves open what may follow at every place, so that all ways to spell a text are allowed there: the engine
# takes the tokenizer's own where one text alone may follow.
PATTERNS = [
    "[a-z]+( [a-z]+)*",
    "-?[0-9]{1,4}(\\.[0-9]{1,2})?",
    "[a-f0-9]{5}",  # behind which there is nothing but the end
    "(he|in|an|on)+[.!]",
    "\\{\"[a-e]\":[0-9]{1,3}(,\"[a-e]\":[0-9]{1,3})*\\}",
    "he|hen|in|inn|an|and|on|one",
    "[ab]c?",  # four answers
]


def held_cases(name, model, exact, add):
    folder = os.path.join(MODELS, name)
    for prompt in prompts_of(model, 77, 1):
        for pattern in PATTERNS:
            held = Held(folder, pattern)
            for width in range(1, 9):
                add(prompt, [width], 12, [EOS], held=held)
        held = Held(folder, PATTERNS[0])
        for penalty in (0.0, 2.0, -1.0):
            for stopping in (False, True, "never"):
                add(prompt, [4], 10, [EOS], length_penalty=penalty, early_stopping=stopping, held=held)
        add(prompt, [3], 10, [EOS], min_tokens=4, held=held)
        add(prompt, [3], 1, [EOS], held=held)
        for widths in ([1, 2, 4, 8], [8, 4, 2, 1], [2, 5, 3]):
            add(prompt, widths, 9, [EOS], held=held)


def make_cases(name, model, exact, seed):
    """`exact`: the model in double precision; what it does not confirm is too near a tie to be a test."""
    cases = []

    def add(prompt, widths, max_tokens, ends, **options):
        answers = search(exact, prompt, widths, max_tokens, ends, **options)
        if len(set(widths)) == 1:
            given = generate(model, prompt, widths[0], max_tokens, ends, **options)
            if not same(answers, given):
                return False
            answers = given
        elif not same(answers, search(model, prompt, widths, max_tokens, ends, **options)):
            return False
        held = options.pop("held", None)
        if held is not None:
            options["regex"] = held.pattern.pattern
        cases.append({"model": name, "prompt": prompt, "widths": widths, "max_tokens": max_tokens, "ends": ends,
                      **options, "answers": [tokens for _, tokens in answers],
                      "scores": [round(score, 6) for score, _ in answers]})
        return True

    for prompt in prompts_of(model, seed, 2):
        ends = frequent_ends(exact, prompt)
        for width in range(1, 9):
            add(prompt, [width], 12, [])
            add(prompt, [width], 12, ends[:1 + width % 3])
        if not any("min_tokens" in case for case in cases):
            for penalty in (0.0, 2.0, -1.0):
                for stopping in (False, True, "never"):
                    add(prompt, [4], 12, ends, length_penalty=penalty, early_stopping=stopping)
            add(prompt, [3], 10, ends, min_tokens=4)
            add(prompt, [3], 1, ends)
        for widths in ([1, 2, 4, 8], [8, 4, 2, 1], [2, 5, 3]):
            add(prompt, widths, 9, ends)
    # Prompts behind which the model's own end is among the likeliest answers.
    found = 0
    for prompt in prompts_of(model, seed + 1000, 200):
        answers = search(exact, prompt, [4], 8, [EOS])
        if sum(EOS in tokens for _, tokens in answers) in (1, 2, 3) and add(prompt, [4], 8, [EOS]):
            found += 1
        if found == 2:
            break
    held_cases(name, model, exact, add)
    return cases


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    cases = []
    for seed, name in enumerate(["llama", "qwen3", "mistral", "gemma2"]):
        folder = os.path.join(MODELS, name)
        load = transformers.AutoModelForCausalLM.from_pretrained
        model = load(folder, dtype=torch.float32, attn_implementation="eager").eval()
        exact = load(folder, dtype=torch.float64, attn_implementation="eager").eval()
        model.generation_config.eos_token_id = None
        more = make_cases(name, model, exact, seed)
        lengths = {len(tokens) for case in more for tokens in case["answers"]}
        own = sum(case["ends"] == [EOS] for case in more)
        held = sum("regex" in case for case in more)
        print(f"{name}: {len(more)} searches, {own} with the model's end, {held} held to a regular expression, "
              f"answers of {sorted(lengths)} tokens", flush=True)
        cases += more
    with open(TARGET, "w") as file:
        json.dump({"generator": f"transformers {transformers.__version__}, torch {torch.__version__}",
                   "cases": cases}, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
