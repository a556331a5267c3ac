"""FP8 checkpoints as published ones look: matrices in F8_E4M3 with scales, and what config.json says.

`quantize(kind, model, config)` replaces the matrices of the layers by what their F8 form means, and
returns the tensors to store in their place; it adds "quantization_config" to `config`. Activations
are not quantized: the expected log-probs are those of the stored weights. Kinds:
  fp8_block   of DeepSeek and Qwen3: "weight_scale_inv" in BF16 for blocks of 128 by 128
  fp8_e8m0    of DeepSeek V3.1: the same with powers of two, which BF16 can be multiplied by exactly
  fp8_static  of AutoFP8: one "weight_scale" and one "input_scale" for each matrix
  ct_channel  of llm-compressor: "weight_scale" for each row; the package compressed-tensors computes
              scales and codes and writes the config, and must read the same matrices from them
"""
import torch

LARGEST = 448.0
BLOCK = 128


def to_f8(values, scale):
    return (values / scale).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)


def spread(scale, rows, columns):
    """Scales of blocks as a matrix."""
    scale = scale.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
    return scale[:rows, :columns]


def blocks(weight, powers=False):
    rows, columns = weight.shape
    high, wide = -(-rows // BLOCK), -(-columns // BLOCK)
    padded = torch.zeros(high * BLOCK, wide * BLOCK)
    padded[:rows, :columns] = weight.abs()
    largest = padded.view(high, BLOCK, wide, BLOCK).amax(dim=(1, 3))
    scale = (largest / LARGEST).bfloat16()
    if powers:
        scale = (largest / LARGEST).log2().ceil().exp2().bfloat16()
    factor = spread(scale.float(), rows, columns)
    code = to_f8(weight, factor)
    return {"weight": code, "weight_scale_inv": scale}, code.float() * factor


def static(weight):
    scale = weight.abs().max() / LARGEST
    code = to_f8(weight, scale)
    return ({"weight": code, "weight_scale": scale, "input_scale": torch.tensor(0.05)},
            code.float() * scale)


def channel(weight):
    from compressed_tensors.quantization import QuantizationArgs
    from compressed_tensors.quantization.lifecycle.forward import dequantize, quantize
    from compressed_tensors.quantization.utils import calculate_qparams

    args = QuantizationArgs(num_bits=8, type="float", strategy="channel")
    scale, zero = calculate_qparams(weight.amin(1, keepdim=True), weight.amax(1, keepdim=True), args)
    scale = scale.bfloat16()
    code = quantize(weight, scale.float(), zero, args, dtype=torch.float8_e4m3fn)
    meant = code.float() * scale.float()
    assert torch.equal(dequantize(code, scale.float(), zero, args).float(), meant)
    return {"weight": code, "weight_scale": scale}, meant


def config_of(kind):
    if kind == "fp8_e8m0":
        return {**config_of("fp8_block"), "scale_fmt": "ue8m0"}
    if kind == "fp8_block":
        return {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                "weight_block_size": [BLOCK, BLOCK], "modules_to_not_convert": ["lm_head"]}
    if kind == "fp8_static":
        return {"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["lm_head"]}
    from compressed_tensors.quantization import QuantizationConfig, QuantizationScheme
    weights = dict(num_bits=8, type="float", strategy="channel")
    inputs = dict(num_bits=8, type="float", strategy="token", dynamic=True)
    scheme = QuantizationScheme(targets=["Linear"], weights=weights, input_activations=inputs)
    config = QuantizationConfig(config_groups={"group_0": scheme}, ignore=["lm_head", "re:.*gate$"],
                                format="float-quantized", quantization_status="compressed")
    return config.model_dump(mode="json")


def quantize(kind, model, config):
    stored = {}
    split = {"fp8_block": blocks, "fp8_e8m0": lambda weight: blocks(weight, True), "fp8_static": static, "ct_channel": channel}[kind]
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2 and "proj" in name:
            tensors, meant = split(parameter.data)
            parameter.data.copy_(meant)
            stem = name.removesuffix("weight")
            stored.update({stem + part: tensor.contiguous() for part, tensor in tensors.items()})
    config["quantization_config"] = config_of(kind)
    config["dtype"] = "bfloat16"
    return stored


def dequantized(tensors):
    """The matrices that such tensors mean, in the type that they have here."""
    meant = {}
    for name, tensor in tensors.items():
        if name.endswith(("weight_scale", "input_scale", "_scale_inv")):
            continue
        scale = tensors.get(name + "_scale", tensors.get(name + "_scale_inv"))
        if scale is not None and scale.dim() == 2 and scale.shape[0] != tensor.shape[0]:
            scale = spread(scale, *tensor.shape)
        meant[name] = tensor if scale is None else tensor * scale
    return meant
