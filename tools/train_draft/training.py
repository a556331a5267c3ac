"""Training of a head on texts that its model wrote, with the unrolling of EAGLE-3's training-time test:
the head is applied to what it gave, as often as it will be."""
import glob
import math
import os
import time

import numpy as np
import torch
import torch.nn.functional as F

from head import Head, SoftCrossEntropy
from saving import save_head

PLACE_WEIGHT = 0.8  # of each further application in the loss, by the one before
LEAST_LENGTH = 64  # of the texts of a round that time cut off
PACKED_FROM = 0.75  # of the time; from then on matrices are trained as 4 bits will have them
WARM_UP = 0.03  # of the time
LOG_SECONDS, CHECKPOINT_SECONDS = 5, 60


class Texts:
    """On the device: for each round tokens [rows, length], and whether each was written."""

    def __init__(self, folder, device):
        self.rounds, self.device, self.held_out = [], device, None
        for path in sorted(glob.glob(os.path.join(folder, "text-*.npz"))):
            loaded = np.load(path)
            if loaded["tokens"].shape[1] < LEAST_LENGTH:
                continue
            held = torch.from_numpy(loaded["held"])
            parts = [torch.from_numpy(loaded["tokens"].astype(np.int32)), ~torch.from_numpy(loaded["given"]),
                     torch.from_numpy(loaded["temperatures"])]
            if self.held_out is None:
                self.held_out = [part[held].to(device) for part in parts]
            self.rounds.append([part[~held] for part in parts])
        if not self.rounds:
            raise SystemExit(f"there is no text-*.npz of {LEAST_LENGTH} tokens or more in {folder}; `write` first")
        self.rounds = [[part.to(device) for part in written[:2]] for written in self.rounds]
        sizes = torch.tensor([float(tokens.numel()) for tokens, _ in self.rounds])
        self.tokens, self.shares = int(sizes.sum()), sizes / sizes.sum()

    def draw(self, tokens):
        """Rows of one round that have about so many tokens."""
        ids, written = self.rounds[int(torch.multinomial(self.shares, 1))]
        chosen = torch.randint(len(ids), (max(1, tokens // ids.shape[1]),), device=self.device)
        return ids[chosen].long(), written[chosen]

    def most_frequent(self, count, vocab, always):
        """Of what was written; ids, ascending, and which share of the tokens they are."""
        counts = torch.zeros(vocab, dtype=torch.long, device=self.device)
        for ids, written in self.rounds:
            counts += torch.bincount(ids[written].long(), minlength=vocab)
        total = counts.sum().item()
        share_of = counts.clone()
        counts[always] = total + 1
        kept = counts.argsort(descending=True, stable=True)[:count].sort().values
        return kept, share_of[kept].sum().item() / total


class Trainer:
    def __init__(self, model, texts, kept, layers, steps):
        self.model, self.texts, self.steps = model, texts, steps
        self.head = Head(model, kept, layers, self.sizes(layers))
        self.output = model.output[kept]
        self.guessed = torch.zeros(model.shape.vocab, dtype=torch.bool, device=model.device)
        self.guessed[kept] = True

    @torch.no_grad()
    def sizes(self, layers):
        """The first token is left out, of which models of this form make far larger numbers than of
        any other."""
        squares = [self.model.run(part.long(), layers)[0][:, 1:].float().pow(2).mean((0, 1))
                   for part in self.texts.held_out[0].split(8)]
        return torch.stack(squares).mean(0).sqrt().clamp(min=1e-3)

    @torch.no_grad()
    def seen(self, ids):
        """What the head reads of the model for whole texts, and the model's logits for what it guesses."""
        states, final = self.model.run(ids, self.head.layers)
        return F.embedding(ids, self.model.embedding), states, F.linear(final, self.output)

    def loss(self, ids, written, packed):
        """With the share of the tokens that each application guessed right; it is taken backwards."""
        embedded, states, logits = self.seen(ids)
        expected = torch.empty_like(logits)
        for row in range(len(logits)):  # in turn, so that F32 takes little memory
            expected[row] = torch.softmax(logits[row].float(), dim=-1).to(logits.dtype)
        likeliest, counted = logits.argmax(-1), written & self.guessed[ids]
        del logits
        weights, total, right = self.head.computed(self.model.dtype, packed), 0.0, []
        for step, given in enumerate(self.head.unroll(weights, embedded, states, self.steps)):
            places = given.shape[1]
            wanted = expected[:, 1 + step:1 + step + places].flatten(0, 1)
            at = counted[:, 2 + step:2 + step + places].flatten()
            weight = at * (PLACE_WEIGHT ** step / at.sum().clamp(min=1))
            total = total + SoftCrossEntropy.apply(given.flatten(0, 1), wanted, weight)
            with torch.no_grad():
                same = given.argmax(-1) == likeliest[:, 1 + step:1 + step + places]
                right.append((same.flatten() & at).sum() / at.sum().clamp(min=1))
        total.backward()
        return total.detach(), torch.stack(right)

    @torch.no_grad()
    def accepted(self, packed, greedy):
        """Of held-out texts: by place of a draft, the share of chains that are right up to it, where a
        draft is right if it is the token that the model wrote."""
        ids, written, temperatures = self.texts.held_out
        chosen = torch.nonzero((temperatures == 0) == greedy)[:, 0]
        weights, right, count = self.head.computed(self.model.dtype, packed), torch.zeros(self.steps), 0
        for part in chosen.split(8):
            rows, here = ids[part].long(), written[part]
            embedded, states, _ = self.seen(rows)
            chain = True
            for step, given in enumerate(self.head.unroll(weights, embedded, states, self.steps)):
                places = given.shape[1]
                guess = self.head.kept[given.argmax(-1)]
                chain = (guess == rows[:, 2 + step:2 + step + places]) & chain
                at = here[:, 2:2 + places] & here[:, 1 + self.steps:1 + self.steps + places]
                right[step] += (chain & at).sum().item()
            count += at.sum().item()
        return right / max(1, count)

    def report(self, packed):
        for greedy in (True, False):
            shares = self.accepted(packed, greedy)
            each = " ".join(f"{share:.3f}" for share in shares.tolist())
            print(f"  held out, {'greedy' if greedy else 'sampled'}, matrices in {'4 bits' if packed else 'BF16'}: "
                  f"chains of 1 to {self.steps} drafts right {each}; {1 + shares.sum().item():.2f} tokens a step",
                  flush=True)

    def step(self, optimizer, batch, packed):
        """Loss, shares that were right, and how many tokens there were; None where memory is too small."""
        ids, written = self.texts.draw(batch)
        try:
            loss, right = self.loss(ids, written, packed)
        except torch.OutOfMemoryError:
            optimizer.zero_grad(set_to_none=True)
            return None
        torch.nn.utils.clip_grad_norm_(list(self.head.weights.values()), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss, right, ids.numel()

    def train(self, seconds, batch, rate, save):
        """`batch`: tokens of a step; `save` is called every CHECKPOINT_SECONDS."""
        parameters, on_gpu = list(self.head.weights.values()), self.model.device.type == "cuda"
        optimizer = torch.optim.AdamW(
            [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.01},
             {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}],
            lr=rate, betas=(0.9, 0.95), fused=on_gpu)
        began, number, tokens, part = time.monotonic(), 0, 0, 0.0
        logged, saved = began - LOG_SECONDS, began
        while part < 1.0:
            rate_now = rate * min(1.0, part / WARM_UP + 0.01) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * part)))
            for group in optimizer.param_groups:
                group["lr"] = rate_now
            done = self.step(optimizer, batch, part > PACKED_FROM)
            if done is None:
                batch //= 2
                print(f"the device's memory is too small; {batch} tokens a step now", flush=True)
                torch.cuda.empty_cache()
                continue
            number, tokens = number + 1, tokens + done[2]
            if time.monotonic() - logged > LOG_SECONDS:
                logged = time.monotonic()
                loss = done[0].item()  # waits for the device, so that the clock below is right
                if not math.isfinite(loss):
                    raise SystemExit(f"the loss is {loss} after {number} steps; what was saved before is there")
                spent = time.monotonic() - began
                print(f"step {number}: loss {loss:.3f}, right " +
                      " ".join(f"{share:.3f}" for share in done[1].tolist()) +
                      f", rate {rate_now:.1e}, {tokens / spent:.0f} tokens a second, {spent:.0f} s", flush=True)
            elif number % 10 == 0 and on_gpu:
                torch.cuda.synchronize()
            if time.monotonic() - saved > CHECKPOINT_SECONDS:
                save()
                self.report(packed=False)
                saved = time.monotonic()
            part = (time.monotonic() - began) / seconds
        print(f"trained for {number} steps, {tokens} tokens, {tokens / self.texts.tokens:.1f} times what is there",
              flush=True)


def save_both(head, folder):
    save_head(head, os.path.join(folder, "head-bf16"), in_4_bits=False)
    save_head(head, os.path.join(folder, "head-int4"), in_4_bits=True)
