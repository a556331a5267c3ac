#!/usr/bin/env python3
"""Two heads of DFlash's form for the model of eagle3.py, which give a block of drafts in one pass.

Usage: python tools/golden/dflash.py      (needs tools/golden/requirements.txt, and what eagle3.py wrote)

The head is written here in plain PyTorch after the published form (block diffusion, arXiv
2602.06036; z-lab/dflash, dflash/model.py; vLLM, vllm/model_executor/models/qwen3_dflash.py). A block is the
token that was drawn last and mask tokens behind it, each of which guesses the token of its own place. Its
layers are Qwen3's, and every token of the block sees all others of it. What stands before the block the
layers see as K and V of what some layers of the model gave, brought to the head's width by one product and
normed. Embedding and output matrix are the model's. One head learns the language of mimo.py, so that a
test sees it when a place is fed the wrong states; the other has random weights, one layer, and does not
say which layers it reads. Writes tests/golden/drafts/dflash and dflash_own; tests/golden/README.md tells what
is in there.
"""
import os
import shutil

import torch
import transformers
from safetensors.torch import save_file
from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP, Qwen3RMSNorm

from eagle3 import LEAST_LOST, LEAST_RIGHT, ROOT, SEED, randomize_head
from mimo import LENGTH, SEQUENCES, Language, fit
from models import BASE, TOKENS, rope, write_json

MASK = 1  # no token of the language
DRAFTS = 8  # of the blocks that are learned
WRITTEN = 4  # of those that are written
LAYERS = [0, 2, 3]  # whose outputs the learned head reads
LEAST_RIGHT_BEHIND = 0.2  # of second drafts; chance would be one in 125


def rotated(x, positions, theta):
    """[sequences, heads, tokens, width], the two halves of a head as pairs."""
    half = x.shape[-1] // 2
    speeds = theta ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = (positions.to(torch.float64)[:, None] * speeds).to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class Layer(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        norm = lambda width: Qwen3RMSNorm(width, eps=config.rms_norm_eps)
        linear = lambda columns, rows: torch.nn.Linear(columns, rows, bias=False)
        self.sizes = (config.num_attention_heads, config.num_key_value_heads, config.head_dim)
        heads, kv_heads, width = self.sizes
        self.theta = config.rope_parameters["rope_theta"]
        self.input_layernorm, self.post_attention_layernorm = norm(config.hidden_size), norm(config.hidden_size)
        self.self_attn = torch.nn.Module()
        self.self_attn.q_proj = linear(config.hidden_size, heads * width)
        self.self_attn.k_proj = linear(config.hidden_size, kv_heads * width)
        self.self_attn.v_proj = linear(config.hidden_size, kv_heads * width)
        self.self_attn.o_proj = linear(heads * width, config.hidden_size)
        self.self_attn.q_norm, self.self_attn.k_norm = norm(width), norm(width)
        self.mlp = Qwen3MLP(config)

    def forward(self, x, before):
        """`before`: the normed states of all positions before the block."""
        heads, kv_heads, width = self.sizes
        attention, read = self.self_attn, self.input_layernorm(x)
        seen = torch.cat([before, read], dim=1)
        place = torch.arange(seen.shape[1])
        split = lambda y, count: y.view(*y.shape[:2], count, width).transpose(1, 2)
        q = attention.q_norm(split(attention.q_proj(read), heads))
        k = attention.k_norm(split(attention.k_proj(seen), kv_heads))
        v = split(attention.v_proj(seen), kv_heads)
        q, k = rotated(q, place[before.shape[1]:], self.theta), rotated(k, place, self.theta)
        k, v = (y.repeat_interleave(heads // kv_heads, dim=1) for y in (k, v))
        scores = q @ k.transpose(2, 3) / width ** 0.5
        mixed = (torch.softmax(scores, dim=-1) @ v).transpose(1, 2).flatten(2)
        x = x + attention.o_proj(mixed)
        return x + self.mlp(self.post_attention_layernorm(x))


class Head(torch.nn.Module):
    def __init__(self, config, layers_read, width):
        """`width`: of the model's hidden states."""
        super().__init__()
        self.fc = torch.nn.Linear(layers_read * width, config.hidden_size, bias=False)
        self.hidden_norm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.layers = torch.nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, model, first, hidden, drafts):
        """Log-probs of the drafts behind the tokens `first`, which stand behind the positions of `hidden`."""
        before = self.hidden_norm(self.fc(hidden))
        masks = torch.full((first.shape[0], drafts), MASK)
        x = model.model.embed_tokens(torch.cat([first[:, None], masks], dim=1))
        for layer in self.layers:
            x = layer(x, before)
        return torch.log_softmax(model.lm_head(self.norm(x[:, 1:])), dim=-1)


def run_model(model, ids, layers):
    """Log-probs, and the outputs of these layers side by side."""
    kept = {}
    hooks = [model.model.layers[i].register_forward_hook(
        lambda module, args, out, i=i: kept.__setitem__(i, out[0] if isinstance(out, tuple) else out))
        for i in layers]
    expected = torch.log_softmax(model(input_ids=ids).logits, dim=-1)
    for hook in hooks:
        hook.remove()
    return expected, torch.cat([kept[i] for i in layers], dim=-1)


def train_head(model, head, language):
    def loss():
        draw = lambda low, high: int(torch.randint(low, high, (1,), generator=language.generator))
        drafts = draw(1, DRAFTS + 1)
        before = draw(4, LENGTH - drafts)
        ids = language.write(SEQUENCES, before + 1 + drafts)
        with torch.no_grad():
            expected, hidden = run_model(model, ids, LAYERS)
        given = head(model, ids[:, before], hidden[:, :before], drafts)
        return -(expected[:, before:before + drafts].exp() * given).sum(-1).mean()

    fit(head.parameters(), 1500, loss)
    for parameter in head.parameters():
        parameter.data.copy_(parameter.data.bfloat16().float())


def shares_right(model, head, language, shift=0):
    """By number of a draft; with states of a position `shift` further off."""
    before = LENGTH - DRAFTS - 1
    ids = language.write(4 * SEQUENCES, LENGTH)
    expected, hidden = run_model(model, ids, LAYERS)
    given = head(model, ids[:, before], hidden.roll(shift, 1)[:, :before], WRITTEN)
    right = given.argmax(-1) == expected[:, before:before + WRITTEN].argmax(-1)
    return right.float().mean(0).tolist()


def blocks_of(model, head, layers, ids, lengths):
    """Log-probs of the blocks behind so many tokens of the prompt; what is drawn behind all of it."""
    expected, hidden = run_model(model, ids, layers)
    drawn = expected[:, -1].argmax(-1)
    first = torch.cat([ids, drawn[:, None]], dim=1)
    rows = [head(model, first[:, n], hidden[:, :n], WRITTEN)[0] for n in lengths]
    return torch.stack(rows), drawn.item()


def write_head(name, config, model, head, layers, said, ids):
    folder = os.path.join(ROOT, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    lengths = list(range(1, ids.shape[1], 7)) + [ids.shape[1]]
    with torch.no_grad():
        rows, drawn = blocks_of(model, head, layers, ids, lengths)
        for module in (head, model):
            module.double()
        exact = (blocks_of(model, head, layers, ids, lengths)[0] - rows).abs().max().item()
        for module in (head, model):
            module.float()
    assert exact < 3e-5, exact
    tensors = {key: tensor.contiguous() for key, tensor in head.state_dict().items()}
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    write_json(folder, "config.json", {
        **{key: value for key, value in config.to_diff_dict().items() if key != "transformers_version"},
        "architectures": ["DFlashDraftModel"], "model_type": "qwen3", "tie_word_embeddings": False,
        "num_target_layers": model.config.num_hidden_layers, **said})
    rows.numpy().astype("<f4").tofile(os.path.join(folder, "draft_logprobs.bin"))
    write_json(folder, "expected.json", {
        "prompt": ids[0].tolist(), "drawn": drawn, "lengths": lengths,
        "drafts": rows[-1].argmax(-1).tolist(),
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
    language = Language(model.config.vocab_size)
    language.generator.manual_seed(SEED + 7000)
    generator = torch.Generator().manual_seed(SEED + 8000)
    ids = torch.randint(3, model.config.vocab_size, (1, TOKENS), generator=generator)
    width = model.config.hidden_size

    def head_config(**options):
        made = transformers.Qwen3Config(**{**BASE, "rope_parameters": rope("default"), **options})
        made._attn_implementation = "eager"
        return made

    learned = head_config(num_hidden_layers=2, num_key_value_heads=1, head_dim=16)
    head = Head(learned, len(LAYERS), width)
    randomize_head(head, SEED + 9)
    train_head(model, head, language)
    with torch.no_grad():
        right, off = shares_right(model, head, language), shares_right(model, head, language, 1)
    print("drafts are right in", [round(share, 2) for share in right], "of all cases, with states of "
          "the position before in", [round(share, 2) for share in off])
    assert right[0] > LEAST_RIGHT and off[0] < right[0] - LEAST_LOST
    assert right[1] > LEAST_RIGHT_BEHIND
    write_head("dflash", learned, model, head, LAYERS,
               {"block_size": DRAFTS + 1, "dflash_config": {"mask_token_id": MASK, "target_layer_ids": LAYERS}},
               ids)
    random = head_config(num_hidden_layers=1, head_dim=16)
    head = Head(random, 1, width)
    randomize_head(head, SEED + 10)
    write_head("dflash_own", random, model, head, [model.config.num_hidden_layers // 2],
               {"mask_token_id": MASK, "dflash_config": {"block_size": 12}}, ids)


if __name__ == "__main__":
    main()
