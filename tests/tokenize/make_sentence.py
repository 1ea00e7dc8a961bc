#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the tokenizers of SentencePiece's kind in data/ and the hashes of what the `tokenizers`
package makes of texts with them. Run by hand (pip install tokenizers, 0.23.3 here):

    perl tests/tokenize/points.pl 50000 7 >points.txt
    make_sentence.py points.txt

llama2.json, phi3.json, gemma.json, mistral.json have the parts of the tokenizers they are named
after (normalizer, pre-tokenizer, byte fallback, added tokens, post-processor, decoder); real
vocabularies cannot be had here, so each has one of its own, learned from english.txt. phi3 has
merges across words, which the others have not. data/sentence.sha256: a hash of the 16-bit ids of
each text for each of them.
"""
import hashlib, json, os, struct, sys
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
BYTES = ["<0x%02X>" % b for b in range(256)]
MARK = "\u2581"
KINDS = ("llama2", "phi3", "gemma", "mistral")
PREPEND = {"type": "Sequence", "normalizers": [
    {"type": "Prepend", "prepend": MARK},
    {"type": "Replace", "pattern": {"String": " "}, "content": MARK}]}
REPLACE = PREPEND["normalizers"][1]
DECODE = [{"type": "Replace", "pattern": {"String": MARK}, "content": " "},
          {"type": "ByteFallback"}, {"type": "Fuse"}]
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}


def added(kind):
    special = dict(special=True, normalized=False)
    if kind == "gemma":
        return [AddedToken("<bos>", **special), AddedToken("<start_of_turn>", **special),
                AddedToken("<end_of_turn>", **special), AddedToken("\n\n", normalized=False),
                AddedToken(MARK * 2, normalized=False)]
    if kind == "phi3":
        return [AddedToken("<|endoftext|>", **special), AddedToken("<|user|>", rstrip=True, **special),
                AddedToken("<|assistant|>", rstrip=True, **special),
                AddedToken("<|end|>", rstrip=True, **special),
                AddedToken("<|system|>", rstrip=True, **special)]
    if kind == "llama2":  # looked for in the normal form: after a space only
        return [AddedToken("</s>", lstrip=True, **special), AddedToken("the jargon", normalized=True)]
    return [AddedToken("[INST]", **special), AddedToken("[/INST]", **special)]


def make(kind, text):
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.pre_tokenizer = pre_tokenizers.Metaspace(split=kind != "phi3")
    if kind == "phi3":  # words in threes
        words = text.split(" ")
        lines = [" ".join(words[k:k + 3]) for k in range(0, len(words), 3)]
    else:
        lines = [text]
    t.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=900, special_tokens=["<unk>", "<s>", "</s>"] + BYTES, show_progress=False,
        initial_alphabet=["\u00e9", "\u4e2d", "\u00df"]))
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in ("<unk>", "<s>")])
    t.add_tokens(added(kind))
    j = json.loads(t.to_str())
    j["normalizer"] = {"gemma": REPLACE, "mistral": None}.get(kind, PREPEND)
    j["pre_tokenizer"] = {
        "gemma": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                  "invert": False},
        "mistral": {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "first",
                    "split": False}}.get(kind)
    begin = "<bos>" if kind == "gemma" else "<s>"
    j["post_processor"] = {
        "type": "TemplateProcessing", "pair": [],
        "single": [{"SpecialToken": {"id": begin, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "special_tokens": {begin: {"id": begin, "ids": [t.token_to_id(begin)], "tokens": [begin]}}}
    j["decoder"] = {"type": "Sequence", "decoders": DECODE + ([] if kind == "gemma" else [STRIP])}
    # byte tokens are words, not added tokens
    j["added_tokens"] = [a for a in j["added_tokens"] if a["content"] not in BYTES]
    return j


def main():
    with open(os.path.join(DATA, "english.txt"), encoding="utf-8", newline="") as f:
        english = f.read()
    with open(os.path.join(DATA, "edges.txt"), encoding="utf-8", newline="") as f:
        edges = f.read()
    with open(sys.argv[1], encoding="utf-8", newline="") as f:
        points = f.read()
    with open(os.path.join(DATA, "sentence.sha256"), "w") as out:
        for kind in KINDS:
            path = os.path.join(DATA, kind + ".json")
            with open(path, "w", encoding="utf-8") as f:
                json.dump(make(kind, english), f, ensure_ascii=False, indent=0, separators=(",", ":"))
                f.write("\n")
            t = Tokenizer.from_file(path)
            for name, text in (("english", english), ("edges", edges), ("points", points),
                               ("long", english * 40)):
                ids = t.encode(text).ids
                digest = hashlib.sha256(struct.pack("<%dH" % len(ids), *ids)).hexdigest()
                out.write("%s %s %s %d\n" % (digest, kind, name, len(ids)))


if __name__ == "__main__":
    main()
