"""The page at / in a headless Chromium: page_test.py PROGRAM [--pictures FOLDER]

Debian's chromium and chromium-driver, driven by selenium. Chromium asks nothing of the network:
a proxy that is not there stands before every address but the server's.
"""
import os
import re
import shutil
import sys
import tempfile
import unittest

import gguf
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from browser import first_paints, loaded_bytes, open_browser
from serving import Serving, model_path, tiny_model

PROGRAM = sys.argv[1]
PICTURES = sys.argv[3] if sys.argv[2:3] == ["--pictures"] else None
SECONDS_MAX = 60
BYTES_MAX = 150_000
# Markup in every place that Markdown gives a text.
HOSTILE = """<img src=x onerror="window.ran = 1"> **<b onclick=x>bold</b>**
# <script>window.ran = 1</script>
- <svg onload="window.ran = 1">
> <iframe src="/"></iframe>
[away](javascript:window.ran=1) [web](https://example.com/?a="b) `<i>`
| a | <u>b</u> |
| - | - |
| <img src=x onerror="window.ran = 1"> | 2 |
```html
<script>window.ran = 1</script>
```
"""


def endless_model(folder):
    """The demo model, which at temperature 0 never ends an answer: the scores of its ends are 0. So only
    its 8192 tokens do, which take a quick machine half a minute."""
    path = shutil.copy(model_path(), folder)
    reader = gguf.GGUFReader(path, "r+")
    words = reader.fields["tokenizer.ggml.tokens"].contents()
    (embedding,) = [tensor for tensor in reader.tensors if tensor.name == "token_embd.weight"]
    for end in ("<|im_end|>", "<|endoftext|>"):
        embedding.data[words.index(end)] = 0
    embedding.data.flush()
    return path


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.endless = endless_model(cls.enterClassContext(tempfile.TemporaryDirectory()))

    def setUp(self):
        self.browser = open_browser()
        self.addCleanup(self.browser.quit)

    def find(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def wait(self, holds, message):
        return WebDriverWait(self.browser, SECONDS_MAX).until(lambda _: holds(), message)

    def open(self, server):
        self.browser.get(server.url + "/")
        self.wait(lambda: self.find("#model").text == "SmolLM2-135M-Instruct.Q4_1",
                  "the page does not tell the model")

    def set(self, name, value):
        field = self.find("#" + name)
        if not field.is_displayed():
            self.find("#settings summary").click()
        field.clear()
        field.send_keys(value, Keys.TAB)

    def ask(self, text):
        self.find("#question").send_keys(text, Keys.ENTER)

    def wait_answer(self):
        self.wait(lambda: self.find("#send").is_displayed(), "the answer does not end")
        return self.all(".message.assistant")[-1]

    def picture(self, name):
        if PICTURES:
            self.browser.save_screenshot(os.path.join(PICTURES, name + ".png"))

    def test_a_conversation_survives_a_reload_and_can_be_edited(self):
        with Serving(PROGRAM) as server:
            self.open(server)
            self.set("temperature", "0")
            self.set("max_tokens", "40")
            self.ask("What is the capital of France? <b>Be brief.</b>")
            answer = self.wait_answer()
            first = answer.find_element(By.CSS_SELECTOR, ".body").text
            self.assertIn("Paris", first)
            self.assertRegex(answer.find_element(By.CSS_SELECTOR, ".note").text, r"^\d+ tokens, [\d.]+/s")
            self.assertEqual(self.find(".message.user .body").text,
                             "What is the capital of France? <b>Be brief.</b>")

            self.browser.refresh()
            self.wait(lambda: self.all(".message.assistant"), "the conversation is gone")
            self.assertEqual(self.find(".message.assistant .body").text, first)
            self.assertEqual(self.find("#max_tokens").get_attribute("value"), "40")

            self.find("button[title='Answer once more']").click()
            self.assertEqual(self.wait_answer().find_element(By.CSS_SELECTOR, ".body").text, first)
            self.find("button[title='Change this message and ask again']").click()
            self.assertEqual(self.all(".message"), [])
            self.find("#question").send_keys(" Of Italy?", Keys.ENTER)
            self.wait_answer()
            self.assertTrue(self.find(".message.user .body").text.endswith("Of Italy?"))
            self.picture("page-chat")

            self.find("#new-chat").click()
            self.assertEqual(self.all(".message"), [])
            self.assertEqual(len(self.all("#conversations li")), 2)
            self.assertEqual(self.no_errors(), [])

    def no_errors(self):
        return [entry["message"] for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]

    def test_escape_stops_an_answer_and_the_server_too(self):
        with Serving(PROGRAM, model=self.endless) as server:
            self.open(server)
            self.set("temperature", "0")
            self.ask("Tell me a very long story about the sea.")
            self.wait(lambda: len(self.all(".message.assistant .body")) == 1
                      and self.find(".message.assistant .body").text, "no text comes")
            self.find("body").send_keys(Keys.ESCAPE)
            self.assertIn("stopped", self.wait_answer().text)
            server.wait_idle()
            self.assertTrue(self.find(".message.assistant .body").text)

    def test_a_lost_connection_is_told_and_tried_again(self):
        with Serving(PROGRAM, model=self.endless) as server:
            self.open(server)
            self.set("temperature", "0")
            self.ask("Tell me a very long story about the sea.")
            self.wait(lambda: self.all(".message.assistant .body")
                      and self.find(".message.assistant .body").text, "no text comes")
            server.process.kill()
            server.process.wait()
            answer = self.wait_answer()
            self.assertIn("The connection was lost", answer.find_element(By.CSS_SELECTOR, ".problem").text)
            self.assertTrue(answer.find_element(By.CSS_SELECTOR, ".body").text)
            port = server.port
        with Serving(PROGRAM, port=port, model=self.endless):
            self.set("max_tokens", "8")
            self.find("button[title='Answer once more']").click()
            self.assertIn("ended at a limit", self.wait_answer().text)

    def test_a_refusal_is_told_in_the_servers_words(self):
        with Serving(PROGRAM) as server:
            self.open(server)
            self.set("tools", "[1")
            self.ask("Hello")
            self.assertIn("The tools are no JSON", self.find("#tools-error").text)
            self.set("tools", "[1]")
            self.find("#question").send_keys("Hello", Keys.ENTER)
            self.assertIn("tools[0]", self.wait_answer().find_element(By.CSS_SELECTOR, ".problem").text)

    def test_no_image_is_offered_where_no_model_takes_one(self):
        with Serving(PROGRAM) as server:
            self.assertEqual(server.json("GET", "/props")[1]["modalities"], {"vision": False, "audio": False})
            self.assertNotIn("vision", server.json("POST", "/api/show", {})[1]["capabilities"])
            self.open(server)
            self.assertEqual(self.all("input[type=file]"), [])
            self.assertNotIn("image", self.find("body").text.lower())
            for kind in ("paste", "drop"):
                taken = self.browser.execute_script("""
                    const kind = arguments[0];
                    const data = new DataTransfer();
                    data.items.add(new File(['hi'], kind + '.png', {type: 'image/png'}));
                    const event = kind === 'drop'
                      ? new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true})
                      : new ClipboardEvent(kind, {clipboardData: data, bubbles: true, cancelable: true});
                    document.getElementById('question').dispatchEvent(event);
                    return event.defaultPrevented;""", kind)
                self.assertTrue(taken, kind)
                self.assertIn(f"reads text alone, so {kind}.png was left out", self.find("#ask-error").text)
            self.find("#question").send_keys("a")
            self.assertEqual(self.find("#ask-error").text, "")
            self.assertEqual(self.no_errors(), [])

    def test_nothing_that_a_model_says_is_markup(self):
        with Serving(PROGRAM) as server:
            self.open(server)
            names = self.browser.execute_async_script("""
                const [text, done] = arguments;
                import('/web/markdown.js').then(({ markdown }) => {
                  const box = document.createElement('div');
                  box.append(...markdown(text));
                  document.body.append(box);
                  setTimeout(() => done([window.ran ?? null, box.textContent,
                    ...Array.from(box.querySelectorAll('*'), (one) => one.localName)]), 200);
                });""", HOSTILE)
            ran, text, *names = names
            self.assertIsNone(ran)
            self.assertIn('<img src=x onerror="window.ran = 1">', text)
            self.assertEqual(set(names) - {"p", "strong", "h3", "ul", "li", "blockquote", "a", "code", "table",
                                           "thead", "tbody", "tr", "th", "td", "pre", "button"}, set())
            self.assertEqual([a.get_attribute("href") for a in self.all("main ~ div a")],
                             ['https://example.com/?a=%22b'])
            # And what stands in the page itself would not run either.
            self.browser.execute_script(
                "const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
                "document.body.append(s);")
            self.assertIsNone(self.browser.execute_script("return window.ran ?? null"))

    def test_a_server_with_keys_asks_for_one(self):
        with tempfile.NamedTemporaryFile("w") as keys:
            keys.write("open-sesame\n")
            keys.flush()
            with Serving(PROGRAM, "--api-key-file", keys.name) as server:
                self.browser.get(server.url + "/")
                self.wait(lambda: self.find("#key").is_displayed(), "no key is asked for")
                self.find("#key").send_keys("wrong", Keys.ENTER)
                self.wait(lambda: "API key" in self.find("#key-error").text, "a wrong key is not told")
                self.find("#key").clear()
                self.find("#key").send_keys("open-sesame", Keys.ENTER)
                self.wait(lambda: not self.find("#key-form").is_displayed(), "the key is not taken")
                self.set("max_tokens", "4")
                self.ask("Hello")
                self.assertIn("4 tokens", self.wait_answer().text)

    def test_the_live_view_shows_what_runs(self):
        with Serving(PROGRAM, model=self.endless) as server:
            self.open(server)
            self.set("temperature", "0")
            self.ask("Tell me a long story about the sea.")
            self.find("#show-live").click()
            self.wait(lambda: self.all("#charts .card"), "no figures come")
            self.wait(lambda: self.figure("Tokens a second") not in (None, "0", "0.0", "–"),
                      "no rate is shown")
            self.find("#show-chat").click()
            self.assertTrue(self.find("#question").is_displayed())
            self.find("#question").send_keys(Keys.ESCAPE)
            self.assertIn("stopped", self.wait_answer().text)
            self.find("#show-live").click()
            self.wait(lambda: "/v1/chat/completions" in self.find("#statuses").text,
                      "the request is not counted")
            self.picture("page-live")
            self.assertEqual(self.no_errors(), [])

    def test_the_live_view_shows_requests_and_errors_as_they_come(self):
        def bars(kind):
            return self.browser.execute_script(
                "return document.querySelectorAll(`#flights .request${arguments[0]} .decode`).length",
                kind)

        with Serving(PROGRAM, model=self.endless) as server:
            self.open(server)
            self.find("#show-live").click()
            self.assertTrue(self.find("#no-flights").is_displayed())
            status, _ = server.json("POST", "/v1/completions", {"prompt": "a", "no_such": 1})
            self.assertEqual(status, 400)
            self.wait(lambda: "no_such" in self.find("#errors").text, "the error is not told")
            self.find("#show-chat").click()
            self.set("temperature", "0")
            self.ask("Tell me a long story about the sea.")
            self.find("#show-live").click()
            self.wait(lambda: bars(":not(.ended)") == 1, "the running request is not shown")
            self.find("#show-chat").click()
            self.find("#question").send_keys(Keys.ESCAPE)
            self.assertIn("stopped", self.wait_answer().text)
            self.find("#show-live").click()
            self.wait(lambda: bars(".ended") == 1, "its end is not shown")
            self.assertFalse(self.find("#no-flights").is_displayed())

    def figure(self, name):
        """The value of a card of the live view; None while it is not there."""
        return self.browser.execute_script("""
            const cards = [...document.querySelectorAll('#live .card')];
            const one = cards.find((card) => card.querySelector('.name').textContent === arguments[0]);
            return one ? one.querySelector('.value').textContent : null;""", name)

    def test_one_of_several_models_is_picked(self):
        def tokens_of(server, name):
            _, _, text = server.request("GET", "/metrics")
            found = re.search(rf'^vllm:generation_tokens_total{{model_name="{name}"}} (\S+)$',
                              text.decode(), re.MULTILINE)
            return float(found.group(1)) if found else 0.0

        def complete(server, name):
            status, answer = server.json("POST", "/v1/completions", {
                "model": name, "prompt": "a", "max_tokens": 64, "ignore_eos": True})
            self.assertEqual(status, 200, answer)

        with tempfile.TemporaryDirectory() as folder:
            tiny = tiny_model(folder)
            with Serving(PROGRAM, "b=" + tiny, "--kv-memory", "4MiB", "--preload", "a",
                         model="a=" + tiny) as server:
                self.browser.get(server.url + "/")
                self.wait(lambda: self.find("#models").is_displayed(), "no models can be picked")
                self.assertFalse(self.find("#model").is_displayed())
                picker = Select(self.find("#models"))
                self.assertEqual([one.text for one in picker.options], ["a", "b (unloaded)"])
                self.assertEqual(picker.first_selected_option.get_attribute("value"), "a")

                picker.select_by_value("b")
                self.set("max_tokens", "4")
                self.ask("a")
                self.assertIn("4 tokens", self.wait_answer().text)
                self.assertEqual(tokens_of(server, "a"), 0)
                self.assertEqual(tokens_of(server, "b"), 4)
                self.wait(lambda: picker.options[1].text == "b", "that it is loaded is not told")
                self.browser.refresh()
                self.wait(lambda: self.find("#models").is_displayed(), "no models can be picked")
                picker = Select(self.find("#models"))
                self.assertEqual(picker.first_selected_option.text, "b")

                # The figures are those of the model that is picked, those of HTTP the server's.
                self.find("#show-live").click()
                self.wait(lambda: self.figure("Tokens a second, all models"), "no figures come")
                complete(server, "b")
                self.wait(lambda: self.figure("Tokens a step") not in ("–", None), "no step is shown")
                picker.select_by_value("a")
                self.wait(lambda: self.figure("Tokens a step") == "–",
                          "the figures are still the other model's")
                complete(server, "b")
                self.wait(lambda: self.browser.execute_script(
                    "return [...document.querySelectorAll('#statuses tr')].some("
                    "(row) => row.textContent === '/v1/completions2002')"),
                    "the request is not counted")
                self.assertEqual(self.figure("Tokens a step"), "–")
                self.assertEqual(self.no_errors(), [])

    def test_a_phone_in_the_dark_by_keyboard(self):
        self.browser.quit()
        self.browser = open_browser(dark=True, width=390)
        self.addCleanup(self.browser.quit)
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": 390, "height": 800, "deviceScaleFactor": 2, "mobile": True})
        with Serving(PROGRAM) as server:
            self.open(server)
            self.assertFalse(self.find("#side").is_displayed())
            self.assertEqual(self.browser.execute_script(
                "return document.documentElement.scrollWidth - innerWidth"), 0)
            self.assertEqual(self.find("body").value_of_css_property("background-color"),
                             "rgba(20, 24, 28, 1)")
            self.assertEqual(self.browser.switch_to.active_element.get_attribute("id"), "question")
            self.browser.switch_to.active_element.send_keys("List three fruits.", Keys.ENTER)
            self.wait_answer()
            self.picture("page-phone")
            self.find("#menu").send_keys(Keys.ENTER)
            self.assertTrue(self.find("#side").is_displayed())
            self.find("#new-chat").send_keys(Keys.ENTER)
            self.assertEqual(self.all(".message"), [])

    def test_the_page_is_small(self):
        with Serving(PROGRAM) as server:
            self.open(server)
            self.wait(lambda: first_paints(self.browser), "nothing is painted")
            size = loaded_bytes(self.browser)
            self.assertLess(size, BYTES_MAX)
            self.assertGreater(size, len(self.browser.page_source.encode()) // 2, "not all is counted")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
