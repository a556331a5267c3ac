"""Requests of many kinds, made from templates, and what stands around them in ChatML.

A row is a list of tokens that a text begins with, or that stands behind what the model has ended:
its kind says who writes behind it.
"""
import random

import numpy as np

# Kinds of row, by where they stand and by who writes behind them.
FIRST, FIRST_USER, NEXT, NEXT_USER, ANSWER = range(5)

TOPICS = """photosynthesis|black holes|the French Revolution|compound interest|machine learning|sourdough bread
the water cycle|neural networks|ancient Rome|vaccines|climate change|the stock market|quantum computing|jazz music
chess openings|the human heart|volcanoes|renewable energy|Shakespeare|the Great Wall of China|bicycle repair|gardening
cryptography|the solar system|DNA|time management|public speaking|coffee brewing|remote work|meditation|electric cars
the Industrial Revolution|supply and demand|plate tectonics|bees|whales|robotics|poetry|basketball|football|marathons
operating systems|databases|recursion|binary search|HTTP|version control|unit testing|linked lists|sorting algorithms
probability|prime numbers|geometry|fractions|calculus|statistics|linear algebra|the Pythagorean theorem|graphs|logic
healthy eating|sleep|stress|back pain|yoga|first aid|allergies|vitamins|hydration|running shoes|home workouts|posture
travel in Japan|Paris|camping|hiking boots|airline tickets|packing light|road trips|learning Spanish|photography
saving money|budgeting|job interviews|a cover letter|teamwork|leadership|customer service|small business|taxes|marketing
democracy|human rights|the constitution|the moon landing|ancient Egypt|the Silk Road|the Renaissance|world maps|museums
dogs|cats|penguins|dinosaurs|sharks|butterflies|rainforests|deserts|oceans|rivers|recycling|composting|solar panels
a lighthouse keeper|a lost robot|a talking fox|two sisters|an old clock|a hidden door|a space station|a village baker
a rainy day|a birthday party|a school trip|a broken promise|the last train|a mountain rescue|a magic seed|a new neighbor
Python|JavaScript|Java|C++|SQL|HTML|Rust|Linux|spreadsheets|smartphones|the internet|email|passwords|cloud storage
music theory|the guitar|the piano|painting|sculpture|film|theater|comics|video games|board games|origami|knitting"""

TASKS = """Explain {a} to a ten-year-old.|What is {a}?|Tell me about {a}.|Why does {a} matter?|Give me five facts about {a}.
Write a short story about {a}.|Write a poem about {a}.|Write a haiku about {a}.|List ten ideas related to {a}.
What are the advantages and disadvantages of {a}?|How do I get started with {a}?|Write a beginner's guide to {a}.
Write a lesson plan about {a} for middle school.|Write three quiz questions about {a} with answers.
Summarize what is known about {a} in three sentences.|Write an email to a friend about {a}.|Compare {a} and {b}.
What is the relationship between {a} and {b}?|Write a dialogue between two people who discuss {a}.
Write a product description inspired by {a}.|What are common misconceptions about {a}?|Write a blog post about {a}.
Describe {a} in one paragraph.|Give me step-by-step instructions on {a}.|Write a news article about {a}.
Write a speech about {a}.|Write an essay on the history of {a}.|What would a world without {a} look like?
Create an outline for a presentation about {a}.|Write a JSON object that describes {a} with five keys.
Return a JSON array of four items about {a}, each with "name" and "description".|Make a markdown table comparing {a} and {b}.
Write a checklist for {a}.|Define {a} and use it in a sentence.|What should I know before I learn about {a}?
Write a letter of complaint about {a}.|Make up a riddle about {a}.|Write a joke about {a}.|Write a song about {a}.
Explain the difference between {a} and {b} in simple terms.|Write an interview with an expert on {a}.
Suggest three books or resources about {a}.|How has {a} changed over the last century?|Write a diary entry about {a}.
What are the most important terms in {a}?|Give an example of {a} in everyday life.|Write a tweet about {a}.
I am interested in {a} and {b}. What could I do on a weekend?|Can you help me with {a}?|hi, i have a question about {a}
Write a recipe that has to do with {a}.|Give me a plan for one week around {a}.|Translate a sentence about {a} into French."""

CODE = """Write a Python function that {c}.|Write a JavaScript function that {c}.|Write a C program that {c}.
Write a Java method that {c}.|How do I write code that {c}?|Explain step by step how to write a program that {c}.
Write a Python class that {c}, with comments.|Write unit tests for a Python function that {c}.|Fix a program that {c} but fails on empty input."""
JOBS = """reverses a string|adds two numbers|checks whether a number is prime|sorts a list of numbers|counts the words in a text
finds the largest item of a list|computes the factorial of a number|prints the Fibonacci sequence|reads a CSV file
removes duplicates from a list|checks whether a word is a palindrome|merges two sorted lists|computes the average of a list
converts Celsius to Fahrenheit|finds the intersection of two sets|implements a stack|implements a queue|searches a binary tree
parses a JSON string|downloads a web page|counts vowels|rolls two dice|validates an email address|flattens a nested list
computes the greatest common divisor|transposes a matrix|writes lines to a file|groups words by length|caches results"""

MATHS = """What is {n} plus {m}?|What is {n} times {m}?|If I have {n} apples and give away {k}, how many are left?
A train travels {n} miles in {k} hours. What is its average speed?|What is {k} percent of {n}?|Solve for x: {k}x + {m} = {n}.
List the first {k} multiples of {m}.|A shirt costs ${n} and is {k}% off. What is the price?|Is {n} a prime number?
The sides of a rectangle are {k} and {m}. What are its area and perimeter?|Count from {k} to {n}."""

REWORK = """Summarize the following text in one sentence.|Summarize this:|Rewrite the following text so that it is more formal.
What is the main idea of this text?|Extract the key points of this text as a list.|Correct the grammar of this text.
Turn this text into a short story.|Write a title for the following text.|Make this text shorter.|Answer in JSON: what is this text about?
You are given a text. Write three questions that it answers."""
SENTENCES = """People have been interested in {a} for a long time.|Many experts say that {a} will be more important in the next decade.
At first, {a} seemed to have little to do with {b}, but this changed.|In {y}, a group of {k} students began to study {a} in a small town.
The results about {a} were surprising: {n} of {m} people changed their minds.|Some say {a} is difficult, others that it only takes patience.
A teacher named {p} said that {a} reminded her of {b}.|{p} started a project on {a} in {y} and worked on it every day.
The costs of {a} have fallen by {k} percent since {y}.|However, there are risks with {a} that should not be forgotten.
The city opened a center for {a} in {y}, which has {n} visitors a month.|In the end, {p} decided that {a} was worth the effort.
Researchers compared {a} with {b} and found {k} differences.|For example, {a} can help people who work with {b}."""
PEOPLE = "Maria|John|Ahmed|Li Wei|Emma|Carlos|Sofia|David|Aisha|Noah|Olivia|Kenji|Anna|Peter|Fatima|Lucas".split("|")
ENDINGS = ["", "", "", "", " Keep it short.", " Use simple words.", " Be detailed.", " Answer in one paragraph.",
           " Use bullet points.", " Explain your reasoning.", " Use at most 100 words.", " Think step by step."]


def split(text):
    return [part for line in text.split("\n") for part in line.split("|") if part]


def filled(template, lots):
    a, b = lots.sample(split(TOPICS), 2)
    return template.format(a=a, b=b, c=lots.choice(split(JOBS)), n=lots.randint(20, 200), m=lots.randint(3, 99),
                           k=lots.randint(2, 19), y=lots.randint(1900, 2024), p=lots.choice(PEOPLE))


def request(lots):
    draw = lots.random()
    if draw < 0.6:
        return filled(lots.choice(split(TASKS)), lots) + lots.choice(ENDINGS)
    if draw < 0.74:
        return filled(lots.choice(split(CODE)), lots)
    if draw < 0.82:
        return filled(lots.choice(split(MATHS)), lots)
    text = " ".join(filled(sentence, lots) for sentence in lots.sample(split(SENTENCES), lots.randint(3, 6)))
    return lots.choice(split(REWORK)) + lots.choice(["\n\n", "\n", " "]) + text


def chat_rows(tokenizer, count, system, widest):
    """`count` requests, as the first of a text and as later ones; (kind, tokens) for each row."""
    lots = random.Random(1)
    ids = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    begin = f"<|im_start|>system\n{system}<|im_end|>\n" if system else ""
    user, answer, end = "<|im_start|>user\n", "<|im_start|>assistant\n", "<|im_end|>\n"
    rows = [(FIRST_USER, ids(begin + user)), (NEXT_USER, ids("\n" + user)), (ANSWER, ids("\n" + answer))]
    for number in range(count):
        asked = user + request(lots) + end + answer
        row = (FIRST, ids(begin + asked)) if number % 2 == 0 else (NEXT, ids("\n" + asked))
        if len(row[1]) <= widest:
            rows.append(row)
    return rows


def write_rows(path, rows, ends):
    """`ends`: the tokens that end what somebody writes."""
    width = max(len(tokens) for _, tokens in rows)
    padded = np.zeros((len(rows), width), np.int32)
    for number, (_, tokens) in enumerate(rows):
        padded[number, :len(tokens)] = tokens
    np.savez_compressed(path, tokens=padded, kinds=np.array([kind for kind, _ in rows], np.int32),
             lengths=np.array([len(tokens) for _, tokens in rows], np.int32),
             ends=np.array(ends, np.int32))
