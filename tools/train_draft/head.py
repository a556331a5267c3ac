"""A head of EAGLE-3's form, as it is trained: applied to the model's states, then to its own.

After the paper (Li et al., arXiv 2503.01840). tools/golden/eagle3.py has the same form, written for
one draft after the other.
"""
import torch
import torch.nn.functional as F

from llama import rope_tables, rotate
from packing import as_if_packed

MATRICES = ["fc", "midlayer.self_attn.q_proj", "midlayer.self_attn.k_proj", "midlayer.self_attn.v_proj",
            "midlayer.self_attn.o_proj", "midlayer.mlp.gate_proj", "midlayer.mlp.up_proj",
            "midlayer.mlp.down_proj", "lm_head"]
NORMS = ["midlayer.input_layernorm", "midlayer.hidden_norm", "midlayer.post_attention_layernorm", "norm"]
READ = 3  # layers of the model


class SoftCrossEntropy(torch.autograd.Function):
    """Sum over rows of weight * cross entropy, between what the head gives (logits) and what the
    model does (probabilities). The gradient is made on the way forward, so that no copy of the
    logits in F32 is kept."""

    @staticmethod
    def forward(ctx, logits, wanted, weights):
        total, gradient = logits.new_zeros((), dtype=torch.float32), torch.empty_like(logits)
        for begin in range(0, len(logits), 8192):
            part = slice(begin, begin + 8192)
            given = torch.log_softmax(logits[part].float(), dim=-1)
            expected, weight = wanted[part].float(), weights[part, None]
            total -= (expected * given * weight).sum()
            gradient[part] = ((given.exp() - expected) * weight).to(logits.dtype)
        ctx.save_for_backward(gradient)
        return total

    @staticmethod
    def backward(ctx, outer):
        return ctx.saved_tensors[0] * outer.to(ctx.saved_tensors[0].dtype), None, None


class Head(torch.nn.Module):
    def __init__(self, model, kept, layers, sizes):
        """`kept`: ids that it guesses, ascending; `layers`: those of the model that it reads; `sizes`:
        of each number that these give, by root of the mean square. It begins as the model's last
        layer, which reads what the last of `layers` gave. Some of these numbers are hundreds of times
        as large as others, so that `fc` is trained as if each were divided by its size, and all that
        is added up is made as small as numbers behind a norm."""
        super().__init__()
        self.shape, self.layers, shape = model.shape, layers, model.shape
        self.register_buffer("kept", kept)
        self.register_buffer("sizes", sizes.float())
        unit = sizes[-shape.hidden:].float().pow(2).mean().sqrt().cpu()
        self.cosines, self.sines = (table.to(model.dtype) for table in
                                    rope_tables(shape, shape.context, model.device))
        last = lambda name: model.weights[f"layers.{shape.layers - 1}.{name}"].float()
        small = lambda rows: 0.02 * torch.randn(rows, shape.hidden)
        begin = {"fc": torch.cat([small((READ - 1) * shape.hidden).T.contiguous(),
                                  (sizes[-shape.hidden:].float().cpu() / unit).diag()], dim=1)}
        for name in "qkv":
            matrix = last(f"self_attn.{name}_proj")
            begin[f"midlayer.self_attn.{name}_proj"] = torch.cat([small(len(matrix)), matrix], dim=1)
        begin["midlayer.self_attn.o_proj"] = last("self_attn.o_proj") / unit
        for name in ("gate", "up", "down"):
            begin[f"midlayer.mlp.{name}_proj"] = last(f"mlp.{name}_proj")
        begin["midlayer.mlp.down_proj"] = begin["midlayer.mlp.down_proj"] / unit
        output = model.weights.get("lm_head", model.weights["embed_tokens"])
        begin["lm_head"] = output[kept.cpu()].float()
        begin["midlayer.input_layernorm"] = torch.ones(shape.hidden)
        begin["midlayer.hidden_norm"] = last("input_layernorm")
        begin["midlayer.post_attention_layernorm"] = last("post_attention_layernorm")
        begin["norm"] = model.weights["norm"].float()
        self.weights = torch.nn.ParameterDict(
            {name.replace(".", "/"): torch.nn.Parameter(begin[name].clone().to(model.device))
             for name in MATRICES + NORMS})

    def named(self):
        """As files have them."""
        named = {name.replace("/", "."): parameter for name, parameter in self.weights.items()}
        return {**named, "fc": named["fc"] / self.sizes}

    def computed(self, dtype, packed):
        """By name, what products read; `packed`: as if 4 bits were left, while gradients pass."""
        ready = {}
        for name, parameter in self.named().items():
            if packed and name in MATRICES:
                parameter = parameter + (as_if_packed(parameter.detach()) - parameter).detach()
            ready[name] = parameter.to(dtype)
        return ready

    def unroll(self, weights, embedded, states, steps):
        """`embedded` [rows, length, hidden]: of the tokens of whole texts; `states`: what the layers of
        the model gave for them. Gives for each step its logits [rows, places, kept]. At step s, place
        i guesses token i + 2 + s, and sees the model's states up to i alone."""
        shape, places = self.shape, embedded.shape[1] - 1 - steps
        normed = lambda x, name: F.rms_norm(x, (shape.hidden,), weights[name], shape.eps)
        states = F.linear(states[:, :places], weights["fc"])
        keys, values, unseen = [], [], torch.ones(places, places, dtype=torch.bool, device=states.device).triu(1)
        for step in range(steps):
            read = torch.cat([normed(embedded[:, 1 + step:1 + step + places], "midlayer.input_layernorm"),
                              normed(states, "midlayer.hidden_norm")], dim=-1)
            q, k, v = (F.linear(read, weights[f"midlayer.self_attn.{name}_proj"])
                       .unflatten(-1, (-1, shape.head_dim)).transpose(1, 2) for name in "qkv")
            cosines, sines = (table[step:step + places] for table in (self.cosines, self.sines))
            keys.append(rotate(k, cosines, sines))
            values.append(v)
            attended = self.attend(rotate(q, cosines, sines), keys, values, unseen)
            states = states + F.linear(attended.transpose(1, 2).flatten(2), weights["midlayer.self_attn.o_proj"])
            inner = normed(states, "midlayer.post_attention_layernorm")
            gate, up = (F.linear(inner, weights[f"midlayer.mlp.{name}_proj"]) for name in ("gate", "up"))
            states = states + F.linear(F.silu(gate) * up, weights["midlayer.mlp.down_proj"])
            yield F.linear(normed(states, "norm"), weights["lm_head"])

    def attend(self, q, keys, values, unseen):
        """`q` [rows, heads, places, head_dim]. A place sees all keys of the first step up to its own, and
        of each later step the one that it left itself."""
        rows, heads, places, width = q.shape
        kv_heads = keys[0].shape[1]
        q = q.view(rows, kv_heads, heads // kv_heads, places, width) * width ** -0.5
        scores = torch.matmul(q.flatten(2, 3), keys[0].transpose(2, 3)).unflatten(2, (-1, places))
        scores = scores.masked_fill(unseen, float("-inf"))
        own = [(q * key[:, :, None]).sum(-1, keepdim=True) for key in keys[1:]]
        shares = torch.softmax(torch.cat([scores] + own, dim=-1), dim=-1)
        attended = torch.matmul(shares[..., :places].flatten(2, 3), values[0]).unflatten(2, (-1, places))
        for number, value in enumerate(values[1:]):
            attended = attended + shares[..., places + number, None] * value[:, :, None]
        return attended.flatten(1, 2)
