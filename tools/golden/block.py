#!/usr/bin/env python3
"""Two heads of parallel EAGLE's form for the model of eagle3.py, which give a block of drafts in one pass.

Usage: python tools/golden/block.py      (needs tools/golden/requirements.txt, and what eagle3.py wrote)

The head is written here in plain PyTorch after the published form (P-EAGLE, arXiv 2602.01469; vLLM,
vllm/model_executor/models/llama_eagle3.py and the parallel drafting of vllm/v1/spec_decode). It is
EAGLE-3's, in one layer or more, of which the first alone reads the embedding. Behind the last token that is known
there stand mask tokens, whose hidden states are a learned vector, mask_hidden, brought to the head's
width by the product that brings the model's; each guesses the token behind its own place. One head
learns the language of mimo.py, so that a test sees it when a place is fed the wrong states; it has two
layers, a vocabulary cut short and the model's embedding. The other has random weights, one layer, a
width and an embedding of its own, and the whole vocabulary. Writes tests/golden/drafts/block and
block_own; tests/golden/README.md tells what is in there.
"""
import os
import shutil

import torch
import transformers
from safetensors.torch import save_file
from transformers.models.llama.modeling_llama import (LlamaDecoderLayer, LlamaRMSNorm,
                                                      LlamaRotaryEmbedding)

from eagle3 import (DRAFTS, LAYERS, LEAST_LOST, LEAST_RIGHT, PRUNED, ROOT, SEED, MidLayer,
                    randomize_head, run_model)
from mimo import LENGTH, SEQUENCES, Language, fit
from model_cases import BASE, rope
from models import TOKENS, write_json

MASK = 1  # no token of the language
LEAST_RIGHT_BEHIND = 0.2  # of second drafts; chance would be one in 125


class Head(torch.nn.Module):
    def __init__(self, config, width):
        """`width`: of the model's hidden states."""
        super().__init__()
        self.fc = torch.nn.Linear(len(LAYERS) * width, config.hidden_size, bias=False)
        self.layers = torch.nn.ModuleList([MidLayer(config)])
        for index in range(1, config.num_hidden_layers):
            self.layers.append(LlamaDecoderLayer(config, index))
        self.norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.lm_head = torch.nn.Linear(config.hidden_size, config.draft_vocab_size, bias=False)
        self.mask_hidden = torch.nn.Parameter(torch.zeros(1, 1, len(LAYERS) * width))
        self.angles = [LlamaRotaryEmbedding(config)]  # none of its parameters

    def forward(self, embedding, ids, hidden):
        """Log-probs of the places of `ids`, each one token further than what the model gave in
        `hidden`, then of DRAFTS - 1 mask tokens behind them."""
        count = (ids.shape[0], DRAFTS - 1)
        ids = torch.cat([ids, torch.full(count, MASK)], dim=1)
        states = self.fc(torch.cat([hidden, self.mask_hidden.expand(*count, -1)], dim=1))
        length, first = ids.shape[1], self.layers[0]
        mask = torch.full((length, length), float("-inf"), dtype=states.dtype).triu(1)[None, None]
        angles = self.angles[0](states, torch.arange(length)[None])
        joined = torch.cat([first.input_layernorm(embedding(ids)), first.hidden_norm(states)], dim=-1)
        x = states + first.self_attn(joined, attention_mask=mask, position_embeddings=angles)[0]
        x = x + first.mlp(first.post_attention_layernorm(x))
        for layer in self.layers[1:]:
            x = layer(x, attention_mask=mask, position_embeddings=angles)
            x = x[0] if isinstance(x, tuple) else x
        return torch.log_softmax(self.lm_head(self.norm(x)), dim=-1)


def train_head(model, head, kept, language):
    def loss():
        length = int(torch.randint(6, LENGTH - DRAFTS, (1,), generator=language.generator))
        ids = language.write(SEQUENCES, length + DRAFTS)
        with torch.no_grad():
            expected, hidden = run_model(model, ids)
        given = head(model.model.embed_tokens, ids[:, 1:length + 1], hidden[:, :length])
        wanted = expected[:, 1:length + DRAFTS, kept]
        each = -(wanted.exp() * given).sum(-1).mean(0)
        return each[:length].mean() + each[length:].sum() / DRAFTS

    fit(head.parameters(), 1200, loss)
    for parameter in head.parameters():
        parameter.data.copy_(parameter.data.bfloat16().float())


def shares_right(model, head, kept, language, shift=0):
    """By number of a draft; with states of a position `shift` further off."""
    length = LENGTH - DRAFTS
    ids = language.write(4 * SEQUENCES, LENGTH)
    expected, hidden = run_model(model, ids)
    given = head(model.model.embed_tokens, ids[:, 1:length + 1], hidden.roll(shift, 1)[:, :length])
    right = kept[given.argmax(-1)] == expected[:, 1:length + DRAFTS].argmax(-1)
    return right[:, length - 1:].float().mean(0).tolist()


def drafts_of(model, head, embedding, kept, ids):
    """Log-probs of the head along the prompt, then of the block behind it; and the drafts."""
    expected, hidden = run_model(model, ids)
    drawn = expected[:, -1:].argmax(-1)
    rows = head(embedding, torch.cat([ids[:, 1:], drawn], dim=1), hidden)[0]
    return rows, drawn.item(), kept[rows[-DRAFTS:].argmax(-1)].tolist()


def write_head(name, config, model, head, embedding, kept, ids):
    folder = os.path.join(ROOT, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    with torch.no_grad():
        rows, drawn, drafts = drafts_of(model, head, embedding, kept, ids)
        modules = (head, model, embedding, head.angles[0])
        for module in modules:
            module.double()
        exact = (drafts_of(model, head, embedding, kept, ids)[0] - rows).abs().max().item()
        for module in modules:
            module.float()
    assert exact < 3e-5, exact
    tensors = {key: tensor.contiguous() for key, tensor in head.state_dict().items()}
    if embedding is not model.model.embed_tokens:
        tensors["embed_tokens.weight"] = embedding.weight.data
    if len(kept) < config.vocab_size:
        tensors["d2t"] = kept - torch.arange(len(kept))
        tensors["t2d"] = torch.isin(torch.arange(config.vocab_size), kept)
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    write_json(folder, "config.json", {
        **{key: value for key, value in config.to_diff_dict().items() if key != "transformers_version"},
        "architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": len(kept),
        "target_hidden_size": model.config.hidden_size, "tie_word_embeddings": False,
        "parallel_drafting": True, "ptd_token_id": MASK,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": LAYERS, "use_aux_hidden_state": True}})
    rows.numpy().astype("<f4").tofile(os.path.join(folder, "draft_logprobs.bin"))
    write_json(folder, "expected.json", {
        "prompt": ids[0].tolist(), "drawn": drawn, "drafts": drafts,
        "generator": f"transformers {transformers.__version__}, torch {torch.__version__}"})


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)  # so that every run adds in the same order
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model = transformers.LlamaForCausalLM.from_pretrained(
        os.path.join(ROOT, "target"), dtype=torch.float32, attn_implementation="eager").eval()
    for parameter in model.parameters():
        parameter.requires_grad = False
    vocab = model.config.vocab_size
    language = Language(vocab)
    language.generator.manual_seed(SEED + 3000)
    generator = torch.Generator().manual_seed(SEED + 4000)
    ids = torch.randint(3, vocab, (1, TOKENS), generator=generator)
    every = torch.arange(vocab)

    def head_config(**options):
        made = transformers.LlamaConfig(**{**BASE, "rope_parameters": rope("default"), **options})
        made._attn_implementation = "eager"
        return made

    kept = every[every % PRUNED != 5]
    learned = head_config(num_hidden_layers=2, num_key_value_heads=1, draft_vocab_size=len(kept))
    head = Head(learned, model.config.hidden_size)
    randomize_head(head, SEED + 5)
    train_head(model, head, kept, language)
    with torch.no_grad():
        right = shares_right(model, head, kept, language)
        off = shares_right(model, head, kept, language, 1)
    print("drafts are right in", [round(share, 2) for share in right], "of all cases, with states of "
          "the position before in", [round(share, 2) for share in off])
    assert right[0] > LEAST_RIGHT and off[0] < right[0] - LEAST_LOST
    assert right[1] > LEAST_RIGHT_BEHIND
    write_head("block", learned, model, head, model.model.embed_tokens, kept, ids)
    wide = head_config(num_hidden_layers=1, hidden_size=96, head_dim=16, draft_vocab_size=vocab)
    head = Head(wide, model.config.hidden_size)
    randomize_head(head, SEED + 6)
    embedding = torch.nn.Embedding(vocab, wide.hidden_size)
    embedding.weight.data.copy_(torch.randn(embedding.weight.shape, generator=generator))
    write_head("block_own", wide, model, head, embedding, every, ids)


if __name__ == "__main__":
    main()
