"""Matrices in 4 bits as compressed-tensors' "pack-quantized" has them: symmetric, a scale in F16 for
each 32 columns of a row."""
import torch

GROUP, LOWEST, HIGHEST = 32, -8, 7
# Of the scale at which the largest negative value is met; a smaller one rounds small values less.
TRIED = [8 / 7, 1.0, 0.93, 0.86, 0.8]


def codes_and_scales(matrix):
    """Codes [rows, groups, GROUP] from LOWEST to HIGHEST, and scales [rows, groups, 1]."""
    groups = matrix.float().unflatten(1, (-1, GROUP))
    whole = (groups.abs().amax(-1, keepdim=True) / -LOWEST).clamp(min=6.2e-5)
    best, best_error = None, None
    for share in TRIED:
        scale = (whole * share).half().float().clamp(min=6.2e-5)
        codes = (groups / scale).round().clamp(LOWEST, HIGHEST)
        error = ((codes * scale - groups) ** 2).sum(-1, keepdim=True)
        if best is None:
            best, best_error = (codes, scale), error
            continue
        better = error < best_error
        best = (torch.where(better, codes, best[0]), torch.where(better, scale, best[1]))
        best_error = torch.where(better, error, best_error)
    return best


def as_if_packed(matrix):
    codes, scales = codes_and_scales(matrix)
    return (codes * scales).flatten(1)


def packed(name, matrix):
    """The tensors that stand for the matrix `name`.weight."""
    codes, scales = codes_and_scales(matrix)
    words = (codes.flatten(1) - LOWEST).to(torch.int64).unflatten(1, (-1, 8))
    shifts = 4 * torch.arange(8, device=matrix.device)
    return {name + ".weight_packed": (words << shifts).sum(-1).to(torch.int32).contiguous(),
            name + ".weight_scale": scales[..., 0].half().contiguous(),
            name + ".weight_shape": torch.tensor(matrix.shape)}


def quantization_config():
    weights = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": GROUP,
               "dynamic": False}
    return {"quant_method": "compressed-tensors", "format": "pack-quantized",
            "quantization_status": "compressed", "ignore": [],
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights,
                                          "input_activations": None, "output_activations": None}}}
