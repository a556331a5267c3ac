#!/usr/bin/env python3
"""A tiny checkpoint of MiMo's form, with a head that has learned to predict what the model draws.

Usage: python tools/golden/mimo.py      (needs tools/golden/requirements.txt)

transformers has no MiMo: the model is its Qwen2, and the head is written here after the published
form (XiaomiMiMo's branch of vLLM, vllm/model_executor/models/mimo_mtp.py). For the token behind position
i + 1 it reads the hidden state of position i before the final norm beside the embedding of token i + 1;
applied again it reads what it gave itself, after its own final norm. Model and head learn a small
language of random rules for some minutes, so that a test sees it when the head is fed the wrong
states. Writes tests/golden/models/mimo/; tests/golden/README.md tells what is in there.
"""
import os
import shutil

import torch
import transformers
from safetensors.torch import save_file
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer, Qwen2RMSNorm

from model_cases import BASE, rope
from models import (ROOT, TOKENS, check_decode, check_float64, log_probs, randomize, read_json,
                    write_json)
from tiny_tokenizer import write_tokenizer
from transformers4 import config_of_transformers4

SEED = 40
DRAFTS = 4  # that the head gives behind the prompt
SEQUENCES, LENGTH = 64, 24  # of a step of training
GROUPS = 4
LEAST_RIGHT = 0.7  # of the first drafts


class Head(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        norm = lambda: Qwen2RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.token_layernorm, self.hidden_layernorm, self.final_layernorm = norm(), norm(), norm()
        self.input_proj = torch.nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        self.block = Qwen2DecoderLayer(config, 0)

    def forward(self, model, embedded, hidden):
        """Rows of `hidden` beside those of `embedded`, which are one token further."""
        joined = torch.cat([self.hidden_layernorm(hidden), self.token_layernorm(embedded)], dim=-1)
        x = self.input_proj(joined)
        length = x.shape[1]
        mask = torch.full((length, length), float("-inf"), dtype=x.dtype).triu(1)[None, None]
        angles = model.model.rotary_emb(x, torch.arange(length)[None])
        x = self.block(x, attention_mask=mask, position_embeddings=angles)
        return self.final_layernorm(x)


def randomize_head(head):
    generator = torch.Generator().manual_seed(SEED + 2)
    for name, parameter in head.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if "norm" in name:
            parameter.data.copy_(1.0 + 0.25 * noise)
        else:
            parameter.data.copy_(0.3 * noise if name.endswith("bias") else 0.125 * noise)


def run_model(model, ids):
    """Log-probs and hidden states before the final norm."""
    kept = []
    hook = model.model.norm.register_forward_pre_hook(lambda _, args: kept.append(args[0]))
    expected = torch.log_softmax(model(input_ids=ids).logits, dim=-1)
    hook.remove()
    return expected, kept[0]


def run_head(model, head, ids, hidden):
    """Log-probs for the tokens behind `ids`, which follow the positions of `hidden`; what it gave."""
    out = head(model, model.model.embed_tokens(ids), hidden)
    return torch.log_softmax(model.lm_head(out), dim=-1), out


class Language:
    """Each token is the one before it, renamed in a way that the group of the token before that decides."""

    def __init__(self, vocab):
        generator = torch.Generator().manual_seed(SEED)
        self.generator = generator
        self.tokens = vocab - 3
        self.renamed = torch.stack([torch.randperm(self.tokens, generator=generator)
                                    for _ in range(GROUPS)])

    def write(self, sequences, length):
        """Some tokens break the rule, so that nothing can be known by heart."""
        random = torch.randint(self.tokens, (sequences, length), generator=self.generator)
        breaks = torch.rand((sequences, length), generator=self.generator) < 0.1
        ids = random.clone()
        for at in range(2, length):
            ruled = self.renamed[ids[:, at - 2] % GROUPS, ids[:, at - 1]]
            ids[:, at] = torch.where(breaks[:, at], random[:, at], ruled)
        return ids + 3


def fit(parameters, steps, loss_of):
    optimizer = torch.optim.AdamW(parameters, lr=3e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, 1e-4)
    for at in range(steps):
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if at % 200 == 0:
            print(f"step {at} of {steps}: loss {loss.item():.3f}", flush=True)


def train(model, head, language):
    """The model learns the language, then the head what the model has learned."""
    def loss_of_model():
        ids = language.write(SEQUENCES, LENGTH)
        return torch.nn.functional.cross_entropy(model(input_ids=ids).logits[:, 1:-1].flatten(0, 1),
                                                 ids[:, 2:].flatten())

    def loss_of_head():
        ids = language.write(SEQUENCES, LENGTH)
        with torch.no_grad():
            expected, hidden = run_model(model, ids)
        loss = 0.0
        for behind in (1, 2):  # applied once, and once more to what it gave
            given, hidden = run_head(model, head, ids[:, behind:], hidden[:, :LENGTH - behind])
            loss = loss + (expected[:, behind:].exp() * (expected[:, behind:] - given)).sum(-1).mean()
        return loss

    fit(model.parameters(), 2000, loss_of_model)
    for parameter in model.parameters():
        parameter.data.copy_(parameter.data.bfloat16().float())
        parameter.requires_grad = False
    # Its attention stays as it began, so that it has to read the hidden states.
    fit([p for name, p in head.named_parameters() if "attn" not in name], 1000, loss_of_head)
    for parameter in head.parameters():
        parameter.data.copy_(parameter.data.bfloat16().float())


def share_right(model, head, language, shift=0):
    """Of first drafts on what follows the rule; with states of a position `shift` further off."""
    ids = language.write(SEQUENCES, LENGTH)
    expected, hidden = run_model(model, ids)
    given, _ = run_head(model, head, ids[:, 1:], hidden.roll(shift, 1)[:, :-1])
    return (given.argmax(-1) == expected[:, 1:].argmax(-1))[:, 8:].float().mean().item()


def drafts_of(model, head, ids):
    """Log-probs of the head along the prompt, then of the drafts behind it; and the drafts."""
    expected, hidden = run_model(model, ids)
    tokens = torch.cat([ids, expected[:, -1:].argmax(-1)], dim=1)
    rows, drafts = [], []
    for number in range(DRAFTS):
        # The head's own attention sees the tokens of the prompt in their first form.
        first = tokens[:, 1:ids.shape[1] + 1]
        if number == 0:
            joined, states = first, hidden
        given, out = run_head(model, head, joined, states)
        rows.append(given[0] if number == 0 else given[0, -1:])
        drafts.append(given[0, -1].argmax().item())
        joined = torch.cat([joined, torch.tensor([[drafts[-1]]])], dim=1)
        states = torch.cat([states, out[:, -1:]], dim=1)
    return torch.cat(rows), tokens[0, -1].item(), drafts


def head_tensors(head):
    tensors = {}
    for name, tensor in head.state_dict().items():
        tensors["model.mtp_layers.0." + name.replace("block.", "")] = tensor.contiguous()
    return tensors


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)  # so that every run adds in the same order
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    folder = os.path.join(ROOT, "mimo")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    config = transformers.Qwen2Config(**{**BASE, "rope_parameters": rope("default", 640000.0)})
    config._attn_implementation = "eager"
    model = transformers.Qwen2ForCausalLM(config).float().eval()
    randomize(model, SEED)
    head = Head(config)
    randomize_head(head)
    language = Language(config.vocab_size)
    train(model, head, language)
    generator = torch.Generator().manual_seed(SEED + 1000)
    ids = torch.randint(3, config.vocab_size, (1, TOKENS), generator=generator)
    ids[0, 0] = config.bos_token_id
    with torch.no_grad():
        right = share_right(model, head, language)
        off = share_right(model, head, language, 1)
        print(f"first drafts are right in {right:.2f} of all cases, with states of the position before "
              f"in {off:.2f}")
        assert right > LEAST_RIGHT and off < right / 2
        expected = log_probs(model, ids)
        decode = check_decode(model, ids, expected, 1)
        rows, drawn, drafts = drafts_of(model, head, ids)
        exact = check_float64(model, ids, expected)
        head.double()
        model.double()
        draft_exact = (drafts_of(model, head, ids)[0] - rows).abs().max().item()
        head.float()
        model.float()
    assert max(decode, exact, draft_exact) < 3e-5, (decode, exact, draft_exact)
    model.save_pretrained(folder)
    save_file({**model.state_dict(), **head_tensors(head)}, os.path.join(folder, "model.safetensors"),
              metadata={"format": "pt"})
    changed = {"architectures": ["MiMoForCausalLM"], "model_type": "mimo",
               "num_nextn_predict_layers": 1}
    write_json(folder, "config.json", {**read_json(folder, "config.json"), **changed})
    write_json(folder, "config.v4.json", config_of_transformers4(read_json(folder, "config.json")))
    expected.numpy().astype("<f4").tofile(os.path.join(folder, "logprobs.bin"))
    rows.numpy().astype("<f4").tofile(os.path.join(folder, "draft_logprobs.bin"))
    write_json(folder, "expected.json", {
        "prompt": ids[0].tolist(), "shape": list(expected.shape), "decode_from": 1,
        "rope_length": TOKENS, "drawn": drawn, "drafts": drafts,
        "generator": f"transformers {transformers.__version__}, torch {torch.__version__}",
    })
    write_tokenizer(folder, config.vocab_size, False)


if __name__ == "__main__":
    main()
