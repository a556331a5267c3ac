"""Which device is used, what its kernels are held against, and its graphs, on the demo model."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import demo_model

PROGRAM = sys.argv.pop(1)
MODEL = demo_model.path()


def run(*arguments, env=None):
    return subprocess.run(
        [PROGRAM, *arguments], input="", capture_output=True, text=True, timeout=300,
        env={**os.environ, **(env or {})}, check=False)


class Devices(unittest.TestCase):
    def chosen(self, *arguments, **env):
        done = run("devices", "--json", *arguments, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def refuse(self, code, words, *arguments, **env):
        done = run(*arguments, env=env)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        return done.stdout

    def backends(self):
        return {backend["name"]: backend for backend in self.chosen("--device", "cpu")["backends"]}

    def test_every_backend_shows_its_devices_or_says_why_not(self):
        shown = self.chosen("--device", "cpu")
        for backend in shown["backends"]:
            self.assertEqual(backend["devices"] == 0, backend["absent_reason"] != "", backend)
            self.assertEqual(backend["masks"] == "", backend["name"] == "cpu", backend)
            # What is opened at run time beside the driver is there, or told to be absent.
            libraries = " ".join(backend["libraries"])
            self.assertEqual("cuBLASLt: libcublasLt.so.1" in libraries, backend["name"] == "cuda", backend)
        for device in shown["devices"]:
            self.assertEqual(device["driver"] == "", device["id"] == "cpu", device)
        text = run("devices", "--device", "cpu").stdout
        self.assertIn("would use cpu (", text)
        self.assertIn("asked for by name", text)
        built = self.backends()
        for name in built:
            self.assertRegex(text, rf"(?m)^{name}")
        version = run("--version").stdout
        for name in shown["not_built"]:
            self.assertIn(f"{name}: not built into this program", text)
            self.assertRegex(version, rf"built without .*\b{name}\b")
        self.assertEqual(sorted([*built, *shown["not_built"]]), ["cpu", "cuda", "xpu"])

    def test_the_choice_is_trimmed_of_any_case_and_blank_is_auto(self):
        automatic = self.chosen()["chosen"]
        for value in ["", "  ", " Auto\t"]:
            self.assertEqual(self.chosen(SLUICE_DEVICE=value)["chosen"], automatic)
        self.assertEqual(self.chosen(SLUICE_DEVICE=" CPU ")["chosen"], "cpu")
        self.assertEqual(self.chosen("--device", "cpu", SLUICE_DEVICE="nonsense")["chosen"], "cpu")

    def test_an_unknown_device_is_wrong_usage_and_lists_the_legal_ones(self):
        for command in [["devices"], ["generate", MODEL, "-p", "x"], ["devices", "--verify"]]:
            self.refuse(2, ["gpu", "SLUICE_DEVICE", "auto, cpu, cuda, cuda:N, xpu, xpu:N"],
                        *command, SLUICE_DEVICE="gpu")

    def test_a_device_that_is_not_there_is_exit_code_4_and_what_is_there_is_shown(self):
        stdout = self.refuse(4, ["cuda:63", "not available"], "devices", "--device", "cuda:63")
        self.assertIn("cpu\n", stdout)
        stdout = self.refuse(4, ["xpu:63"], "devices", "--device", "xpu:63", "--json")
        self.assertIsNone(json.loads(stdout)["chosen"])
        self.refuse(4, ["cuda:63"], "devices", "--device", "cuda:63", "--verify")

    def test_a_malformed_list_stops_its_backend_and_auto_but_no_other_device(self):
        backends = self.backends()
        owners = {"CUDA_VISIBLE_DEVICES": "cuda", "ZE_AFFINITY_MASK": "xpu",
                  "ONEAPI_DEVICE_SELECTOR": "xpu"}
        for variable, owner in owners.items():
            self.assertEqual(self.chosen("--device", "cpu", **{variable: "?"})["chosen"], "cpu")
            if owner not in backends:
                self.chosen(**{variable: "?"})
                continue
            for device in [owner, owner + ":0", "auto"]:
                self.refuse(2, [f'{variable}="?"', "legal are"], "devices", "--device", device,
                            **{variable: "?"})
            # Nothing runs: a warning, and the devices that can be known.
            done = run("inspect", MODEL, "--json", env={variable: "?"})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f'{variable}="?"', done.stderr)
            self.assertIn("cpu", json.loads(done.stdout)["memory"])

    def test_a_list_in_force_is_shown(self):
        values = {"CUDA_VISIBLE_DEVICES": "-1", "ZE_AFFINITY_MASK": "0.0",
                  "ONEAPI_DEVICE_SELECTOR": "cuda:*"}
        shown = {b["name"]: b for b in self.chosen("--device", "cpu", **values)["backends"]}
        if "cuda" in shown:
            self.assertEqual(shown["cuda"]["masks"], 'CUDA_VISIBLE_DEVICES="-1"')
            self.assertEqual(shown["cuda"]["devices"], 0)
            self.refuse(4, ["CUDA_VISIBLE_DEVICES=\"-1\""], "devices", "--device", "cuda", **values)
        if "xpu" in shown:
            self.assertEqual(shown["xpu"]["masks"],
                             'ZE_AFFINITY_MASK="0.0", ONEAPI_DEVICE_SELECTOR="cuda:*"')
            self.assertEqual(shown["xpu"]["devices"], 0)
            self.refuse(4, ["ONEAPI_DEVICE_SELECTOR=\"cuda:*\""], "devices", "--device", "xpu",
                        **values)

    def verified(self, *flags):
        done = run("devices", "--verify", "--cases", "2", "--json", *flags)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        verified = json.loads(done.stdout)
        self.assertEqual(verified["failed"], 0)
        self.assertEqual(verified["implementations"], len(verified["results"]))
        return verified

    def test_checking_each_op_changes_no_answer_and_takes_the_graphs(self):
        flags = ["generate", MODEL, "-p", "Once upon", "-n", "6", "--temperature", "0",
                 "--device", "xpu", "--explain-kernels"]
        plain = run(*flags)
        self.assertIn("graphs for steps of", plain.stderr)
        for checked in [run(*flags, "--check-each-op"), run(*flags, env={"SLUICE_CHECK_EACH_OP": "1"})]:
            self.assertEqual(checked.returncode, 0, checked.stderr)
            self.assertEqual(checked.stdout, plain.stdout)
            self.assertIn("no graphs: --check-each-op", checked.stderr)
        self.refuse(2, ["check-each-op"], "generate", MODEL, "-p", "x",
                    SLUICE_CHECK_EACH_OP="perhaps")

    def test_graphs_has_levels_and_was_a_flag(self):
        def note(*flags, **env):
            done = run("generate", "--explain-kernels", *flags, "-p", "x", "-n", "1",
                       "--device", "xpu", env=env)
            self.assertEqual(done.returncode, 0, done.stderr)
            notes = [line for line in done.stderr.splitlines() if "graphs" in line]
            return notes[-1].split(" info ")[1]

        full, none = note(MODEL), note(MODEL, "--no-graphs")
        self.assertIn("graphs for steps of", full)
        self.assertNotIn("in pieces", full)
        self.assertIn("no graphs: --graphs none", none)
        pieces = note(MODEL, "--graphs", "piecewise")
        self.assertIn("in pieces between which there run all kinds of attention", pieces)
        for flags in [["--graphs", MODEL], [MODEL, "--graphs"], ["--graphs=true", MODEL],
                      ["--graphs", "full", MODEL], ["--no-graphs", "--graphs", MODEL]]:
            self.assertEqual(note(*flags), full, flags)
        for flags in [["--graphs=false", MODEL], ["--graphs", "none", MODEL]]:
            self.assertEqual(note(*flags), none, flags)
        for value, wanted in [("true", full), ("0", none), ("OFF", none), ("piecewise", pieces)]:
            self.assertEqual(note(MODEL, SLUICE_GRAPHS=value), wanted, value)
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
            config.write("graphs = false\n")
            config.flush()
            self.assertEqual(note(MODEL, "--config", config.name), none)
            self.assertEqual(note(MODEL, "--config", config.name, "--graphs"), full)
        self.assertIn("and of chunks in 16 32 64 100 tokens",
                      note(MODEL, "--graph-chunk-tokens", "100"))
        self.refuse(2, ["--graphs", "fast", "none, piecewise or full"],
                    "generate", MODEL, "-p", "x", "--graphs=fast")
        done = run("generate", MODEL, "-p", "--no-graphs", "-n", "1", "--temperature", "0", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)  # a prompt

    def test_verify_holds_every_kernel_against_the_references(self):
        flags = ["devices", "--verify", "--device", "cpu", "--isa", "ref", "--cases", "2"]
        verified = self.verified("--device", "cpu", "--isa", "ref")
        self.assertEqual(verified["device"], "cpu")
        self.assertIn("linear", {result["op"] for result in verified["results"]})
        text = run(*flags).stdout
        self.assertIn("verdict", text)
        self.assertGreater(verified["not_run"], 0)  # those of AVX2 and above
        self.assertTrue(text.endswith(f"{verified['implementations']} implementations, 0 failed, "
                                      f"{verified['not_run']} not for this device\n"))
        self.refuse(2, ["--cases"], "devices", "--verify", "--cases", "0")

    def test_verify_holds_opencl_to_the_same_ops(self):
        cpu = self.verified("--device", "cpu", "--isa", "ref")
        xpu = self.verified("--device", "xpu")
        self.assertEqual(xpu["device"], "xpu:0")
        # Vectors of texts are pooled on the CPU alone: models that embed are refused elsewhere. No
        # product there takes rows as codes, so nothing makes them. Chains of products are for
        # devices on which ops take long to start beside what they do, and so are norms with RoPE.
        elsewhere = {"pool", "per_token_group_quant", "grouped_gate", "normed_rope_kv",
                     "dense_chain", "experts_chain"}
        self.assertEqual({result["op"] for result in xpu["results"]} | elsewhere,
                         {result["op"] for result in cpu["results"]})
        self.assertEqual({result["cases"] for result in xpu["results"]}, {2})


if __name__ == "__main__":
    unittest.main()
