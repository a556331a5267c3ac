"""The comparison with peers, without the peers: outputs that were recorded, and what is made of them."""

import json
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../bench/peers"))

import load
import processes
import programs
import rows


def sample(name):
    with open(os.path.join(HERE, "samples", name), encoding="utf-8") as file:
        return file.read()


class Outputs(unittest.TestCase):
    def test_llama_bench_gives_prefill_by_length_and_decode_by_depth(self):
        figures = programs.parse_llama_bench(sample("llama_bench.json"))
        self.assertEqual(set(figures), {"prefill 16", "prefill 32", "decode 1 at 0",
                                        "decode 1 at 64"})
        at_0 = figures["decode 1 at 0"]
        self.assertEqual((at_0.low, at_0.high), (9.00195, 11.711))
        self.assertAlmostEqual(at_0.median, (9.00195 + 11.711) / 2)

    def test_batched_bench_gives_decoded_tokens_of_all_sequences(self):
        self.assertEqual(programs.parse_batched_bench(sample("llama_batched_bench.txt")),
                         {2: 16.020891, 4: 26.142040})

    def test_our_bench_gives_speeds_and_shares(self):
        figures = programs.parse_sluice(sample("sluice_bench.json"), batched=False)
        self.assertEqual(set(figures), {"prefill 32", "decode 1 at 0", "decode 1 at 64"})
        raw = json.loads(sample("sluice_bench.json"))["results"][1]
        self.assertEqual(figures["decode 1 at 0"].share, raw["ceiling_share"])
        batched = programs.parse_sluice(sample("sluice_bench.json"), batched=True)
        self.assertEqual(set(batched), {"decode 1"})  # the prefill of a batched run is no row

    def test_perplexity_and_openvino(self):
        printed = "x\nFinal estimate: PPL = 20.9882 +/- 0.42013\n"
        self.assertEqual(programs.parse_llama_perplexity(printed), 20.9882)
        figures = programs.parse_openvino('a warning\n{"prefill 128": [3, 1, 2], "decode 8": [5]}\n')
        self.assertEqual(figures["prefill 128"], rows.Figure(2, 1, 3))


class Commands(unittest.TestCase):
    def test_the_instruction_set_is_handed_on(self):
        ours = programs.Sluice(programs.Settings("m.gguf", 2, isa="avx2"), "sluice")
        command = ours.generate(1)
        self.assertEqual(command[command.index("--isa") + 1], "avx2")
        self.assertNotIn("--isa", programs.Sluice(programs.Settings("m.gguf", 2), "s").generate(1))


class Arithmetic(unittest.TestCase):
    def row(self, key):
        return next(row for row in rows.all_rows() if row.key == key)

    def test_a_ratio_above_1_is_better_in_both_directions(self):
        faster, slower = rows.of_samples([20]), rows.of_samples([10])
        self.assertEqual(rows.ratio(self.row("prefill 512"), faster, slower), 2)
        self.assertEqual(rows.ratio(self.row("start"), slower, faster), 2)
        self.assertIsNone(rows.ratio(self.row("start"), slower, None))

    def test_rounds_merge_to_the_median_within_the_widest_spread(self):
        merged = rows.merged([rows.Figure(5, 4, 6, 0.5), rows.Figure(7, 1, 8, 0.7),
                              rows.Figure(6, 5, 9)])
        self.assertEqual((merged.median, merged.low, merged.high), (6, 1, 9))
        self.assertAlmostEqual(merged.share, 0.6)

    def test_bars_differ_with_amx_and_with_the_format(self):
        self.assertEqual(rows.bars(True, True, {})["prefill 512"], rows.Bar(5, 2.5))
        self.assertEqual(rows.bars(False, True, {})["prefill 512"], rows.Bar(7, share=0.60))
        self.assertEqual(rows.bars(False, False, {})["decode 1 at 0"], rows.Bar(1.25))
        self.assertNotIn("decode 32", rows.bars(True, False, {}))
        self.assertEqual(rows.bars(True, True, {"start": 0.2})["start"].limit, 0.2)

    def test_perplexity_may_be_a_little_above(self):
        row, bar = self.row("perplexity"), rows.bars(True, False, {})["perplexity"]
        for ours, met in ((20.05, True), (20.07, False), (19, True)):
            figures = {rows.US: rows.of_samples([ours]), rows.LLAMA: rows.of_samples([20])}
            self.assertEqual([found for _, found in rows.verdicts(row, bar, figures)], [met])
        self.assertIn("| 19.000 | 20.000 | 1.053x |", rows.table([row], {"perplexity": figures}, {}))

    def test_a_bar_is_met_missed_or_not_measured(self):
        figures = {rows.US: rows.Figure(60, 60, 60, 0.9), rows.LLAMA: rows.of_samples([10])}
        asked = rows.verdicts(self.row("decode 32"), rows.Bar(6, 3, share=0.95), figures)
        self.assertEqual([met for _, met in asked], [True, None, False])
        start = rows.verdicts(self.row("start"), rows.Bar(limit=0.2),
                              {rows.US: rows.of_samples([0.3])})
        self.assertEqual(start, [("<= 0.200 s", False)])

    def test_the_table_has_a_line_per_measured_row(self):
        results = {"prefill 512": {rows.US: rows.Figure(700, 690, 710, 0.62),
                                   rows.LLAMA: rows.of_samples([100])},
                   "start": {rows.US: rows.of_samples([0.1])}}
        asked = rows.bars(False, True, {"start": 0.2})
        lines = rows.table(rows.all_rows(), results, asked).splitlines()
        self.assertEqual(len(lines), 4)
        self.assertEqual(len({line.count("|") for line in lines}), 1)
        self.assertIn("7.00x", lines[2])
        self.assertIn(">= 7x llama.cpp: met; >= 60% of the ceiling: met", lines[2])
        self.assertIn("| – |", lines[3])
        entries = rows.report(rows.all_rows(), results, asked)
        self.assertEqual([entry["row"] for entry in entries], ["prefill 512", "start"])
        self.assertEqual(entries[0]["ratio"], {rows.LLAMA: 7})

    def test_every_row_belongs_to_a_group_that_all_but_openvino_measure(self):
        self.assertEqual(set(rows.GROUPS), set(programs.LlamaCpp.groups))
        self.assertLess(set(programs.OpenVino.groups), set(rows.GROUPS))


class Load(unittest.TestCase):
    def test_requests_are_mixed_and_the_same_every_time(self):
        found = load.requests(32)
        self.assertEqual(found, load.requests(32))
        self.assertGreater(len({len(prompt.split()) for prompt, _ in found}), 3)
        self.assertGreater(len({tokens for _, tokens in found}), 2)

    def test_the_file_of_a_load_has_its_requests(self):
        lines = [json.loads(line) for line in load.dataset(5).splitlines()]
        self.assertEqual([(line["prompt"], line["output_len"]) for line in lines],
                         load.requests(5))

    def test_our_client_gives_rates_and_times(self):
        printed = sample("sluice_bench_serve.json")
        raw = json.loads(printed)
        found = load.summary(printed)
        self.assertEqual(found["serving"], raw["output_throughput"])
        self.assertEqual(found["itl p99"], raw["p99_itl_ms"])
        self.assertEqual(set(found), {row.key for row in rows.all_rows() if row.group == "serving"})
        with self.assertRaisesRegex(RuntimeError, "1 requests failed"):
            load.summary(json.dumps({**raw, "failed": 1}))


class Processes(unittest.TestCase):
    def test_blanks_are_no_first_byte(self):
        seconds = processes.seconds_to_first_byte([sys.executable, "-c", "print(); print('x')"])
        self.assertGreater(seconds, 0)
        with self.assertRaises(SystemExit):
            processes.seconds_to_first_byte([sys.executable, "-c", "print(' ')"])

    def test_peak_memory_sees_what_was_freed(self):
        program = "x = bytearray(b'1') * (200 << 20); del x"
        self.assertGreater(processes.peak_memory([sys.executable, "-c", program]), 200)


if __name__ == "__main__":
    unittest.main()
