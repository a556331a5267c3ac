#!/usr/bin/env python3
"""Trains a head of EAGLE-3's form for a model of Llama's form, on text that the model writes itself.

Usage: python tools/train_draft COMMAND ...; README.md beside this file tells what for.
"""
import argparse
import os
import shutil
import sys
import tempfile
import time

import numpy as np
import torch

PARTS_BYTES = 48 << 20


def device_and_type(arguments):
    device = torch.device(arguments.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if device.type == "cuda":
        # cuDNN's kernels would be planned anew for each length, that is for each token.
        torch.backends.cuda.enable_cudnn_sdp(False)
        print(f"on {torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    return device, torch.bfloat16 if arguments.bf16 or device.type == "cuda" else torch.float32


def open_target(arguments):
    from llama import Llama
    began = time.monotonic()
    model = Llama(arguments.target, *device_and_type(arguments))
    print(f"read {arguments.target} in {time.monotonic() - began:.0f} s: {model.shape}", flush=True)
    return model


def prepare(arguments):
    from gguf_file import GgufFile, read_bytes
    from gguf_tokenizer import tokenizer_of
    from prompts import chat_rows, write_rows
    os.makedirs(arguments.out, exist_ok=True)
    file = GgufFile(arguments.target)
    tokenizer = tokenizer_of(file)
    rows = chat_rows(tokenizer, arguments.prompts, arguments.system, arguments.widest)
    ends = [token for token in ("<|im_end|>", "<|endoftext|>") if tokenizer.token_to_id(token) is not None]
    if "<|im_end|>" not in ends:
        raise SystemExit("the model knows no <|im_end|>; chats are written as ChatML, which it was not trained for")
    write_rows(os.path.join(arguments.out, "prompts.npz"), rows, [tokenizer.token_to_id(end) for end in ends])
    data = read_bytes(arguments.target)
    for number, begin in enumerate(range(0, len(data), PARTS_BYTES)):
        with open(os.path.join(arguments.out, f"target.gguf.{number:02d}"), "wb") as part:
            part.write(data[begin:begin + PARTS_BYTES])
    for name in sorted(os.listdir(arguments.out)):
        print(f"{os.path.getsize(os.path.join(arguments.out, name)):>10} {os.path.join(arguments.out, name)}")
    print(f"{len(rows)} rows, e.g. {tokenizer.decode(rows[-1][1], skip_special_tokens=False)!r}")


def write(arguments):
    from writer import Rows, write_text
    model = open_target(arguments)
    torch.manual_seed(arguments.seed)
    rows, batch = Rows(arguments.prompts, model.device), arguments.batch
    while batch > 0:
        try:
            return write_text(model, rows, arguments.text, arguments.generate_seconds, batch, arguments.length)
        except torch.OutOfMemoryError:
            batch //= 2
            print(f"the device's memory is too small; {batch} conversations at once now", flush=True)
        torch.cuda.empty_cache()


def train(arguments):
    from training import Texts, Trainer, save_both
    model = open_target(arguments)
    torch.manual_seed(arguments.seed)
    texts, layers = Texts(arguments.text, model.device), arguments.layers
    if layers is None:
        layers = [1, model.shape.layers // 2 - 1, model.shape.layers - 4]
    ends = torch.from_numpy(np.load(arguments.prompts)["ends"]).long().to(model.device)
    kept, share = texts.most_frequent(min(arguments.tokens, model.shape.vocab), model.shape.vocab, ends)
    before = torch.load(arguments.begin, map_location=model.device) if arguments.begin else None
    if before:
        kept = before["kept"]
    trainer = Trainer(model, texts, kept, layers, arguments.steps)
    count = sum(parameter.numel() for parameter in trainer.head.parameters())
    print(f"{texts.tokens} tokens to train on; the {len(kept)} that are guessed are {share:.4f} of what was "
          f"written; the head has {count} parameters and reads the layers {layers}", flush=True)
    if before:
        trainer.head.load_state_dict(before)

    def save():
        save_both(trainer.head, arguments.out)
        torch.save(trainer.head.state_dict(), os.path.join(arguments.text, "head.pt"))

    trainer.report(packed=False)
    trainer.train(arguments.train_seconds, arguments.batch_tokens, arguments.rate, save)
    save()
    trainer.report(packed=False)
    trainer.report(packed=True)
    print(f"saved {arguments.out}/head-bf16 and {arguments.out}/head-int4", flush=True)


def check_form(target, golden):
    """That the head computes what tools/golden/eagle3.py does, whose log-probs are in the folder
    `golden`: along a prompt, then of each draft behind it."""
    import json
    from safetensors.torch import load_file
    from head import Head
    from llama import Llama
    model = Llama(target, torch.device("cpu"), torch.float32)
    tensors = load_file(os.path.join(golden, "model.safetensors"))
    with open(os.path.join(golden, "expected.json")) as file:
        told = json.load(file)
    kept, steps = tensors["d2t"] + torch.arange(len(tensors["d2t"])), len(told["drafts"])
    head = Head(model, kept, [0, 2, 3], torch.ones(3 * model.shape.hidden))
    weights = {name: tensors[name + ".weight"].float() for name in head.named()}
    ids = torch.tensor([told["prompt"] + [told["drawn"]] + told["drafts"]])
    with torch.no_grad():
        states, _ = model.run(ids, head.layers)
        rows = [torch.log_softmax(given[0], dim=-1) for given in
                head.unroll(weights, torch.nn.functional.embedding(ids, model.embedding), states, steps)]
    rows = torch.cat([rows[0]] + [row[-1:] for row in rows[1:]])
    wanted = torch.from_numpy(np.fromfile(os.path.join(golden, "draft_logprobs.bin"), "<f4")).view_as(rows)
    error = (rows - wanted).abs().max().item()
    print(f"the head's log-probs differ from the golden ones by at most {error:.1e}")
    assert error < 1e-3


def self_test(arguments):
    """All that `write` and `train` do, with a tiny model in a Hugging Face folder."""
    from prompts import ANSWER, FIRST, FIRST_USER, NEXT, NEXT_USER, write_rows
    folder = tempfile.mkdtemp(prefix="train-draft-")
    torch.set_num_threads(1)  # more only wait for each other with so small a model
    check_form(arguments.target, os.path.join(arguments.target, "../eagle3"))
    try:
        random = np.random.default_rng(1)
        given = lambda kind: (kind, random.integers(3, 128, 4).tolist())
        rows = [given(kind) for kind in [FIRST_USER, NEXT_USER, ANSWER] + [FIRST, NEXT] * 50]
        write_rows(os.path.join(folder, "prompts.npz"), rows, [2])
        common = ["--target", arguments.target, "--prompts", os.path.join(folder, "prompts.npz"), "--text", folder]
        main(["write", *common, "--generate-seconds", "5", "--batch", "256", "--length", "129"])
        main(["train", *common, "--train-seconds", str(arguments.train_seconds), "--batch-tokens", "1024", "--rate", "5e-3",
              "--tokens", "64", "--layers", "0", "2", "3", "--out", arguments.out])
    finally:
        shutil.rmtree(folder)


def main(argv):
    parser = argparse.ArgumentParser(prog="train_draft", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    add = lambda name, text: commands.add_parser(name, help=text, description=text)
    made = add("prepare", "cuts a GGUF file into parts and writes prompts for its tokenizer")
    made.add_argument("--target", required=True, help="the GGUF file")
    made.add_argument("--out", required=True)
    made.add_argument("--prompts", type=int, default=40000)
    made.add_argument("--widest", type=int, default=256, help="tokens of a prompt at most")
    made.add_argument("--system", default="You are a helpful AI assistant named SmolLM, trained by Hugging Face")
    wrote, trained = add("write", "lets the model write text"), add("train", "trains the head")
    for command in (wrote, trained):
        command.add_argument("--target", required=True, help="a GGUF file, or what its parts are called without "
                             ".00, or a Hugging Face folder")
        command.add_argument("--prompts", required=True, help="prompts.npz")
        command.add_argument("--text", required=True, help="the folder of what was written")
        command.add_argument("--device", help="default: cuda where there is one, else cpu")
        command.add_argument("--bf16", action="store_true", help="in BF16 on the CPU, too")
        command.add_argument("--seed", type=int, default=int(time.time()))
    wrote.add_argument("--generate-seconds", type=float, default=150)
    wrote.add_argument("--batch", type=int, default=4096, help="conversations at once, at most")
    wrote.add_argument("--length", type=int, default=646, help="tokens of each; less 1 and --steps, best a multiple of 8")
    trained.add_argument("--out", required=True)
    trained.add_argument("--train-seconds", type=float, default=200)
    trained.add_argument("--batch-tokens", type=int, default=20480)
    trained.add_argument("--rate", type=float, default=1e-3)
    trained.add_argument("--steps", type=int, default=5, help="how often the head is applied to its own")
    trained.add_argument("--tokens", type=int, default=8192, help="that the head guesses")
    trained.add_argument("--layers", type=int, nargs=3, help="whose outputs are read; default: second, middle, "
                         "fourth from the end")
    trained.add_argument("--begin", help="head.pt of a training before")
    tested = add("self-test", "writes and trains with a tiny model")
    tested.add_argument("--target", default=os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                                         "../../tests/golden/drafts/target"))
    tested.add_argument("--train-seconds", type=float, default=20)
    tested.add_argument("--out", required=True)
    arguments = parser.parse_args(argv)
    {"prepare": prepare, "write": write, "train": train, "self-test": self_test}[arguments.command](arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
