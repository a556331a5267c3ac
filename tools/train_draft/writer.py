"""Text that a model writes itself, many conversations at once.

Every text begins with a row of prompts.py. Where the model ends what it says, the next row follows:
another request, or the mere beginning of one, which the model then writes, too (as Magpie does,
arXiv 2406.08464). So texts are equally long, and none of the batch stands idle.
"""
import json
import os
import time

import numpy as np
import torch

import llama
from prompts import ANSWER, FIRST, FIRST_USER, NEXT, NEXT_USER

# Answers are written at these, in turn; 0 takes the likeliest tokens alone, as programs ask for.
TEMPERATURES = [0.0, 0.7, 1.0, 0.5, 0.8, 0.9, 1.0, 0.0]
USERS_TEMPERATURE = 1.0  # so that requests differ that the model writes
HELD_OUT, HELD_PROMPTS = 128, 0.05  # conversations of a round at most, with a share of prompts of their own
FREE_FIRST, FREE_NEXT = 0.3, 0.5  # shares of requests that the model writes
CHECKED = 32  # steps between looks at the clock


class Rows:
    def __init__(self, path, device):
        loaded = np.load(path)
        place = lambda key: torch.from_numpy(loaded[key]).long().to(device)
        self.tokens, self.lengths, self.kinds = place("tokens"), place("lengths"), place("kinds")
        self.ends = place("ends")
        self.of_kind = [torch.nonzero(self.kinds == kind)[:, 0] for kind in range(5)]

        self.by_user = (self.kinds == FIRST_USER) | (self.kinds == NEXT_USER)

    def draw(self, held, prompts, free, share):
        """Rows of the kind `prompts`, or `free` for about `share` of them; those that are `held` out have
        prompts that the others never have."""
        device = self.tokens.device
        every = self.of_kind[prompts]
        cut = int((1.0 - HELD_PROMPTS) * len(every))
        first, last = torch.where(held, cut, 0), torch.where(held, len(every), cut)
        index = first + (torch.rand(len(held), device=device) * (last - first)).long()
        return torch.where(torch.rand(len(held), device=device) < share, self.of_kind[free][0],
                           every[index.clamp(max=len(every) - 1)])

    def following(self, row, held):
        """What stands behind the end of what was written behind `row`."""
        return torch.where(self.by_user[row], self.of_kind[ANSWER][0],
                           self.draw(held, NEXT, NEXT_USER, FREE_NEXT))


def drawn(logits, temperatures):
    """Gumbel's way of drawing: at temperature 0 the likeliest token."""
    noise = torch.empty_like(logits, dtype=torch.float32).exponential_().clamp_(min=1e-20).log_()
    return torch.sub(logits, noise.mul_(temperatures), out=noise).argmax(-1)


def write_round(decoder, rows, held, temperatures, until):
    """Tokens and whether each is none of an answer; [rows, length], shorter where time is up."""
    device, batch = decoder.model.device, decoder.rows
    tokens = torch.zeros((batch, decoder.length), dtype=torch.int32, device=device)
    given = torch.zeros((batch, decoder.length), dtype=torch.bool, device=device)
    row = rows.draw(held, FIRST, FIRST_USER, FREE_FIRST)
    column = torch.zeros(batch, dtype=torch.long, device=device)
    written, width = torch.zeros(batch, dtype=torch.long, device=device), rows.tokens.shape[1]
    for position in range(decoder.length):
        forced = column < rows.lengths[row]
        now = torch.where(forced, rows.tokens[row, column.clamp(max=width - 1)], written)
        by_user = rows.by_user[row]
        tokens[:, position], given[:, position] = now.int(), forced | by_user
        ended = ~forced & torch.isin(now, rows.ends)
        column = torch.where(ended, 0, column + 1)
        row = torch.where(ended, rows.following(row, held), row)
        if position + 1 == decoder.length:
            break
        written = drawn(decoder.step(now, position),
                        torch.where(rows.by_user[row], USERS_TEMPERATURE, temperatures)[:, None])
        if position % CHECKED == 0 and device.type == "cuda":
            torch.cuda.synchronize()
        if position % CHECKED == 0 and time.monotonic() > until:
            return tokens[:, :position + 1], given[:, :position + 1]
    return tokens, given


def rows_that_fit(model, length, wanted):
    if model.device.type != "cuda":
        return wanted
    shape = model.shape
    each = 4 * shape.layers * shape.kv_heads * shape.head_dim * length + 24 * shape.vocab
    fit = int(0.8 * torch.cuda.mem_get_info()[0] / each)
    return max(8, min(wanted, fit // 256 * 256 or fit // 8 * 8))


def choose_attention(decoder):
    """The quicker of two ways in the middle of a text; on the CPU the first."""
    if decoder.model.device.type != "cuda":
        return
    ids, times = torch.zeros(decoder.rows, dtype=torch.long, device=decoder.model.device), {}
    for attend in (llama.attend_products, llama.attend_fused):
        decoder.attend = attend
        try:
            for turn in range(6):
                if turn == 2:
                    torch.cuda.synchronize()
                    began = time.monotonic()
                decoder.step(ids, decoder.length // 2)
            torch.cuda.synchronize()
            times[attend] = (time.monotonic() - began) / 4
        except RuntimeError as error:
            print(f"  {attend.__name__} failed: {str(error).splitlines()[0]}", flush=True)
    decoder.attend = min(times, key=times.get)
    print("  a step takes " + ", ".join(f"{1e3 * spent:.1f} ms with {attend.__name__}"
                                        for attend, spent in times.items()), flush=True)


@torch.no_grad()
def write_text(model, rows, folder, seconds, batch, length):
    """Saves text-NNN.npz in `folder` after each round, until `seconds` have passed."""
    os.makedirs(folder, exist_ok=True)
    began = time.monotonic()
    batch = rows_that_fit(model, length, batch)
    decoder = llama.Decoder(model, batch, length)
    choose_attention(decoder)
    temperatures = torch.tensor(TEMPERATURES, device=model.device).repeat(-(-batch // len(TEMPERATURES)))[:batch]
    held = torch.arange(batch, device=model.device) < min(HELD_OUT, batch // 4)
    total, number = 0, len([name for name in os.listdir(folder) if name.startswith("text-")])
    while time.monotonic() - began < seconds:
        tokens, given = write_round(decoder, rows, held, temperatures, began + seconds)
        total += tokens.numel()
        np.savez(os.path.join(folder, f"text-{number:03d}.npz"), tokens=tokens.cpu().numpy().astype(np.uint32),
                 given=given.cpu().numpy(), held=held.cpu().numpy(),
                 temperatures=temperatures.cpu().numpy())
        spent = time.monotonic() - began
        print(f"text {number}: {tokens.shape[0]} conversations of {tokens.shape[1]} tokens, "
              f"{given.float().mean().item():.2f} of them given; {total} tokens in {spent:.0f} s, "
              f"{total / spent:.0f} a second", flush=True)
        number += 1
    del decoder
    if model.device.type == "cuda":
        torch.cuda.empty_cache()
    with open(os.path.join(folder, "text.json"), "w") as file:
        json.dump({"tokens": total, "seconds": time.monotonic() - began}, file)
