#!/usr/bin/env python3
"""A tiny checkpoint of MiMo's form with two heads, each for a position of its own.

Usage: python tools/golden/mimo_heads.py      (needs tools/golden/requirements.txt)

The model and its first head are those that mimo.py wrote. The second head reads, for the token behind
position i + 2, what the first one gave at position i beside the embedding of token i + 2 (the form of
vLLM's mimo_mtp.py, whose layers take turns by the number of the draft), and learns here what the model
draws. Behind it the second head is applied again to what it gave. Writes
tests/golden/drafts/mimo_heads/; tests/golden/README.md tells what is in there.
"""
import os
import shutil

import torch
import transformers
from safetensors.torch import load_file, save_file

from mimo import (DRAFTS, LENGTH, SEQUENCES, Head, Language, fit, head_tensors, run_head, run_model)
from models import ROOT, read_json, write_json

LEAST_RIGHT = 0.6  # of the second drafts


def load_head(config, tensors):
    """The first head of a checkpoint."""
    head, prefix = Head(config), "model.mtp_layers.0."
    state = {}
    for name in head.state_dict():
        state[name] = tensors[prefix + name.replace("block.", "")]
    head.load_state_dict(state)
    return head.float().eval()


def train(model, first, second, language):
    """The second head learns what the model draws two tokens behind the states of a position."""
    def loss():
        ids = language.write(SEQUENCES, LENGTH)
        with torch.no_grad():
            expected, hidden = run_model(model, ids)
            _, hidden = run_head(model, first, ids[:, 1:], hidden[:, :-1])
        given, _ = run_head(model, second, ids[:, 2:], hidden[:, :-1])
        return (expected[:, 2:].exp() * (expected[:, 2:] - given)).sum(-1).mean()

    fit([p for name, p in second.named_parameters() if "attn" not in name], 400, loss)
    for parameter in second.parameters():
        parameter.data.copy_(parameter.data.bfloat16().float())


def drafts_of(model, heads, ids):
    """Log-probs of each head along the prompt, then of the drafts behind it; and the drafts."""
    expected, states = run_model(model, ids)
    joined = torch.cat([ids[:, 1:], expected[:, -1:].argmax(-1)], dim=1)
    drawn, rows, drafts = joined[0, -1].item(), [], []
    for number in range(DRAFTS):
        given, out = run_head(model, heads[min(number, len(heads) - 1)], joined, states)
        along = number < len(heads)
        rows.append(given[0] if along else given[0, -1:])
        drafts.append(given[0, -1].argmax().item())
        draft = torch.tensor([[drafts[-1]]])
        if number + 1 < len(heads):  # the next head stands at the same positions
            joined, states = torch.cat([joined[:, 1:], draft], dim=1), out
        else:
            joined = torch.cat([joined, draft], dim=1)
            states = torch.cat([states, out[:, -1:]], dim=1)
    return torch.cat(rows), drawn, drafts


def share_right(model, heads, language):
    ids = language.write(SEQUENCES, LENGTH)
    expected, hidden = run_model(model, ids)
    _, hidden = run_head(model, heads[0], ids[:, 1:], hidden[:, :-1])
    given, _ = run_head(model, heads[1], ids[:, 2:], hidden[:, :-1])
    return (given.argmax(-1) == expected[:, 2:].argmax(-1))[:, 8:].float().mean().item()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)  # so that every run adds in the same order
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    source, folder = os.path.join(ROOT, "mimo"), os.path.join(ROOT, "../drafts/mimo_heads")
    tensors = load_file(os.path.join(source, "model.safetensors"))
    config = transformers.Qwen2Config(**{
        key: value for key, value in read_json(source, "config.json").items()
        if key not in ("architectures", "model_type")})
    config._attn_implementation = "eager"
    model = transformers.Qwen2ForCausalLM(config).float().eval()
    model.load_state_dict({key: value for key, value in tensors.items() if "mtp_layers" not in key},
                          strict=False)
    for parameter in model.parameters():
        parameter.requires_grad = False
    heads = [load_head(config, tensors), load_head(config, tensors)]
    language = Language(config.vocab_size)
    train(model, heads[0], heads[1], language)
    ids = torch.tensor([read_json(source, "expected.json")["prompt"]])
    with torch.no_grad():
        right = share_right(model, heads, language)
        print(f"second drafts are right in {right:.2f} of all cases")
        assert right > LEAST_RIGHT
        rows, drawn, drafts = drafts_of(model, heads, ids)
        for module in [model, *heads]:
            module.double()
        exact = (drafts_of(model, heads, ids)[0] - rows).abs().max().item()
        for module in [model, *heads]:
            module.float()
    assert drawn == read_json(source, "expected.json")["drawn"] and exact < 3e-5, exact
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    second = {key.replace("mtp_layers.0.", "mtp_layers.1."): value
              for key, value in head_tensors(heads[1]).items()}
    save_file({**tensors, **second}, os.path.join(folder, "model.safetensors"),
              metadata={"format": "pt"})
    write_json(folder, "config.json",
               {**read_json(source, "config.json"), "num_nextn_predict_layers": len(heads)})
    rows.numpy().astype("<f4").tofile(os.path.join(folder, "draft_logprobs.bin"))
    write_json(folder, "expected.json", {
        "prompt": ids[0].tolist(), "drawn": drawn, "drafts": drafts,
        "generator": f"transformers {transformers.__version__}, torch {torch.__version__}"})
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if os.path.exists(os.path.join(source, name)):
            shutil.copy(os.path.join(source, name), folder)


if __name__ == "__main__":
    main()
