#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hashes of what `transformers` makes of chats with the templates in templates/, which are written
for these tests after the forms that model families publish. Run by hand (pip install transformers
tokenizers; 5.24.0 and 0.23.3 here):

    make_renderings.py >tests/tokenize/data/renderings.sha256

A line: a hash of the texts, one of the masks, the template, the kind of its 500 chats (chats.pl).
A mask has a bit for each token of gpt2.json: of those with a character that {% generation %} marks;
without such marks, that the template adds for an assistant's message behind what it writes for
those before and to prompt for it, without an eos_token that ends all but the last.
"""
import hashlib, json, os, subprocess, sys
from tokenizers import Tokenizer
from transformers.utils.chat_template_utils import render_jinja_template

HERE = os.path.dirname(os.path.abspath(__file__))
FAMILIES = [("chatml", "system"), ("llama3", "system"), ("llama3", "tools"), ("qwen25", "system"),
            ("qwen25", "tools"), ("qwen3", "system"), ("qwen3", "tools"), ("gemma", "system"),
            ("mistral", "system"), ("phi3", "system"), ("phi4", "system"),
            ("granite", "system"), ("granite", "tools"), ("olmo", "system")]
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}


def render(template, chat, n=None, prompt=False, mask=False):
    texts, spans = render_jinja_template(
        conversations=[chat["messages"][:n]], tools=chat.get("tools"), chat_template=template,
        return_assistant_tokens_mask=mask, add_generation_prompt=prompt, **SPECIAL)
    return texts[0], spans[0] if mask else []


def turns(template, chat, whole):
    spans, eos = [], SPECIAL["eos_token"]
    for i, m in enumerate(chat["messages"]):
        if m["role"] == "assistant":
            before, after = render(template, chat, i, True)[0], render(template, chat, i + 1)[0]
            if not whole.startswith(after) and after.endswith(eos):
                after = after[:-len(eos)]
            assert after.startswith(before) and whole.startswith(after), (before, after, whole)
            spans.append((len(before), len(after)))
    return spans


def main():
    t = Tokenizer.from_file(os.path.join(HERE, "data", "gpt2.json"))
    for name, kind in FAMILIES:
        with open(os.path.join(HERE, "templates", name + ".jinja"), encoding="utf-8") as f:
            template = f.read()
        lines = subprocess.run(["perl", os.path.join(HERE, "chats.pl"), kind, "500", "11"],
                               capture_output=True, check=True, text=True).stdout
        texts, bits = hashlib.sha256(), []
        for line in lines.split("\n")[:-1]:
            chat = json.loads(line)
            has = "{% generation" in template or "{%- generation" in template
            text, spans = render(template, chat, mask=has)
            if not has:
                spans = turns(template, chat, text)
            texts.update(text.encode())
            e = t.encode(text, add_special_tokens=False)
            bits += [any(a < y and b > x for x, y in spans) for a, b in e.offsets]
        masks = bytes(sum(b << i for i, b in enumerate(bits[k:k + 8])) for k in range(0, len(bits), 8))
        print(texts.hexdigest(), hashlib.sha256(masks).hexdigest(), name, kind, flush=True)


if __name__ == "__main__":
    main()
