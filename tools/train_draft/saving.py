"""A head in the files that SpecForge writes, whole in BF16 or with its matrices in 4 bits."""
import json
import os

import torch
from safetensors.torch import save_file

from head import MATRICES
from packing import packed, quantization_config

SHARD_BYTES = 12 << 20  # so that each can be carried where files are bounded


def config_of(head):
    shape = head.shape
    return {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "dtype": "bfloat16",
            "vocab_size": shape.vocab, "draft_vocab_size": len(head.kept), "hidden_size": shape.hidden,
            "target_hidden_size": shape.hidden, "intermediate_size": shape.intermediate,
            "num_hidden_layers": 1, "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads, "head_dim": shape.head_dim, "hidden_act": "silu",
            "rms_norm_eps": shape.eps, "rope_theta": shape.rope_base,
            "max_position_embeddings": shape.context, "attention_bias": False, "mlp_bias": False,
            "tie_word_embeddings": False,
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": head.layers,
                             "use_aux_hidden_state": True}}


def write_tensors(folder, tensors):
    """As one file, or as shards with their index."""
    shards, room = [{}], SHARD_BYTES
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        if size > room and shards[-1]:
            shards.append({})
            room = SHARD_BYTES
        shards[-1][name] = tensor.cpu().contiguous()
        room -= size
    places = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors" if len(shards) > 1 else "model.safetensors"
        places.update(dict.fromkeys(shard, file))
        save_file(shard, os.path.join(folder, file), metadata={"format": "pt"})
    if len(shards) > 1:
        sizes = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
            json.dump({"metadata": {"total_size": sizes}, "weight_map": places}, file, indent=1)


def save_head(head, folder, in_4_bits):
    os.makedirs(folder, exist_ok=True)
    tensors, config = {}, config_of(head)
    for name, parameter in head.named().items():
        if in_4_bits and name in MATRICES:
            tensors.update(packed(name, parameter.detach()))
        else:
            tensors[name + ".weight"] = parameter.detach().bfloat16()
    kept = head.kept.cpu()
    in_draft = torch.zeros(head.shape.vocab, dtype=torch.bool)
    in_draft[kept] = True
    tensors["d2t"], tensors["t2d"] = kept - torch.arange(len(kept)), in_draft
    if in_4_bits:
        config["quantization_config"] = quantization_config()
    write_tensors(folder, tensors)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=1)
