"""A model of Llama's form in plain PyTorch: whole texts at once, or a token of each of many texts.

Only what is needed here: RoPE without scaling, no biases. Read from a GGUF file or from a Hugging
Face folder.
"""
import glob
import json
import os
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from gguf_file import GgufFile

# What GGUF calls the matrices of a layer, and Hugging Face does.
LAYER_NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
               "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
               "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
               "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


@dataclass
class Shape:
    vocab: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    rope_base: float
    context: int


def unpermuted(matrix, heads):
    """GGUF has the rows of Q and K so that pairs that RoPE turns lie side by side; here they lie half
    a head apart."""
    rows, columns = matrix.shape
    return matrix.reshape(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def from_gguf(path):
    file = GgufFile(path)
    told = lambda key: file.metadata["llama." + key]
    if file.metadata["general.architecture"] != "llama":
        raise SystemExit(f"{path} is of {file.metadata['general.architecture']}; llama is supported")
    heads, hidden = told("attention.head_count"), told("embedding_length")
    embedding = torch.from_numpy(file.tensor("token_embd.weight").copy())
    shape = Shape(len(embedding), hidden, told("feed_forward_length"), told("block_count"), heads,
                  file.metadata.get("llama.attention.head_count_kv", heads),
                  file.metadata.get("llama.attention.key_length", hidden // heads),
                  told("attention.layer_norm_rms_epsilon"),
                  file.metadata.get("llama.rope.freq_base", 10000.0), told("context_length"))
    weights = {"embed_tokens": embedding, "norm": torch.from_numpy(file.tensor("output_norm.weight").copy())}
    if "output.weight" in file.tensors:
        weights["lm_head"] = torch.from_numpy(file.tensor("output.weight").copy())
    for layer in range(shape.layers):
        for theirs, ours in LAYER_NAMES.items():
            matrix = torch.from_numpy(file.tensor(f"blk.{layer}.{theirs}.weight").copy())
            if theirs in ("attn_q", "attn_k"):
                matrix = unpermuted(matrix, shape.heads if theirs == "attn_q" else shape.kv_heads)
            weights[f"layers.{layer}.{ours}"] = matrix
    return shape, weights


def from_folder(path):
    from safetensors.torch import load_file
    with open(os.path.join(path, "config.json")) as file:
        config = json.load(file)
    weights = {}
    for name in sorted(glob.glob(os.path.join(path, "*.safetensors"))):
        for key, tensor in load_file(name).items():
            weights[key.removeprefix("model.").removesuffix(".weight")] = tensor.float()
    rope = config.get("rope_parameters") or {}
    heads = config["num_attention_heads"]
    return Shape(config["vocab_size"], config["hidden_size"], config["intermediate_size"],
                 config["num_hidden_layers"], heads, config.get("num_key_value_heads") or heads,
                 config.get("head_dim") or config["hidden_size"] // heads, config["rms_norm_eps"],
                 rope.get("rope_theta", config.get("rope_theta", 10000.0)),
                 config["max_position_embeddings"]), weights


def rope_tables(shape, length, device):
    """Cosines and sines in F32, [length, head_dim]."""
    inverse = shape.rope_base ** (-torch.arange(0, shape.head_dim, 2, device=device).float() / shape.head_dim)
    angles = torch.arange(length, device=device).float()[:, None] * inverse
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def rotate(states, cosines, sines):
    """`states` [..., head_dim] by tables that broadcast to it."""
    first, second = states.chunk(2, dim=-1)
    return states * cosines + torch.cat([-second, first], dim=-1) * sines


class Llama:
    def __init__(self, path, device, dtype):
        self.shape, weights = from_folder(path) if os.path.isdir(path) else from_gguf(path)
        shape = self.shape
        self.device, self.dtype = device, dtype
        place = lambda tensor: tensor.to(device=device, dtype=dtype)
        self.embedding, self.norm = place(weights["embed_tokens"]), place(weights["norm"])
        self.output = place(weights["lm_head"]) if "lm_head" in weights else self.embedding
        self.layers = []
        for layer in range(shape.layers):
            part = lambda name: place(weights[f"layers.{layer}.{name}"])
            self.layers.append({
                "input_norm": part("input_layernorm"), "mlp_norm": part("post_attention_layernorm"),
                "qkv": torch.cat([part(f"self_attn.{name}_proj") for name in "qkv"]),
                "o": part("self_attn.o_proj"),
                "gate_up": torch.cat([part("mlp.gate_proj"), part("mlp.up_proj")]),
                "down": part("mlp.down_proj")})
        self.weights = weights  # in F32, for a head that begins as a layer of the model

    def normed(self, states, weight):
        return F.rms_norm(states, (self.shape.hidden,), weight, self.shape.eps)

    def split(self, layer, states):
        """Q, K and V, [..., heads, head_dim]."""
        shape = self.shape
        joined = F.linear(self.normed(states, layer["input_norm"]), layer["qkv"])
        joined = joined.unflatten(-1, (shape.heads + 2 * shape.kv_heads, shape.head_dim))
        return joined.split([shape.heads, shape.kv_heads, shape.kv_heads], dim=-2)

    def finish(self, layer, states, attended):
        states = states + F.linear(attended, layer["o"])
        gate, up = F.linear(self.normed(states, layer["mlp_norm"]), layer["gate_up"]).chunk(2, dim=-1)
        return states + F.linear(F.silu(gate) * up, layer["down"])

    def run(self, ids, kept):
        """Of texts [rows, length]: the outputs of the layers `kept` side by side, and what the final
        norm gives."""
        states = F.embedding(ids, self.embedding)
        cosines, sines = (table.to(self.dtype)[:, None] for table in
                          rope_tables(self.shape, ids.shape[1], self.device))
        outputs = []
        for number, layer in enumerate(self.layers):
            q, k, v = self.split(layer, states)
            q, k = rotate(q, cosines, sines), rotate(k, cosines, sines)
            attended = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2),
                                                      v.transpose(1, 2), is_causal=True,
                                                      enable_gqa=self.shape.heads != self.shape.kv_heads)
            states = self.finish(layer, states, attended.transpose(1, 2).flatten(2))
            if number in kept:
                outputs.append(states)
        return torch.cat(outputs, dim=-1), self.normed(states, self.norm)


def attend_products(q, k, v):
    """Q [rows, queries, head_dim], K and V [rows, keys, head_dim]; every query sees every key."""
    scores = torch.bmm(q, k.transpose(1, 2)) * q.shape[-1] ** -0.5
    return torch.bmm(torch.softmax(scores, dim=-1), v)


def attend_fused(q, k, v):
    return F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]


class Decoder:
    """Writes many texts that are all equally long, so that no mask is needed. Queries of one KV head
    are computed together, as if they were tokens."""

    def __init__(self, model, rows, length):
        self.model, self.rows, self.length = model, rows, length
        shape = model.shape
        size = (shape.layers, rows * shape.kv_heads, length, shape.head_dim)
        self.keys = torch.zeros(size, device=model.device, dtype=model.dtype)
        self.values = torch.zeros(size, device=model.device, dtype=model.dtype)
        self.cosines, self.sines = (table.to(model.dtype) for table in
                                    rope_tables(shape, length, model.device))
        self.attend = attend_products

    def step(self, ids, position):
        """Logits [rows, vocab] behind the tokens `ids` [rows], which stand at `position`."""
        model, shape = self.model, self.model.shape
        states = F.embedding(ids, model.embedding)
        cosines, sines = self.cosines[position], self.sines[position]
        for number, layer in enumerate(model.layers):
            q, k, v = model.split(layer, states)
            keys, values = self.keys[number], self.values[number]
            keys[:, position] = rotate(k, cosines, sines).flatten(0, 1)
            values[:, position] = v.flatten(0, 1)
            queries = rotate(q, cosines, sines).reshape(self.rows * shape.kv_heads, -1, shape.head_dim)
            attended = self.attend(queries, keys[:, :position + 1], values[:, :position + 1])
            states = model.finish(layer, states, attended.reshape(self.rows, -1))
        return F.linear(model.normed(states, model.norm), model.output)
