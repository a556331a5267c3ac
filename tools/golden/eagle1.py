#!/usr/bin/env python3
"""Three heads of EAGLE's first form for the model of eagle3.py, in the files that SafeAILab publishes.

Usage: python tools/golden/eagle1.py      (needs tools/golden/requirements.txt, and what eagle3.py wrote)

The head is written here in plain PyTorch after the published form (SafeAILab/EAGLE, eagle/model/cnets1.py;
SGLang, python/sglang/srt/models/llama_eagle.py): for the token behind position i + 1 it reads what the
model's final norm gave at position i behind the embedding of token i + 1, both joined by one product;
its first layer has no norm before the attention, and what its last layer gives goes to the model's output
matrix without a norm, and is what it reads when it is applied again. One head learns the language of
mimo.py, so that a test sees it when the head is fed the wrong states; the other has random weights, two
layers, biases of queries, keys and values and an embedding of its own. The third, with random weights too, has
the norms that vLLM's research on HASS added to the form (speculators, research/hass/model/llama_eagle_full_grad.py):
of the embedding and of the states before they are joined, and of what goes to the output matrix, which the head
reads unnormed when it is applied again. Writes tests/golden/drafts/eagle1, eagle1_own and eagle1_norms;
tests/golden/README.md tells what is in there.
"""
import os
import shutil

import torch
import transformers
from safetensors.torch import save_file
from transformers.models.llama.modeling_llama import (LlamaAttention, LlamaMLP, LlamaRMSNorm,
                                                      LlamaRotaryEmbedding)

from eagle3 import DRAFTS, LEAST_LOST, LEAST_RIGHT, ROOT, SEED, randomize_head
from mimo import LENGTH, SEQUENCES, Language, fit
from model_cases import BASE, rope
from models import TOKENS, write_json


class Layer(torch.nn.Module):
    def __init__(self, config, index, bias, norm=False):
        super().__init__()
        if index > 0 or norm:
            self.input_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.self_attn = LlamaAttention(config, index)
        if bias:
            for name in ("q_proj", "k_proj", "v_proj"):
                rows, columns = getattr(self.self_attn, name).weight.shape
                setattr(self.self_attn, name, torch.nn.Linear(columns, rows, bias=True))
        self.post_attention_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.mlp = LlamaMLP(config)

    def forward(self, x, mask, angles):
        normed = self.input_layernorm(x) if hasattr(self, "input_layernorm") else x
        x = x + self.self_attn(normed, attention_mask=mask, position_embeddings=angles)[0]
        return x + self.mlp(self.post_attention_layernorm(x))


class Head(torch.nn.Module):
    def __init__(self, config, fc_bias, attention_bias, norms=()):
        """`norms`: of "embed", "hidden", "layer" and "lm_head" those that it adds to the form."""
        super().__init__()
        self.fc = torch.nn.Linear(2 * config.hidden_size, config.hidden_size, bias=fc_bias)
        for name in norms:
            if name != "layer":
                setattr(self, name + "_layernorm",
                        LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps))
        self.layers = torch.nn.ModuleList(
            [Layer(config, i, attention_bias, "layer" in norms) for i in range(config.num_hidden_layers)])
        self.angles = [LlamaRotaryEmbedding(config)]  # none of its parameters

    def forward(self, model, embedded, states):
        """`states` beside the embeddings of one token further; log-probs, and what it gives itself."""
        norm = lambda name, x: getattr(self, name + "_layernorm")(x) if hasattr(
            self, name + "_layernorm") else x
        joined = torch.cat([norm("embed", embedded), norm("hidden", states)], dim=-1)
        x, length = self.fc(joined), states.shape[1]
        mask = torch.full((length, length), float("-inf"), dtype=x.dtype).triu(1)[None, None]
        angles = self.angles[0](x, torch.arange(length)[None])
        for layer in self.layers:
            x = layer(x, mask, angles)
        return torch.log_softmax(model.lm_head(norm("lm_head", x)), dim=-1), x


def run_model(model, ids):
    """Log-probs, and hidden states behind the final norm."""
    states = model.model(input_ids=ids).last_hidden_state
    return torch.log_softmax(model.lm_head(states), dim=-1), states


def train_head(model, head, language):
    def loss():
        ids = language.write(SEQUENCES, LENGTH)
        with torch.no_grad():
            expected, states = run_model(model, ids)
        states, total = states[:, :-1], 0.0
        for behind in (1, 2):  # applied once, and once more to what it gave
            given, states = head(model, model.model.embed_tokens(ids[:, behind:]),
                                 states[:, :LENGTH - behind])
            total = total - (expected[:, behind:].exp() * given).sum(-1).mean()
            states = states[:, :-1]
        return total

    fit(head.parameters(), 500, loss)
    for parameter in head.parameters():
        parameter.data.copy_(parameter.data.bfloat16().float())


def share_right(model, head, language, shift=0):
    """Of first drafts; with states of a position `shift` further off."""
    ids = language.write(SEQUENCES, LENGTH)
    expected, states = run_model(model, ids)
    given, _ = head(model, model.model.embed_tokens(ids[:, 1:]), states.roll(shift, 1)[:, :-1])
    return (given.argmax(-1) == expected[:, 1:].argmax(-1))[:, 8:].float().mean().item()


def drafts_of(model, head, embedding, ids):
    """Log-probs of the head along the prompt, then of the drafts behind it; and the drafts."""
    expected, states = run_model(model, ids)
    drawn = expected[:, -1:].argmax(-1)
    joined, rows, drafts = torch.cat([ids[:, 1:], drawn], dim=1), [], []
    for number in range(DRAFTS):
        given, out = head(model, embedding(joined), states)
        rows.append(given[0] if number == 0 else given[0, -1:])
        drafts.append(given[0, -1].argmax().item())
        joined = torch.cat([joined, torch.tensor([[drafts[-1]]])], dim=1)
        states = torch.cat([states, out[:, -1:]], dim=1)
    return torch.cat(rows), drawn.item(), drafts


def write_head(name, class_name, config, model, head, embedding, ids, pickled=False):
    folder = os.path.join(ROOT, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    with torch.no_grad():
        rows, drawn, drafts = drafts_of(model, head, embedding, ids)
        for module in (head, model, embedding, head.angles[0]):
            module.double()
        exact = (drafts_of(model, head, embedding, ids)[0] - rows).abs().max().item()
        for module in (head, model, embedding, head.angles[0]):
            module.float()
    assert exact < 3e-5, exact
    tensors = {key: tensor.contiguous() for key, tensor in head.state_dict().items()}
    if embedding is not model.model.embed_tokens:
        tensors["embed_tokens.weight"] = embedding.weight.data
    if pickled:
        torch.save(tensors, os.path.join(folder, "pytorch_model.bin"))
    else:
        save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    write_json(folder, "config.json", {
        **{key: value for key, value in config.to_diff_dict().items() if key != "transformers_version"},
        "architectures": [class_name], "tie_word_embeddings": False})
    rows.numpy().astype("<f4").tofile(os.path.join(folder, "draft_logprobs.bin"))
    write_json(folder, "expected.json", {
        "prompt": ids[0].tolist(), "drawn": drawn, "drafts": drafts,
        "generator": f"transformers {transformers.__version__}, torch {torch.__version__}"})


def head_config(**options):
    config = transformers.LlamaConfig(**{**BASE, "num_hidden_layers": 1,
                                         "rope_parameters": rope("default"), **options})
    config._attn_implementation = "eager"
    return config


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)  # so that every run adds in the same order
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model = transformers.LlamaForCausalLM.from_pretrained(
        os.path.join(ROOT, "target"), attn_implementation="eager").float().eval()
    for parameter in model.parameters():
        parameter.requires_grad = False
    language = Language(model.config.vocab_size)
    generator = torch.Generator().manual_seed(SEED + 1000)
    ids = torch.randint(3, model.config.vocab_size, (1, TOKENS), generator=generator)
    learned = head_config(num_key_value_heads=1)
    head = Head(learned, fc_bias=True, attention_bias=False)
    randomize_head(head, SEED + 4)
    train_head(model, head, language)
    with torch.no_grad():
        right = share_right(model, head, language)
        off = share_right(model, head, language, 1)
    print(f"first drafts are right in {right:.2f} of all cases, with states of the position before in "
          f"{off:.2f}")
    assert right > LEAST_RIGHT and off < right - LEAST_LOST
    write_head("eagle1", "LlamaForCausalLM", learned, model, head, model.model.embed_tokens, ids)
    deep = head_config(num_hidden_layers=2)
    head = Head(deep, fc_bias=False, attention_bias=True)
    randomize_head(head, SEED + 5)
    head.fc.weight.data.mul_(0.25)  # no norm stands before the logits, which would be very large
    embedding = torch.nn.Embedding(deep.vocab_size, deep.hidden_size)
    embedding.weight.data.copy_(torch.randn(embedding.weight.shape, generator=generator))
    write_head("eagle1_own", "LlamaForCausalLMEagle", deep, model, head, embedding, ids, pickled=True)
    write_norms(model, ids)


def write_norms(model, ids):
    config = head_config(num_hidden_layers=1)
    head = Head(config, fc_bias=True, attention_bias=False, norms=("embed", "hidden", "lm_head"))
    randomize_head(head, SEED + 10)
    for parameter in head.parameters():
        parameter.data.copy_(parameter.data.bfloat16().float())
    write_head("eagle1_norms", "LlamaForCausalLM", config, model, head, model.model.embed_tokens, ids)


if __name__ == "__main__":
    main()
