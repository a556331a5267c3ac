"""What a head of EAGLE-3's form guesses in a tree, as EAGLE-2 searches it: writes tree.json beside
the head in tests/golden/drafts. Plain Python in double precision, without a package; it first checks
itself against draft_logprobs.bin, which eagle3.py wrote with PyTorch.

Usage: python3 tools/golden/eagle_trees.py
"""
import array
import json
import math
import os
import struct

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden",
                    "drafts")
BEAMS, CHILDREN, DEPTHS = 2, 3, 4
EPS, HEAD_DIM, THETA = 1e-5, 16, 10000.0


def load(name):
    """Tensors of a safetensors file as lists of rows, or a list where they have one dimension."""
    with open(os.path.join(ROOT, name, "model.safetensors"), "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for key, entry in json.loads(data[8:8 + size]).items():
        if key == "__metadata__" or entry["dtype"] == "BOOL":
            continue
        begin, end = (8 + size + at for at in entry["data_offsets"])
        values = array.array({"F32": "f", "I64": "q"}[entry["dtype"]], data[begin:end]).tolist()
        width = entry["shape"][-1]
        tensors[key] = values if len(entry["shape"]) == 1 else [
            values[at:at + width] for at in range(0, len(values), width)]
    return tensors


def product(matrix, x):
    return [sum(map(lambda a, b: a * b, row, x)) for row in matrix]


def add(a, b):
    return [x + y for x, y in zip(a, b)]


def norm(weight, x):
    scale = 1.0 / math.sqrt(sum(v * v for v in x) / len(x) + EPS)
    return [v * scale * w for v, w in zip(x, weight)]


def rotate(x, position):
    """Each head by its position, with halves side by side."""
    out, half = [], HEAD_DIM // 2
    for head in range(0, len(x), HEAD_DIM):
        first, second = x[head:head + half], x[head + half:head + HEAD_DIM]
        angles = [position * THETA ** (-2.0 * i / HEAD_DIM) for i in range(half)]
        out += [a * math.cos(t) - b * math.sin(t) for a, b, t in zip(first, second, angles)]
        out += [b * math.cos(t) + a * math.sin(t) for a, b, t in zip(first, second, angles)]
    return out


def attention(tensors, prefix, x, position, keys, values):
    """Of a token behind those whose keys and values are given."""
    q = rotate(product(tensors[prefix + "q_proj.weight"], x), position)
    keys.append(rotate(product(tensors[prefix + "k_proj.weight"], x), position))
    values.append(product(tensors[prefix + "v_proj.weight"], x))
    shared = len(q) // len(keys[0])
    out = []
    for head in range(len(q) // HEAD_DIM):
        mine = q[head * HEAD_DIM:(head + 1) * HEAD_DIM]
        at = head // shared * HEAD_DIM
        scores = [sum(a * b for a, b in zip(mine, k[at:at + HEAD_DIM])) / math.sqrt(HEAD_DIM)
                  for k in keys]
        most = max(scores)
        weights = [math.exp(score - most) for score in scores]
        total = sum(weights)
        out += [sum(w * v[at + i] for w, v in zip(weights, values)) / total
                for i in range(HEAD_DIM)]
    return product(tensors[prefix + "o_proj.weight"], out)


def mlp(tensors, prefix, x):
    gate = product(tensors[prefix + "gate_proj.weight"], x)
    up = product(tensors[prefix + "up_proj.weight"], x)
    return product(tensors[prefix + "down_proj.weight"],
                   [g / (1.0 + math.exp(-g)) * u for g, u in zip(gate, up)])


def log_softmax(x):
    most = max(x)
    total = most + math.log(sum(math.exp(v - most) for v in x))
    return [v - total for v in x]


def states_read(target, ids, layers):
    """Of each token what these layers give, side by side; and the log-probs behind the last."""
    count = 1 + max(int(key.split(".")[2]) for key in target if key.startswith("model.layers"))
    caches = [([], []) for _ in range(count)]
    read = []
    for position, token in enumerate(ids):
        x, kept = target["model.embed_tokens.weight"][token], []
        for layer in range(count):
            prefix = f"model.layers.{layer}."
            normed = norm(target[prefix + "input_layernorm.weight"], x)
            x = add(x, attention(target, prefix + "self_attn.", normed, position, *caches[layer]))
            normed = norm(target[prefix + "post_attention_layernorm.weight"], x)
            x = add(x, mlp(target, prefix + "mlp.", normed))
            if layer in layers:
                kept += x
        read.append(kept)
    return read, log_softmax(product(target["lm_head.weight"], norm(target["model.norm.weight"], x)))


class Head:
    def __init__(self, tensors, embedding):
        self.tensors, self.embedding = tensors, embedding
        self.target_ids = [guess + off for guess, off in enumerate(tensors["d2t"])]

    def step(self, token, states, position, keys, values):
        """Log-probs of guesses behind `token`, and the states for the next one."""
        t = self.tensors
        joined = norm(t["midlayer.input_layernorm.weight"], self.embedding[token]) + norm(
            t["midlayer.hidden_norm.weight"], states)
        x = add(states, attention(t, "midlayer.self_attn.", joined, position, keys, values))
        x = add(x, mlp(t, "midlayer.mlp.", norm(t["midlayer.post_attention_layernorm.weight"], x)))
        return log_softmax(product(t["lm_head.weight"], norm(t["norm.weight"], x))), x


def grow(head, log_probs, states, position, keys, values):
    """Nodes by depth, those behind each beam together: [token, number of the parent, log-prob]."""
    nodes, beams = [], [(0.0, 0, log_probs, states, keys, values)]
    for depth in range(DEPTHS):
        found = []
        for together, parent, given, out, its_keys, its_values in beams:
            best = sorted(range(len(given)), key=lambda guess: (-given[guess], guess))[:CHILDREN]
            for guess in best:
                nodes.append([head.target_ids[guess], parent, given[guess]])
                found.append((together + given[guess], len(nodes), out, its_keys, its_values))
        found.sort(key=lambda node: (-node[0], node[1]))
        beams = []
        for together, number, before, its_keys, its_values in found[:BEAMS]:
            its_keys, its_values = list(its_keys), list(its_values)
            token = nodes[number - 1][0]
            given, out = head.step(token, before, position + depth, its_keys, its_values)
            beams.append((together, number, given, out, its_keys, its_values))
    return nodes


def main():
    folder = os.path.join(ROOT, "eagle3")
    with open(os.path.join(folder, "expected.json"), encoding="utf-8") as file:
        expected = json.load(file)
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        layers = json.load(file)["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
    rows = array.array("f")
    with open(os.path.join(folder, "draft_logprobs.bin"), "rb") as file:
        rows.frombytes(file.read())
    target = load("target")
    head = Head(load("eagle3"), target["model.embed_tokens.weight"])
    prompt = expected["prompt"]
    read, behind = states_read(target, prompt, layers)
    assert max(range(len(behind)), key=behind.__getitem__) == expected["drawn"]
    keys, values, furthest = [], [], 0.0
    for position, token in enumerate(prompt[1:] + [expected["drawn"]]):
        states = product(head.tensors["fc.weight"], read[position])
        given, out = head.step(token, states, position, keys, values)
        row = rows[position * len(given):(position + 1) * len(given)]
        furthest = max(furthest, *(abs(a - b) for a, b in zip(given, row)))
    assert furthest < 3e-5, furthest
    nodes = grow(head, given, out, len(prompt), keys, values)
    chain, parent = [], 0  # the likeliest all along
    for _ in range(DEPTHS):
        number = next(i for i, node in enumerate(nodes) if node[1] == parent) + 1
        chain, parent = chain + [nodes[number - 1][0]], number
    assert chain == expected["drafts"][:DEPTHS], chain
    aside = sum(1 for node in nodes if node[1] != 0 and nodes[node[1] - 1][1] != 0)
    print(f"{len(nodes)} nodes, {aside} of them deep; the head is {furthest:.1e} from PyTorch's")
    with open(os.path.join(folder, "tree.json"), "w", encoding="utf-8") as file:
        json.dump({"beams": BEAMS, "children": CHILDREN, "depths": DEPTHS,
                   "nodes": [[token, parent, round(log_prob, 7)]
                             for token, parent, log_prob in nodes]}, file)
        file.write("\n")


if __name__ == "__main__":
    main()
