#!/usr/bin/env python3
"""Tiny GGUF files of every architecture and number format, with the log-probs that transformers gives.

Usage: python tools/golden/gguf_models.py CONVERTER     (needs tools/golden/requirements.txt)

CONVERTER is a folder of llama.cpp that holds convert_hf_to_gguf.py: vendor/llama.cpp of the source
package llama-cpp-python. It makes the F32 files from the checkpoints of tools/golden/models.py, so
names, metadata and the order of rows are those of published files; the quantized ones are made from
the F32 file with the `gguf` package, and transformers runs on the dequantized weights.
Writes tests/golden/gguf/; tests/golden/README.md tells what is in there.
"""
import json
import os
import runpy
import shutil
import sys
import tempfile

if len(sys.argv) != 2:
    sys.exit(__doc__)
sys.path.insert(0, os.path.join(sys.argv[1], "gguf-py"))  # the converter needs its own version

import gguf
import numpy
import torch
import transformers

import llama_forms
from models import ROOT as MODELS, log_probs, read_json, write_json

ROOT = os.path.join(MODELS, "../gguf")
# GGUF has no key for some options of config.json: there the reader must take the value that the
# published models of that architecture have, and so do these checkpoints.
CASES = {
    "llama": {},
    "llama_bias": {},
    "llama_tied": {},
    "llama_linear": {},
    "llama_yarn": {},
    "llama_llama3": {},
    "qwen2": {},
    "qwen3": {},
    "gemma2": dict(query_pre_attn_scalar=16),
    "gemma3": dict(query_pre_attn_scalar=16, rope_parameters={
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 8.0}},
        layer_types=["sliding_attention"] * 5 + ["full_attention"]),
    "phi3": {},
    "phi3_long": {},
    "smollm3": dict(no_rope_layers=[1, 1, 1, 0], no_rope_layer_interval=4),
    "qwen3_moe": {},
    "mixtral": {},
    "olmo2": {},
    "granite": {},
    "seed_oss": {},
    "cohere": {},
    # Neither which layers see a window, nor that all of StarCoder 2 do.
    "cohere2": dict(layer_types=["sliding_attention"] * 3),
    "glm4": {},
    "exaone4": {},
    "ernie4_5": {},
    "nemotron": {},
    "phi2": {},
    "starcoder2": dict(sliding_window=None),
    "gpt_oss": {},
    "llama4": dict(no_rope_layers=[1, 1, 1, 0], attention_chunk_size=8192, floor_scale=8192,
                   attn_scale=0.1),
    "hunyuan_moe": {},
    "ernie4_5_moe": {},
    "lfm2": {},
    "lfm2_moe": {},
    "granitemoehybrid": {},
    "jamba": {},
    # In 16 bits these differ by more than is allowed.
    "mamba": {},
    # GGUF has one number for the norms of the model and of what makes the steps.
    "falcon_mamba": dict(mixer_rms_eps=1e-5),
    "gemma4": {},
    "gemma4_e": {},
    "gemma4_moe": {},
    "gemma3n": {},
    # The converter takes the number of groups of experts for that of heads of Mamba-2.
    "nemotron_h_moe": dict(n_group=1, topk_group=1),
}
# Their weights are of BF16 and stay so, which makes these files half as large. None has experts: with
# activations in 16 bits too a token whose scores are nearly equal may get another expert.
ROPE = {"rope_type": "default", "rope_theta": 10000.0}
SMALL_CASES = {
    "hunyuan": dict(rope_parameters=ROPE),
    "internlm2": {},
    "gpt2": {},
    "gpt_neox": dict(rope_parameters={**ROPE, "partial_rotary_factor": 0.25}),
    "falcon": {},
    "falcon_grouped": {},
    "bloom": {},
    "mpt": {},
    "mamba2": {},
    "granitemoehybrid_dense": dict(position_embedding_type=None),
    "nemotron_h": {},
    # The converter rounds weights times a factor to BF16; by powers of two nothing is lost.
    "falcon_h1": dict(embedding_multiplier=2.0, lm_head_multiplier=0.5, key_multiplier=0.5,
                      attention_in_multiplier=2.0, attention_out_multiplier=0.5,
                      ssm_in_multiplier=0.5, ssm_out_multiplier=2.0,
                      ssm_multipliers=[0.5, 2.0, 1.0, 4.0, 0.25], mlp_multipliers=[2.0, 0.25]),
}
# Keys that the converter wants and transformers 5 does not write.
OLD_KEYS = {"gpt2": dict(n_ctx=40), "gpt_neox": dict(rotary_pct=0.25),
            "falcon": dict(num_kv_heads=1),
            "mpt": dict(architectures=["MPTForCausalLM"]),
            "nemotron_h": dict(hybrid_override_pattern="M-M*-", mamba_d_head=12,
                               not_written=["num_experts_per_tok", "n_routed_experts", "n_group",
                                            "topk_group"]),
            "nemotron_h_moe": dict(hybrid_override_pattern="ME*E"),
            "granitemoehybrid": dict(layer_types=["mamba", "attention"]),
            "granitemoehybrid_dense": dict(layer_types=["attention", "mamba"])}
TYPES = ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "MXFP4"]


def load_converter(folder):
    """The converter's main as a function; vocabularies come from tokenizer.json as it stands."""
    sys.path.insert(0, folder)
    import conversion
    from conversion import base

    def vocabulary(self):
        tokenizer = read_json(self.dir_model, "tokenizer.json")
        pieces = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get)
        special = {token["content"] for token in tokenizer["added_tokens"]}
        kinds = [gguf.TokenType.CONTROL if piece in special else gguf.TokenType.NORMAL
                 for piece in pieces]
        return pieces, kinds, "gpt-2"

    base.TextModel.get_vocab_base = vocabulary
    load_options = base.ModelBase.load_hparams

    def options(folder, *arguments, **more):
        # transformers drops what it does not know, and adds what older files don't have.
        all = {**read_json(folder, "config.json"), **load_options(folder, *arguments, **more)}
        return {key: value for key, value in all.items() if key not in all.get("not_written", ())}

    base.ModelBase.load_hparams = staticmethod(options)
    found = conversion.get_model_class

    def model_class(*arguments, **options):
        result = found(*arguments, **options)
        result.set_vocab = base.TextModel._set_vocab_gpt2
        return result

    conversion.get_model_class = model_class

    def convert(source, target, kind):
        sys.argv = ["convert_hf_to_gguf.py", source, "--outfile", target, "--outtype", kind.lower()]
        runpy.run_path(os.path.join(folder, "convert_hf_to_gguf.py"), run_name="__main__")

    return convert


def load_model(folder, changes):
    """The checkpoint with its options changed."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager").eval()
    if not changes:
        return model
    changed = type(model)(type(model.config)(**{**model.config.to_dict(), **changes})).eval()
    changed.config._attn_implementation = "eager"
    changed.load_state_dict(model.state_dict())
    return changed


def store(model, prompt, name):
    with torch.no_grad():
        expected = log_probs(model, torch.tensor([prompt]))
    expected.numpy().astype("<f4").tofile(os.path.join(ROOT, name + ".logprobs.bin"))
    return list(expected.shape)


def copy_field(writer, field):
    kind = field.types[0]
    if kind == gguf.GGUFValueType.ARRAY:
        writer.add_key_value(field.name, field.contents(), kind, sub_type=field.types[-1])
    else:
        writer.add_key_value(field.name, field.contents(), kind)


def quantize(source, target, kind):
    """Writes `source` with its matrices in `kind`; returns the dequantized matrices by name."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, "llama")
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            copy_field(writer, field)
    changed = {}
    for tensor in reader.tensors:
        if tensor.data.ndim != 2:
            writer.add_tensor(tensor.name, tensor.data)
            continue
        if kind == gguf.GGMLQuantizationType.F16:
            stored = tensor.data.astype(numpy.float16)
            writer.add_tensor(tensor.name, stored)
            changed[tensor.name] = stored.astype(numpy.float32)
            continue
        stored = gguf.quants.quantize(tensor.data, kind)
        writer.add_tensor(tensor.name, stored, raw_dtype=kind)
        changed[tensor.name] = gguf.quants.dequantize(stored, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return changed


def set_weights(model, weights):
    """Puts GGUF's matrices of a llama into the model; undoes the order of rows in Q and K."""
    config = model.config
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, parameter in model.named_parameters():
        gguf_name = names.get_name(name, try_suffixes=(".weight",))
        if gguf_name not in weights:
            continue
        value = weights[gguf_name]
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
        for part, count in heads.items():
            if part in name:
                rows, columns = value.shape
                value = value.reshape(count, rows // count // 2, 2, columns).swapaxes(1, 2)
                value = value.reshape(rows, columns)
        parameter.data.copy_(torch.from_numpy(value.copy()))


def convert_case(convert, name, changes, kind, file):
    """Writes one file and its log-probs, whose shape it returns."""
    source = os.path.join(MODELS, name)
    prompt = read_json(source, "expected.json")["prompt"]
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.join(scratch, "tiny")  # its name goes into the file
        if name in llama_forms.FORMS:
            shutil.copytree(source, folder)
        else:
            model = load_model(source, changes)
            model.save_pretrained(folder)
        for tokens in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(os.path.join(source, tokens), folder)
        write_json(folder, "config.json", {**read_json(folder, "config.json"), **OLD_KEYS.get(name, {})})
        convert(folder, os.path.join(ROOT, f"{file}.gguf"), kind)
    if name not in llama_forms.FORMS:
        return store(model, prompt, file)
    shutil.copy(os.path.join(source, "logprobs.bin"), os.path.join(ROOT, f"{file}.logprobs.bin"))
    return read_json(source, "expected.json")["shape"]


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    convert = load_converter(os.path.abspath(sys.argv[1]))
    shutil.rmtree(ROOT, ignore_errors=True)
    os.makedirs(ROOT)
    index = {}
    for kind, cases in (("F32", CASES), ("BF16", SMALL_CASES)):
        for name, changes in cases.items():
            file = f"{name}-{kind}"
            index[file] = {"prompt_of": name, "shape": convert_case(convert, name, changes, kind, file)}
            print(file, flush=True)
    model = load_model(os.path.join(MODELS, "llama"), {})
    prompt = read_json(os.path.join(MODELS, "llama"), "expected.json")["prompt"]
    for kind in TYPES:
        weights = quantize(os.path.join(ROOT, "llama-F32.gguf"),
                           os.path.join(ROOT, f"llama-{kind}.gguf"), gguf.GGMLQuantizationType[kind])
        set_weights(model, weights)
        index[f"llama-{kind}"] = {"prompt_of": "llama", "shape": store(model, prompt, f"llama-{kind}")}
        print(f"llama-{kind}", flush=True)
    write_json(ROOT, "index.json", index)


if __name__ == "__main__":
    main()
