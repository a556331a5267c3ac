"""OpenVINO GenAI's figures on one GGUF file; run by bench/peers/compare in an environment of its own.

Prints one JSON object, row key -> samples, or with --answer the text of a short answer.
"""

import argparse
import json
import random
import sys
import time


def numbers(text):
    return [int(word) for word in text.split(",")]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--output", type=int, default=64)
    parser.add_argument("--prefill", type=numbers, default=[])
    parser.add_argument("--context", type=numbers, default=[])
    parser.add_argument("--batch", type=numbers, default=[])
    parser.add_argument("--batch-context", type=int, default=128)
    parser.add_argument("--answer", type=int, default=0)
    return parser.parse_args()


class Pipeline:
    def __init__(self, options):
        import numpy  # the environment's
        import openvino
        import openvino_genai
        self.numpy, self.openvino, self.genai = numpy, openvino, openvino_genai
        self.pipe = openvino_genai.LLMPipeline(options.model, "CPU",
                                               INFERENCE_NUM_THREADS=options.threads)
        self.random = random.Random(1)

    def seconds(self, batch, prompt, tokens):
        """Of answering `batch` random prompts with `tokens` tokens each."""
        ids = [[self.random.randrange(1000, 40000) for _ in range(prompt)] for _ in range(batch)]
        ids = self.numpy.array(ids, dtype=self.numpy.int64)
        inputs = self.genai.TokenizedInputs(self.openvino.Tensor(ids),
                                            self.openvino.Tensor(self.numpy.ones_like(ids)))
        config = self.genai.GenerationConfig(max_new_tokens=tokens, min_new_tokens=tokens,
                                             ignore_eos=True, do_sample=False)
        start = time.monotonic()
        self.pipe.generate(inputs, config)
        return time.monotonic() - start

    def decode(self, batch, context, output):
        """Tokens per second: what more tokens take beyond the first."""
        first = self.seconds(batch, max(1, context), 1)
        return batch * output / (self.seconds(batch, max(1, context), output + 1) - first)


def main():
    options = arguments()
    pipeline = Pipeline(options)
    if options.answer:
        text = pipeline.pipe.generate("The capital of France is Paris and the capital of Italy is "
                                      "Rome. The capital of", max_new_tokens=options.answer,
                                      ignore_eos=True, apply_chat_template=False)
        print(str(text) or "nothing", flush=True)
        return
    work = {f"prefill {n}": lambda n=n: n / pipeline.seconds(1, n, 1) for n in options.prefill}
    work |= {f"decode 1 at {n}": lambda n=n: pipeline.decode(1, n, options.output)
             for n in options.context}
    work |= {f"decode {n}": lambda n=n: pipeline.decode(n, options.batch_context, options.output)
             for n in options.batch}
    found = {}
    for key, measure in work.items():
        measure()  # warms up
        found[key] = [measure() for _ in range(options.repeat)]
    json.dump(found, sys.stdout)
    print()


if __name__ == "__main__":
    main()
