#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes data/: three tokenizers of real kinds, texts, and what the `tokenizers` package makes of
them. Run by hand (pip install tokenizers, 0.23.3 here); what it writes is committed, so that the
tests need no Python.

    make_data.py JARGON_FILE      the text of Debian's jargon-text: public domain
    make_data.py --big DIR JARGON_FILE
                                  1 MB of it and 50,000 random code points, with ids, to DIR

data/gpt2.json, llama3.json, qwen.json have the parts of the tokenizers they are named after, and
a vocabulary of 700 to 900 learned from the text. X.KIND.ids: 16-bit ids of X.txt. chats.jsonl,
chats.TEMPLATE.ids and .mask: the chats as one string each by the model's own template; a token of
which a character is the assistant's, or its end, is a target.
"""
import json, os, random, struct, sys
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers, processors, trainers

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
KINDS = ("gpt2", "llama3", "qwen")


def split(pattern):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def make(kind, text, words=None):  # words: another size of the vocabulary
    t = Tokenizer(models.BPE(ignore_merges=kind == "llama3"))
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    if kind == "gpt2":
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        special, vocab = ["<|endoftext|>"], 700
    elif kind == "llama3":
        t.pre_tokenizer = split(LLAMA3)
        special, vocab = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>",
                          "<|end_header_id|>", "<|eot_id|>"], 800
    else:
        t.normalizer = normalizers.NFC()
        t.pre_tokenizer = split(QWEN)
        special, vocab = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], 900
    t.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=words or vocab, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[], show_progress=False))
    t.add_special_tokens(special)
    if kind == "llama3":
        begin = "<|begin_of_text|>"
        t.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single=begin + " $A", pair=begin + " $A " + begin + ":1 $B:1",
                                          special_tokens=[(begin, t.token_to_id(begin))])])
    if kind == "qwen":
        t.add_tokens([AddedToken("<tool_call>", normalized=False),
                      AddedToken(" caf\u00e9 ", normalized=True),
                      AddedToken("<left>", lstrip=True, normalized=False),
                      AddedToken("<right>", rstrip=True, normalized=False)])
    j = json.loads(t.to_str())
    if kind == "gpt2":  # the older spelling
        j["model"]["merges"] = [" ".join(m) for m in j["model"]["merges"]]
        del j["model"]["ignore_merges"]
    return j


def points(n, seed):
    """Random code points: anywhere, in dense scripts, with spaces, newlines and apostrophes."""
    r = random.Random(seed)
    out = []
    while len(out) < n:
        k = r.randrange(10)
        if k < 4:
            c = r.randrange(0x110000)
        elif k < 8:
            c = r.choice((0x20, 0x30, 0x41, 0x61, 0xC0, 0x300, 0x370, 0x400, 0x5D0, 0x620, 0x905,
                          0xE01, 0x1100, 0x1E00, 0x2000, 0x2160, 0x3040, 0x4E00, 0xAC00, 0xFB00,
                          0x1F600)) + r.randrange(80)
        else:
            c = ord(r.choice(" \n\r\t'sStTmMdD.,!0123456789\u017f\u212a\u0085\u00a0\u180e\u3000"))
        if not 0xD800 <= c < 0xE000:
            out.append(chr(c))
    return "".join(out)


EDGES = ("a\n\nb \n  c\t\r\n\r\n d   e  \n", "I'LL you'Re it's 'ſ DON'T", "12345 1234567 ٣٤٥ Ⅷ¾",
         "<|endoftext|><|eot_id|> <|im_end|>x<|im_en", "cafe\u0301 caf\u00e9 e\u0301\u0323",
         "a  <left>  b <right>   c <tool_call> d", "\u0000\u0001 \u007f", "  ", "\n", "x" * 300,
         "\uac00\u11a8 \u1100\u1161\u11a8 \u0958 \u212b", "ab" * 700 + " " * 600 + "!" * 700)


def save_ids(path, ids):
    with open(path, "wb") as f:
        f.write(struct.pack("<%dH" % len(ids), *ids))


def texts(folder, named, tokenizers):
    for name, text in named.items():
        with open(os.path.join(folder, name + ".txt"), "w", encoding="utf-8", newline="") as f:
            f.write(text)
        for kind, t in tokenizers.items():
            save_ids(os.path.join(folder, "%s.%s.ids" % (name, kind)), t.encode(text).ids)


def chatml(m):
    yield "<|im_start|>" + m["role"] + "\n", False
    yield m["content"] + "<|im_end|>", m["role"] == "assistant"
    yield "\n", False


def llama3(m):
    yield "<|start_header_id|>" + m["role"] + "<|end_header_id|>\n\n", False
    yield m["content"].strip() + "<|eot_id|>", m["role"] == "assistant"


def make_chats(text, tokenizers):
    r = random.Random(3)
    ends = ["", "", " ", "\n", "\n\n", "  \n", "e\u0301", "\u0301", "\u00a0", "1", ".",
            "<tool_call>", "x<tool_call>\n{}", "a  <left>", "<right>  b", " caf\u00e9 "]
    chats = []
    for _ in range(60):
        messages = [{"role": "system", "content": "Be terse."}] if r.random() < 0.5 else []
        for turn in range(r.randrange(1, 7)):
            at = r.randrange(len(text) - 400)
            messages.append({
                "role": "user" if turn % 2 == 0 else "assistant",
                "content": r.choice(ends) + text[at:at + r.choice((0, 3, 40, 400))] + r.choice(ends)})
        chats.append(messages)
    with open(os.path.join(HERE, "chats.jsonl"), "w", encoding="utf-8") as f:
        for messages in chats:
            f.write(json.dumps({"messages": messages}, ensure_ascii=r.random() < 0.5) + "\n")
    for name, kind, begin, form in (("chatml", "qwen", "", chatml),
                                    ("llama3", "llama3", "<|begin_of_text|>", llama3)):
        ids, bits = [], []
        for messages in chats:
            whole, spans = begin, []
            for m in messages:
                for part, target in form(m):
                    if target:
                        spans.append((len(whole), len(whole) + len(part)))
                    whole += part
            e = tokenizers[kind].encode(whole, add_special_tokens=False)
            ids += e.ids
            bits += [any(a < t and b > f for f, t in spans) for a, b in e.offsets]
        save_ids(os.path.join(HERE, "chats.%s.ids" % name), ids)
        with open(os.path.join(HERE, "chats.%s.mask" % name), "wb") as f:
            f.write(bytes(sum(b << i for i, b in enumerate(bits[k:k + 8]))
                          for k in range(0, len(bits), 8)))


def main():
    args = sys.argv[1:]
    big = args.pop(1) if args[0] == "--big" else None
    if big:
        args.pop(0)
    jargon = open(args[0], encoding="utf-8", errors="replace").read()
    if big:
        t = {k: Tokenizer.from_file(os.path.join(HERE, k + ".json")) for k in KINDS}
        texts(big, {"english": jargon[:1 << 20], "points": points(50000, 2)}, t)
        return
    english = jargon[600000:630000]
    t = {}
    for kind in KINDS:
        j = make(kind, english)
        path = os.path.join(HERE, kind + ".json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(j, f, ensure_ascii=False, indent=None if kind == "gpt2" else 0,
                      separators=(",", ":"))
            f.write("\n")
        t[kind] = Tokenizer.from_file(path)
    make_chats(english, t)
    texts(HERE, {"english": english, "points": points(4000, 1), "edges": "\n".join(EDGES)}, t)


if __name__ == "__main__":
    main()
