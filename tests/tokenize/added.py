# SPDX-License-Identifier: Apache-2.0
"""added.py FSDPGEN TOKENIZER.json FOLDER CASES SEED: random lists of added tokens, with ids that
follow the vocabulary, or not. A file is taken exactly where the package `tokenizers` gives each
token the id that the file says, and a text then has the same ids. Prints how many were taken."""
import json
import random
import subprocess
import sys

from tokenizers import Tokenizer

fsdpgen, base, folder, cases, seed = sys.argv[1:]
with open(base, encoding="utf-8") as f:
    base = json.load(f)
vocab = base["model"]["vocab"]
words = [w for w in vocab if w.isascii() and w.isalpha()]
r = random.Random(int(seed))
file = folder + "/added.json"


def token(k, before, due):  # the K-th; DUE: the id that follows those before
    t = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": r.random() < 0.5}
    kind = r.randrange(6)
    if kind == 0:
        t["content"] = r.choice(words)
        t["id"] = vocab[t["content"]] if r.random() < 0.8 else due
    elif kind == 1 and before:
        t["content"], t["id"] = before[0]["content"], before[0]["id"]
    elif kind == 2:
        t["content"], t["id"] = "", due
    else:
        t["content"], t["id"] = "<t%d>" % k, due + (0 if r.random() < 0.85 else r.randrange(1, 3))
        return t, due + 1
    return t, due


taken = wrong = 0
for case in range(int(cases)):
    tokens, due = [], len(vocab)
    for k in range(r.randrange(1, 6)):
        t, due = token(k, tokens, due)
        tokens.append(t)
    with open(file, "w", encoding="utf-8") as f:
        json.dump(dict(base, added_tokens=tokens), f)
    theirs = Tokenizer.from_file(file)
    agree = all(t["content"] == "" or theirs.token_to_id(t["content"]) == t["id"] for t in tokens)
    text = "a<t0>b<t1> <t2> the <t3><t4> x" + "".join(t["content"] for t in tokens)
    ours = subprocess.run([fsdpgen, "tokenize", "--tokenizer", file, "--prompt", text],
                          capture_output=True, text=True)
    good = ours.returncode == (0 if agree else 1)
    if good and agree:
        taken += 1
        good = ours.stdout.split() == [str(i) for i in theirs.encode(text).ids]
    if not good:
        wrong += 1
        print("case %d: tokenizers %s, here code %d: %s" % (
            case, "agrees" if agree else "differs", ours.returncode,
            [(t["content"], t["id"]) for t in tokens]), ours.stderr, file=sys.stderr)
print(taken)
sys.exit(wrong > 0 or taken < int(cases) // 4)
