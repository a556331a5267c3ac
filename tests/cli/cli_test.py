"""The subcommands on the demo model: what they print, their exit codes, and their one-sentence errors."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import demo_model

PROGRAM = sys.argv.pop(1)
MODEL = demo_model.path()


def run(*arguments, stdin="", env=None):
    return subprocess.run(
        [PROGRAM, *arguments], input=stdin, capture_output=True, text=True, timeout=300,
        env={**os.environ, **(env or {})}, check=False)


def generate(*arguments, env=None):
    done = run("generate", MODEL, "--temperature", "0", "--json", *arguments, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Refusals(unittest.TestCase):
    def refuse(self, code, words, *arguments, stdin=""):
        done = run(*arguments, stdin=stdin)
        self.assertEqual(done.returncode, code, done.stderr)
        lines = done.stderr.strip().splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertTrue(lines[0].startswith("sluice: "), lines[0])
        for word in words:
            self.assertIn(word, lines[0])


class Errors(Refusals):
    def test_usage_is_exit_code_2(self):
        self.refuse(2, ["nonsense"], "nonsense")
        self.refuse(2, ["model"], "generate", "-p", "x")
        self.refuse(2, ["--no-such-flag"], "generate", MODEL, "-p", "x", "--no-such-flag")
        self.refuse(2, ["threads", "100"], "generate", MODEL, "-p", "x", "--threads", "100")
        self.refuse(2, ["isa", "avx2"][1:], "generate", MODEL, "-p", "x", "--isa", "mmx")
        self.refuse(2, ["--kv-memory", "1XB"], "generate", MODEL, "-p", "x", "--kv-memory", "1XB")
        self.refuse(2, ["8192"], "generate", MODEL, "-p", "x", "--max-model-len", "100000")
        self.refuse(2, ["--max-num-seqs"], "generate", MODEL, "-p", "x", "--max-batch-tokens", "8")
        self.refuse(2, ["no tokens"], "generate", MODEL, "-p", "")
        self.refuse(2, ["choice", "empty"], "generate", MODEL, "-p", "x", "--choice", "")
        self.refuse(2, ["--force-op"], "generate", MODEL, "-p", "x", "--force-op", "nothing")
        self.refuse(2, ["--no-such-flag"], "bench", MODEL, "--no-such-flag")
        self.refuse(2, ["--kernels", "--serve"], "bench", MODEL, "--serve", "--kernels")
        self.refuse(2, ["--text", "--kernels"], "bench", MODEL, "--kernels", "--text", "x")
        self.refuse(2, ["blocks of the KV cache", "--kv-memory"], "bench", "--synthetic", "tiny",
                    "--device", "cpu", "--kernels", "--batch", "8", "--context", "100",
                    "--prompt-tokens", "8", "--kv-memory", "64KiB")
        self.refuse(2, ["model"], "bench")
        self.refuse(2, ["nope", "llama-3.1-8b, qwen3-8b"], "bench", "--synthetic", "nope")
        self.refuse(2, ["q4", "bf16, f16, fp8, q8_0, q4_k"], "bench", "--synthetic", "tiny", "--dtype", "q4")
        self.refuse(2, ["--dtype bf16", "--synthetic"], "bench", MODEL, "--dtype", "bf16")
        self.refuse(2, ["both", MODEL, "--synthetic tiny"], "bench", MODEL, "--synthetic", "tiny")
        self.refuse(2, ["nope", "tiny"], "generate", "synthetic:nope:bf16", "-p", "x")
        self.refuse(2, ["--batch", "0"], "bench", MODEL, "--batch", "0")
        self.refuse(2, ["--max-num-seqs 64"], "bench", MODEL, "--batch", "1,65")
        self.refuse(2, ["8192", "--max-model-len"], "bench", MODEL, "--context", "8191")
        self.refuse(2, ["--mix", "7xx", "122880x1,1024x63"], "bench", MODEL, "--mix", "7xx")
        self.refuse(2, ["--mix", "--max-num-seqs 64"], "bench", MODEL, "--mix", "8x64,9x1")
        self.refuse(2, ["--mix 8191", "--max-model-len"], "bench", MODEL, "--mix", "8191x1,1x3")
        self.refuse(2, ["threads", "1000"], "bench", MODEL, "--threads", "1000")
        self.refuse(2, ["threads", "1000"], "bench", "--ceilings", "--threads", "1000")
        self.refuse(2, ["linear=nope"], "generate", MODEL, "-p", "x", "--force-op", "linear=nope")
        self.refuse(2, ["second choice for norm"], "generate", MODEL, "-p", "x",
                    "--force-op", "norm=ref_norm,norm=ref_norm", "--device", "cpu")
        self.refuse(2, ["linear=", "ref_linear"], "generate", MODEL, "-p", "x",
                    "--force-op", "linear=")
        self.refuse(2, ["synthetic:tiny:bf16", "GGUF"], "quantize", "synthetic:tiny:bf16",
                    "/nonexistent/out.gguf", "--type", "Q4_0")
        for flag in ["--device", "--force-op"]:
            done = run("generate", MODEL, "-p", "x", flag, "x" * 100_000)
            self.assertEqual(done.returncode, 2, done.stderr[:300])
            self.assertLess(len(done.stderr), 1000)  # the names of all ops are in it
        self.refuse(2, ["3 --prot"], "generate", MODEL, "-p", "x", "3", "--prot")
        self.refuse(2, ["did you mean serve?"], "serv")
        self.refuse(2, ["use sluice fetch"], "pull", "smollm2")
        self.refuse(2, ["use sluice --version"], "version")
        self.refuse(2, ["100"], "chat", MODEL, "--top-p", "100")
        self.refuse(2, ["--prompt-tokens 9000", "--max-model-len"], "bench", MODEL,
                    "--prompt-tokens", "9000")
        self.refuse(2, ["--kv-dtype", "zz"], "bench", "--ceilings", "--kv-dtype", "zz")
        self.refuse(2, ["64 tokens", "--max-model-len"], "bench", MODEL, "--prompt-tokens", "16",
                    "--context", "63", "--batch", "1", "--output-tokens", "1",
                    "--max-model-len", "64")

    def test_a_folder_is_no_text_and_an_endless_file_has_an_end(self):
        self.refuse(2, ["/tmp", "directory"], "perplexity", MODEL, "/tmp")
        self.refuse(2, ["/tmp", "directory"], "tokenize", MODEL, "--file", "/tmp")
        for name in ["", "a" * 300 + ".gguf"]:
            self.refuse(2, ["cannot be written"], "quantize", MODEL, name, "--type", "Q4_0")

    def test_what_a_start_reads_is_a_regular_file(self):
        with tempfile.TemporaryDirectory() as folder:
            pipe = os.path.join(folder, "pipe.gguf")  # nobody writes to it
            os.mkfifo(pipe)
            for path, words in [(pipe, "regular"), ("/dev/zero", "regular"), ("/tmp", "folder")]:
                self.refuse(2, ["--config", path, words], "serve", MODEL, "--config", path)
                done = run("serve", MODEL, "--api-key-file", path, "--port", "0")
                self.assertEqual(done.returncode, 2, done.stderr)
                last = done.stderr.splitlines()[-1]  # behind what the log says of the model
                self.assertRegex(last, f"^sluice: the key file .*{path}.*{words}")
            for path in [pipe, "/dev/zero"]:
                for command in [["inspect", path], ["generate", path, "-p", "x"], ["tokenize", path],
                                ["quantize", path, os.path.join(folder, "out"), "--type", "Q4_0"]]:
                    self.refuse(3, [path, "regular"], *command)
            # The files of a model's folder, too.
            os.rename(pipe, os.path.join(folder, "config.json"))
            self.refuse(3, ["config.json", "regular"], "inspect", folder)

    def test_a_servers_options_and_port_are_tried_before_the_model_is_read(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            for code, words, options in [(1, ["port", port, "in use"], ["--port", port]),
                                         (2, ["/no/keys"], ["--api-key-file", "/no/keys"]),
                                         (2, ["a b"], ["--allow-host", "a b", "--port", "0"])]:
                self.refuse(code, words, "serve", "/no/such/model.gguf", *options)

    def test_a_prompt_too_long_names_a_remedy_that_there_is(self):
        done = run("generate", MODEL, "-p", "word " * 9000)
        self.assertEqual(done.returncode, 2)
        self.assertIn("8192", done.stderr)
        self.assertNotIn("--max-model-len", done.stderr)
        for words in [100, 1000]:
            self.refuse(2, ["64", "--max-model-len"], "generate", MODEL, "-p", "word " * words,
                        "--max-model-len", "64")

    def test_sizes_come_in_units_that_fit(self):
        self.refuse(4, [" 1 B"], "generate", MODEL, "-p", "x", "--kv-memory", "1B")
        self.refuse(4, ["100 TiB"], "generate", MODEL, "-p", "x", "--kv-memory", "100TiB")

    def test_output_that_cannot_be_written_is_exit_code_1(self):
        for command in [["inspect", MODEL], ["--help"], ["--version"], ["devices", "--json"],
                        ["generate", MODEL, "-p", "x", "-n", "2", "--json"],
                        ["generate", MODEL, "-p", "x", "-n", "2"]]:
            with open("/dev/full", "w") as full:
                done = subprocess.run([PROGRAM, *command], stdout=full, stderr=subprocess.PIPE,
                                      text=True, timeout=300, check=False)
            self.assertEqual(done.returncode, 1, command)
            self.assertIn("standard output could not be written", done.stderr)

    def test_a_limit_on_files_does_not_end_the_program(self):
        def limit(size):
            return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run(
                [PROGRAM, "generate", "synthetic:tiny:bf16", "-p", "hello", "-n", "4",
                 "--device", "xpu"], capture_output=True, timeout=300, check=False,
                preexec_fn=limit(4096), env={**os.environ, "SLUICE_CACHE": cache})
            self.assertGreaterEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(cache, "out"), "w", encoding="utf-8") as out:
                done = subprocess.run([PROGRAM, "devices", "--json"], stdout=out, check=False,
                                      stderr=subprocess.PIPE, timeout=300, preexec_fn=limit(64))
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"standard output could not be written", done.stderr)

    def test_a_model_that_cannot_be_loaded_is_exit_code_3(self):
        self.refuse(3, ["/nonexistent"], "generate", "/nonexistent", "-p", "x")
        self.refuse(3, ["GGUF"], "inspect", __file__)
        with tempfile.NamedTemporaryFile(suffix=".gguf") as cut:
            with open(MODEL, "rb") as whole:
                cut.write(whole.read(1 << 20))
            cut.flush()
            self.refuse(3, [cut.name], "generate", cut.name, "-p", "x")

    def test_minus_one_is_any_seed_and_as_many_tokens_as_fit(self):
        seeds = {generate("-p", "a", "-n", "1", "--seed", "-1")["seed"] for _ in range(2)}
        self.assertEqual(len(seeds), 2, seeds)
        self.refuse(2, ["--seed", "-2", "-1"], "generate", MODEL, "-p", "x", "--seed", "-2")
        self.refuse(2, ["--max-tokens", "-2", "-1"], "generate", MODEL, "-p", "x", "-n", "-2")
        answer = generate("-p", "a", "-n", "-1", "--max-model-len", "32", "--ignore-eos")
        self.assertEqual(answer["usage"]["total_tokens"], 32)

    def test_an_absent_device_is_exit_code_4(self):
        self.refuse(4, ["cuda"], "generate", MODEL, "-p", "x", "--device", "cuda")
        self.refuse(4, ["--max-model-len", "--kv-memory"], "generate", MODEL, "-p", "x",
                    "--kv-memory", "1MiB", "--max-model-len", "8192")
        # Less than what one sequence needs, whatever its length.
        self.refuse(4, ["--kv-memory"], "bench", MODEL, "--kv-memory", "64KiB")
        self.refuse(4, ["cuda"], "bench", "--ceilings", "--device", "cuda")

    def test_a_template_that_refuses_is_2_and_one_that_does_not_parse_is_3(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jinja") as template:
            template.write("{{ raise_exception('no ' + messages[0].role) }}")
            template.flush()
            body = json.dumps({"messages": [{"role": "robot", "content": "x"}]})
            self.refuse(2, ["no robot"], "template", template.name, stdin=body)
            template.seek(0)
            template.truncate()
            template.write("{% if %}")
            template.flush()
            self.refuse(3, ["line 1"], "template", template.name, stdin=body)


class Answers(Refusals):
    def test_equal_whatever_the_threads_and_the_chunks(self):
        prompt = "The sky is blue because of the way " * 12
        answers = {
            name: generate("-p", prompt, "-n", "24", "--logprobs", "2", *flags)["choices"][0]
            for name, flags in {
                "default": [],
                "one thread": ["--threads", "1"],
                "two threads": ["--threads", "2"],
                "chunks of 5": ["--max-batch-tokens", "5", "--max-num-seqs", "2"],
                "no prefix cache": ["--no-prefix-cache"],
            }.items()
        }
        for name, answer in answers.items():
            self.assertEqual(answer, answers["default"], name)

    def test_every_instruction_set_answers_and_two_agree_to_the_bit(self):
        answers = {}
        for isa in ["avx2", "avx512", "amx"]:
            done = run("generate", MODEL, "-p", "Photosynthesis is", "-n", "8", "--temperature", "0",
                       "--isa", isa, "--logprobs", "2", "--json")
            if done.returncode == 4:  # this processor has it not, and the program says so
                self.assertIn(f"cannot run the {isa} kernels; use one of: ref", done.stderr)
                continue
            self.assertEqual(done.returncode, 0, done.stderr)
            answers[isa] = json.loads(done.stdout)["choices"]
            self.assertTrue(answers[isa][0]["text"].strip())
        if "avx512" in answers:
            self.assertEqual(answers["avx512"], answers["avx2"])

    def test_json_has_what_the_contract_names(self):
        answer = generate("-p", "Hello", "-n", "5", "--logprobs", "3", "--ignore-eos")
        self.assertEqual(answer["usage"]["completion_tokens"], 5)
        self.assertEqual(answer["usage"]["total_tokens"], answer["usage"]["prompt_tokens"] + 5)
        for key in ["load_ms", "prefill_ms", "decode_ms", "prefill_tokens_per_second",
                    "decode_tokens_per_second"]:
            self.assertGreater(answer["timings"][key], 0, key)
        logprobs = answer["choices"][0]["logprobs"]
        self.assertEqual(len(logprobs["tokens"]), 5)
        for token, logprob, top in zip(logprobs["tokens"], logprobs["token_logprobs"],
                                       logprobs["top_logprobs"]):
            self.assertAlmostEqual(top[token], logprob)
            self.assertLessEqual(max(top.values()), 0)

    def test_a_choice_is_one_of_the_texts(self):
        text = generate("-p", "The capital of France is", "--choice", " Rome", "--choice", " Paris")
        self.assertEqual(text["choices"][0]["text"], " Paris")
        self.assertEqual(text["choices"][0]["finish_reason"], "stop")

    def test_a_seed_repeats_and_another_differs(self):
        def draw(seed):
            done = run("generate", MODEL, "-p", "Once", "-n", "24", "--seed", seed, "--temperature", "1")
            return done.stdout

        self.assertEqual(draw("7"), draw("7"))
        self.assertNotEqual(draw("7"), draw("8"))

    def test_sampling_without_flags_is_the_terminals(self):
        def draw(command, *flags):
            stdin = "Name a colour.\n" if command == "chat" else ""
            prompt = ["-p", "Once upon a time"] if command == "generate" else []
            done = run(command, MODEL, "-n", "24", "--seed", "5", *prompt, *flags, stdin=stdin)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        flags = ["--temperature", "0.7", "--top-p", "0.95", "--top-k", "40", "--min-p", "0.05"]
        for command in ["generate", "chat"]:
            default = draw(command)
            self.assertEqual(default, draw(command, *flags))
            self.assertEqual(draw(command, "--top-k", "1"), draw(command, "--temperature", "0"))
            self.assertNotEqual(default, draw(command, "--top-k", "1"))
            hot = ["--temperature", "1", "--top-p", "1", "--top-k", "0", "--min-p", "0"]
            self.assertNotEqual(default, draw(command, *hot))
            penalty = ["--temperature", "0", "--repetition-penalty", "5"]
            self.assertNotEqual(draw(command, "--temperature", "0"), draw(command, *penalty))

    def test_options_come_from_environment_and_file(self):
        done = run("generate", MODEL, "-p", "x", env={"SLUICE_DEVICE": "cuda"})
        self.assertEqual(done.returncode, 4)
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
            config.write('device = "cuda"\n')
            config.flush()
            done = run("generate", MODEL, "-p", "x", "--config", config.name)
            self.assertEqual(done.returncode, 4, done.stderr)

    def test_one_file_serves_every_command_and_errors_name_its_line(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
            def write(text):
                config.seek(0)
                config.truncate()
                config.write(text)
                config.flush()

            write(f'model = "{MODEL}"\nport = 0\ntemperature = 0\n[generate]\nmax-tokens = 3\n')
            done = run("generate", "-p", "x", "--json", "--config", config.name)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["usage"]["completion_tokens"], 3)
            done = run("generate", "-p", "x", "--json", "--config", config.name,
                       env={"SLUICE_MAX_TOKENS": "2"})
            self.assertEqual(json.loads(done.stdout)["usage"]["completion_tokens"], 2)
            done = run("generate", "-p", "x", "--json", "--config", config.name,
                       env={"SLUICE_MAX_TOKENS": ""})
            self.assertEqual(json.loads(done.stdout)["usage"]["completion_tokens"], 3)
            elsewhere = {"SLUICE_CONFIG": config.name}
            done = run("generate", "-p", "x", "--json", env=elsewhere)
            self.assertEqual(json.loads(done.stdout)["usage"]["completion_tokens"], 3)
            self.assertNotIn("SLUICE_CONFIG", done.stderr)
            done = run("generate", "-p", "x", "--config", "/no/file", env=elsewhere)
            self.assertEqual(done.returncode, 2, done.stderr)
            done = run("generate", "-p", "x", env={"SLUICE_CONFIG": "/no/file"})
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("SLUICE_CONFIG, cannot be read: /no/file", done.stderr)
            for text, words in [("port = 1\nno garbage\n", ["line 2"]), ("prot = 1\n", ["line 1", "prot"]),
                                ("kv-dtype = \"f7\"\n", ["line 1", "f7"]),
                                ("threads = -1\n", ["line 1", "threads"])]:
                write(text)
                done = run("generate", MODEL, "-p", "x", "--config", config.name)
                self.assertEqual(done.returncode, 2, done.stderr)
                for word in [config.name, *words]:
                    self.assertIn(word, done.stderr)

    def test_every_value_of_the_environment_is_checked_and_named(self):
        wrong = {"PORT": "70000", "HTTP_THREADS": "0", "MAX_CONNECTIONS": "x", "IDLE_SECONDS": "0",
                 "MAX_BODY_BYTES": "1", "MAX_HEADER_BYTES": "1", "STREAM_BUFFER_BYTES": "1",
                 "DRAIN_SECONDS": "-1", "ALLOW_HOST": "a b", "ALLOW_ORIGIN": "a", "LOG_LEVEL": "loud",
                 "LOG_FORMAT": "xml", "LOG_REQUESTS": "some", "API_KEY_FILE": "/no/keys",
                 "HOST": "no.such.host.invalid", "THREADS": "-1", "MAX_MODEL_LEN": "-1",
                 "MAX_NUM_SEQS": "0", "MAX_BATCH_TOKENS": "0", "KV_MEMORY": "5", "KV_DTYPE": "f7",
                 "BLOCK_SIZE": "0", "KERNEL_BLOCK_SIZE": "0", "STATE_BLOCK": "0",
                 "PREFIX_CACHE": "maybe", "GRAPHS": "maybe", "SPECULATE": "wildly",
                 "SPECULATE_TOKENS": "0", "SPECULATE_ADAPT": "maybe", "MAX_QUEUE": "0",
                 "SCHEDULER_POLICY": "whim", "TEXT_WORKERS": "0", "ENGINE_SEED": "x",
                 "FORCE_OP": "nothing", "EXPLAIN_KERNELS": "maybe", "CHECK_EACH_OP": "maybe",
                 "ISA": "mmx", "DEVICE": "abacus"}
        for name, value in wrong.items():
            with self.subTest(name=name):
                done = run("serve", MODEL, "--port", "0", env={"SLUICE_" + name: value}
                           ) if name != "PORT" else run("serve", MODEL, env={"SLUICE_PORT": value})
                self.assertIn(done.returncode, (2, 4), done.stderr)
                last = done.stderr.splitlines()[-1]
                self.assertTrue(last.startswith("sluice: "), last)
                self.assertIn("SLUICE_" + name, last)

    def test_unknown_variables_are_told(self):
        done = run("generate", MODEL, "-p", "x", "-n", "1", env={"SLUICE_PROT": "1"})
        self.assertEqual(done.returncode, 0)
        self.assertIn("SLUICE_PROT", done.stderr)
        done = run("generate", MODEL, "-p", "x", "-n", "1", env={"SLUICE_PORT": "1"})
        self.assertNotIn("SLUICE_PORT", done.stderr)

    def test_spellings_of_llama_cpp_are_taken_or_hinted_at(self):
        done = run("generate", "-m", MODEL, "-p", "x", "-n", "1", "-c", "64", "-t", "1", "--temp", "0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refuse(2, ["--device"], "generate", MODEL, "-p", "x", "-ngl", "99")
        self.refuse(2, ["--max-batch-tokens"], "serve", MODEL, "--max-num-batched-tokens", "64")
        self.refuse(2, ["--hlep", "did you mean --help?"], "serve", "--hlep")
        self.refuse(2, ["--kv-memory", "unit"], "generate", MODEL, "-p", "x", "--kv-memory", "5")

    def test_a_prompt_may_come_from_a_file_or_standard_input(self):
        options = ["-n", "3", "--temperature", "0", "--json"]
        expected = json.loads(run("generate", MODEL, "-p", "The sky", *options).stdout)["choices"]
        with tempfile.NamedTemporaryFile("w") as prompt:
            prompt.write("The sky")
            prompt.flush()
            for done in [run("generate", MODEL, *options, stdin="The sky"),
                         run("generate", MODEL, "-p", "-", *options, stdin="The sky"),
                         run("generate", MODEL, "-f", prompt.name, *options)]:
                self.assertEqual(json.loads(done.stdout)["choices"], expected, done.stderr)
            self.refuse(2, ["both"], "generate", MODEL, "-p", "x", "-f", prompt.name)
        self.refuse(2, ["/no/such/file"], "generate", MODEL, "-f", "/no/such/file")

    def test_ctrl_c_ends_with_130(self):
        program = subprocess.Popen([PROGRAM, "generate", MODEL, "-p", "Once", "-n", "4000",
                                    "--ignore-eos", "--temperature", "0"],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        program.stdout.read(20)  # it answers
        program.send_signal(signal.SIGINT)
        start = time.monotonic()
        program.stdout.read()
        self.assertEqual(program.wait(60), 130)
        self.assertLess(time.monotonic() - start, 30)


class Others(unittest.TestCase):
    def test_tokenize_goes_there_and_back(self):
        text = "Grüße, 世界! 🙂 <|im_end|>\n\n  x"
        ids = run("tokenize", MODEL, stdin=text).stdout
        self.assertEqual(run("tokenize", MODEL, "--decode", stdin=ids).stdout, text)
        lines = run("tokenize", MODEL, "--jsonl", stdin='"a\\nb"\n"c"\n').stdout.splitlines()
        self.assertEqual([type(json.loads(line)) for line in lines], [list, list])
        special = json.loads(run("tokenize", MODEL, "--jsonl", stdin='"<|im_end|>"').stdout)
        plain = json.loads(run("tokenize", MODEL, "--jsonl", "--no-special",
                               stdin='"<|im_end|>"').stdout)
        self.assertEqual(len(special), 1)
        self.assertGreater(len(plain), 1)

    def test_template_renders(self):
        body = {"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": True}
        done = run("template", MODEL, stdin=json.dumps(body))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.endswith("<|im_start|>assistant\n"))

    def test_chat_keeps_the_conversation(self):
        done = run("chat", MODEL, "--temperature", "0", "-n", "16",
                   stdin="My name is Ada.\n/stats\nWhat is my name?\n/reset\n/exit\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("tokens/s", done.stdout)

        def ask(*lines):
            return run("chat", MODEL, "--temperature", "0", "-n", "16",
                       stdin="\n".join(lines) + "\n").stdout

        self.assertIn("no command /foo; /help tells", ask("/foo"))
        self.assertIn("no command /rest; did you mean /reset?", ask("/rest"))
        self.assertIn("/retry", ask("/?"))
        # As Ollama spells it.
        self.assertEqual(ask("/set parameter max_tokens 1", "One?"), ask("/set max_tokens  1", "One?"))
        self.assertEqual(ask("/set system Be brief.", "/save /dev/stdout"),
                         ask("/system Be brief.", "/save /dev/stdout"))
        self.assertEqual(ask("/clear", "/quit", "One?"), "")
        alone = ask("What is my name?")
        kept = ask("My name is Ada.", "What is my name?")
        self.assertFalse(kept.endswith(alone), kept)
        reset = ask("My name is Ada.", "/reset", "What is my name?")
        self.assertTrue(reset.endswith(alone), reset)

    def test_a_question_on_the_command_line_is_answered_alone(self):
        options = ["--temperature", "0", "-n", "16"]
        question = "What is the capital of France?"
        done = run("chat", MODEL, *options, question, stdin="And of Italy?\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        # Which answer that is depends on the kernels; there is one, to that question alone.
        self.assertTrue(done.stdout.strip())
        asked = run("chat", MODEL, *options, stdin=question + "\n")
        self.assertEqual(asked.stdout.strip(), done.stdout.strip())
        self.assertEqual(run("chat", "-p", question, "-m", MODEL, *options).stdout, done.stdout)
        done = run("chat", MODEL, "--max-model-len", "64", 200 * "word ")
        self.assertEqual((done.returncode, done.stdout.strip()), (2, ""))
        self.assertEqual(done.stderr.count("has no room"), 1, done.stderr)

    def test_chat_tells_that_an_answer_was_cut_and_the_way_out(self):
        lines = "Tell me a long story.\n"
        done = run("chat", MODEL, "--temperature", "0", "-n", "4", stdin=lines)
        self.assertIn("The answer was cut after 4 tokens: --max-tokens sets the limit", done.stderr)
        done = run("chat", MODEL, "--temperature", "0", "--max-model-len", "64", stdin=3 * lines)
        self.assertIn("the context of 64 tokens is full; /reset begins a new conversation",
                      done.stderr)
        # The oldest turn makes room for the next question, and it is said.
        self.assertEqual(done.stderr.count("tokens is full: the oldest 1 turn was left out."), 2)
        self.assertNotIn("has no room", done.stderr)
        done = run("chat", MODEL, "--max-model-len", "64", stdin=20 * lines.strip() + "\n")
        self.assertIn("has no room", done.stderr)
        self.assertNotIn("/reset", done.stderr)

    def test_inspect_and_devices(self):
        described = json.loads(run("inspect", MODEL, "--json").stdout)
        self.assertEqual(described["layers"], 30)
        self.assertEqual(described["formats"]["Q4_1"]["tensors"], 210)
        text = run("inspect", MODEL).stdout
        self.assertIn("30 layers, width 576", text)
        self.assertRegex(text, r"F32: 61 tensors, [0-9.]+ KiB")
        self.assertRegex(text, r"KV in B?F16 22\.5 KiB a token")
        text = run("inspect", MODEL, "--kv-dtype", "fp8").stdout
        self.assertIn("KV in F8_E4M3 11.95 KiB a token", text)
        models = os.path.join(os.path.dirname(__file__), "..", "golden", "models")
        self.assertIn("KV in F32 ", run("inspect", os.path.join(models, "llama")).stdout)
        self.assertEqual(described["mtp_heads"], 0)
        self.assertNotIn("--speculate", text)
        self.assertRegex(run("inspect", os.path.join(models, "mimo")).stdout,
                         r"heads +1 that predict tokens \(--speculate mtp\)")
        in_f8 = os.path.join(models, "qwen3_fp8_block")
        text = run("inspect", in_f8).stdout
        self.assertIn("quantization    fp8, activations in F8 by 128 elements of a token", text)
        self.assertIsNone(described["quantization"])
        self.assertIsNone(described["experts"])
        with_experts = os.path.join(models, "qwen3_moe_sparse")
        self.assertIn("experts         6 of width 32 in 1 layers, 2 a token",
                      run("inspect", with_experts).stdout)
        self.assertEqual(json.loads(run("inspect", with_experts, "--json").stdout)["experts"],
                         {"count": 6, "per_token": 2, "width": 32, "layers": 1})
        done = run("quantize", in_f8, os.path.join(tempfile.gettempdir(), "out.gguf"), "--type",
                   "Q8_0")
        self.assertEqual(done.returncode, 2)
        self.assertIn("reads one GGUF file", done.stderr)
        devices = json.loads(run("devices", "--json").stdout)
        self.assertIn(devices["chosen"], [device["id"] for device in devices["devices"]])

    def test_bench_behind_a_text_counts_drafts(self):
        text = os.path.join(os.path.dirname(__file__), "..", "..", "bench", "texts", "quoting.txt")
        options = ["bench", MODEL, "--prompt-tokens", "8", "--text", text, "--batch", "1",
                   "--output-tokens", "24", "--repeat", "1", "--speculate", "model",
                   "--draft-model", MODEL, "--speculate-adapt=false"]  # whose drafts are never late
        decode = json.loads(run(*options, "--json").stdout)["results"][1]
        self.assertGreater(decode["context"], 100)
        self.assertGreater(decode["drafts"]["accepted"], 10)
        self.assertGreaterEqual(decode["drafts"]["verified"], decode["drafts"]["accepted"])
        self.assertIn(" drafts accepted", run(*options).stdout)
        done = run(*options, "--mix", "5x2")
        self.assertEqual(done.returncode, 2)
        self.assertIn("leave one out", done.stderr)

    def test_bench(self):
        figures = json.loads(run("bench", MODEL, "--prompt-tokens", "32", "--output-tokens", "4",
                                 "--batch", "1,3", "--context", "0,40", "--repeat", "1",
                                 "--json").stdout)
        self.assertEqual(len(figures["results"]), 5)
        self.assertEqual(figures["cached_tokens"], 0)
        for figure in figures["results"]:
            rates = figure["tokens_per_second"]
            self.assertLessEqual(rates["min"], rates["median"])
            self.assertGreater(rates["min"], 0)
            self.assertGreater(figure["ceiling_share"], 0)
            prefill = figure["kind"] == "prefill"
            self.assertEqual(figure["read_share"] is None, prefill)
            ceiling = "macs_per_second" if prefill else "read_bytes_per_second"
            self.assertGreater(figure["ceilings"][ceiling]["median"], 0)

    def test_bench_without_a_file(self):
        for dtype in ["bf16", "fp8", "fp8-row", "fp8-block", "q8_0"]:
            figures = json.loads(run("bench", "--synthetic", "tiny", "--dtype", dtype, "--device",
                                     "cpu", "--prompt-tokens", "32", "--output-tokens", "8",
                                     "--batch", "1,3", "--repeat", "1", "--json").stdout)
            self.assertEqual(figures["model"], f"synthetic:tiny:{dtype}")
            self.assertEqual([row["kind"] for row in figures["results"]],
                             ["prefill", "decode", "decode"])
            for row in figures["results"]:
                self.assertGreater(row["tokens_per_second"]["min"], 0)
            # The CPU works while a step is put on its stream, so no time lies between.
            self.assertIsNone(figures["results"][1]["device_idle_share"])
        described = json.loads(run("inspect", "synthetic:llama-3.1-8b:bf16", "--json").stdout)
        self.assertEqual(described["parameters"], 8030261248)

    def test_lists_of_bench_take_one_value_each(self):
        model = "synthetic:tiny:bf16"
        flags = ["bench", "--json", "--device", "cpu", "--output-tokens", "4", "--repeat", "1"]
        for lists in [["--prompt-tokens", "8", "--batch", "1,2", model],
                      ["--batch", "1,2", "--prompt-tokens", "8", model],
                      [model, "--prompt-tokens", "8", "--batch", "1", "--batch", "2"]]:
            done = run(*flags, *lists)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = json.loads(done.stdout)["results"]
            self.assertEqual([row["batch"] for row in rows], [1, 1, 2])

    def test_a_share_above_the_ceiling_is_marked(self):
        done = run("bench", "--synthetic", "tiny", "--batch", "1", "--prompt-tokens", "8",
                   "--output-tokens", "16", "--device", "cpu", "--repeat", "5", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        for row in json.loads(done.stdout)["results"]:
            above = any((row[share] or 0) > 1 for share in ["compute_share", "read_share"])
            self.assertEqual(row["above_ceiling"], above)

    def kernels(self, *arguments):
        done = run("bench", "--kernels", "--json", "--repeat", "2", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        measured = json.loads(done.stdout)
        self.assertFalse(measured["graphs"])
        for result in measured["results"]:
            self.assertAlmostEqual(result["total_seconds"],
                                   sum(row["total_seconds"] for row in result["kernels"]))
            for row in result["kernels"]:
                self.assertGreater(row["calls"], 0)
                self.assertGreaterEqual(row["total_seconds"], 0)
        return measured

    def test_kernels_of_a_prefill_and_of_decode_steps(self):
        figures = ["--prompt-tokens", "20", "--context", "0,40", "--batch", "1,3"]
        for device in ["cpu", "xpu"]:
            measured = self.kernels("--synthetic", "tiny", "--device", device, *figures)
            self.assertEqual("host" in measured["clock"], device == "cpu")
            self.assertGreater(measured["ceilings"]["bytes_per_second"], 0)
            found = [(row["kind"], row["prompt_tokens"], row["context"], row["batch"])
                     for row in measured["results"]]
            self.assertEqual(found, [("prefill", 20, 0, 1), ("decode", 0, 0, 1), ("decode", 0, 0, 3),
                                     ("decode", 0, 40, 1), ("decode", 0, 40, 3)])
            for result in measured["results"]:
                rows = 20 if result["kind"] == "prefill" else result["batch"]
                by_op = {row["op"]: row for row in result["kernels"]}
                # A model of two layers of width 64 with 4 heads of 16 and 2 of KV in 16 bits.
                self.assertEqual(by_op["attention"]["calls"], 2)
                down = [row for row in result["kernels"]
                        if row["op"] == "linear" and "64x128" in row["shape"]]
                self.assertEqual([row["flops"] for row in down], [2 * rows * 64 * 128])
                self.assertGreater(down[0]["bytes"], 2 * 64 * 128)
                if result["kind"] == "decode":
                    # The first step behind the context is not counted, and two are.
                    context = max(result["context"], 1) + 2.5
                    self.assertEqual(by_op["attention"]["flops"], 2 * rows * context * 64 * 2)

    def test_kernels_of_layers_with_windows_states_and_experts(self):
        models = os.path.join(os.path.dirname(__file__), "..", "golden", "models")
        for name, op in [("gemma3", "attention"), ("deepseek_v2", "latent_attention"), ("mamba2", "ssd"),
                         ("gpt_oss", "grouped_linear"), ("lfm2", "short_conv"),
                         ("qwen3_next", "gated_delta"), ("mamba", "selective_scan")]:
            measured = self.kernels(os.path.join(models, name), "--device", "cpu", "--prompt-tokens",
                                    "36", "--context", "20", "--batch", "3", "--max-batch-tokens",
                                    "16", "--max-num-seqs", "4")
            for result in measured["results"]:
                row = next(row for row in result["kernels"] if row["op"] == op)
                self.assertGreater(row["bytes"], 0)
                self.assertGreater(row["flops"], 0)

    def test_kernels_as_text(self):
        done = run("bench", "--kernels", MODEL, "--device", "cpu", "--prompt-tokens", "8",
                   "--batch", "2", "--repeat", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in ["op by op without graphs", "prefill of 8 tokens", "a decode step of 2 sequences",
                      "attention", " % of reads", "keep_drawn"]:
            self.assertIn(words, done.stdout)

    def test_ceilings(self):
        for model in [[], [MODEL]]:
            measured = json.loads(run("bench", *model, "--ceilings", "--json").stdout)["ceilings"]
            self.assertEqual(len(measured["reads"]), 1 + len(model))
            for read in measured["reads"]:
                rate = read["bytes_per_second"]
                self.assertLessEqual(rate["min"], rate["median"])
                self.assertLessEqual(rate["median"], rate["max"])
                self.assertGreater(rate["min"], 0)
            capabilities = json.loads(run("devices", "--json").stdout)["devices"][0]["capabilities"]
            names = [entry["name"] for entry in measured["instructions"]]
            self.assertEqual("amx_int8" in names, "amx_int8" in capabilities)
            self.assertEqual("avx2_f32" in names, "fma" in capabilities)
        # The first is over the model, the last over more than the caches hold.
        self.assertGreater(measured["reads"][1]["bytes"], measured["reads"][0]["bytes"])
        text = run("bench", "--ceilings").stdout
        self.assertIn("GB/s", text)
        self.assertIn("GMAC/s", text)


if __name__ == "__main__":
    unittest.main()
