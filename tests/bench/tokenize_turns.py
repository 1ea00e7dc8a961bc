# SPDX-License-Identifier: Apache-2.0
"""One number of threads of tokenize.sh.

    tokenize_turns.py FSDPGEN DIR ROUNDS THREADS VOCAB

DIR/text.txt becomes documents of 4,000 characters. Of each kind of tokenizer, with a vocabulary
learned from the text, both encode all documents in turns, first once unmeasured."""
import json
import os
import resource
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tokenize"))
import make_data  # noqa: E402
import tokenizers  # noqa: E402


def median(values):
    return sorted(values)[len(values) // 2]


def main(fsdpgen, folder, rounds, threads, vocab):
    with open(os.path.join(folder, "text.txt"), encoding="utf-8", errors="ignore") as f:
        text = f.read()
    documents = [text[k:k + 4000] for k in range(0, len(text), 4000)]
    size = sum(len(d.encode()) for d in documents)
    lines = {"all": documents, "none": [""]}
    for name, texts in lines.items():
        with open(os.path.join(folder, name + ".jsonl"), "w", encoding="utf-8") as f:
            f.writelines(json.dumps({"text": d}) + "\n" for d in texts)

    def cpu(who):
        used = resource.getrusage(who)
        return used.ru_utime + used.ru_stime

    def ours(kind, name):
        begin, used = time.perf_counter(), cpu(resource.RUSAGE_CHILDREN)
        run = subprocess.run(
            [fsdpgen, "tokenize", "--tokenizer", os.path.join(folder, kind + ".json"),
             "--threads", str(threads), "--force", "-o", os.path.join(folder, name + ".bin"),
             os.path.join(folder, name + ".jsonl")], capture_output=True)
        if run.returncode:
            sys.exit(run.stderr.decode())
        return time.perf_counter() - begin, cpu(resource.RUSAGE_CHILDREN) - used

    def theirs(t):
        begin, used = time.perf_counter(), cpu(resource.RUSAGE_SELF)
        encoded = t.encode_batch_fast(documents)
        return time.perf_counter() - begin, cpu(resource.RUSAGE_SELF) - used, encoded

    for kind in make_data.KINDS:
        made = make_data.make(kind, text, vocab)
        with open(os.path.join(folder, kind + ".json"), "w", encoding="utf-8") as f:
            json.dump(made, f, ensure_ascii=False)
        t = tokenizers.Tokenizer.from_file(os.path.join(folder, kind + ".json"))
        turns = []
        for turn in range(rounds + 1):
            less, less_cpu = ours(kind, "none")
            our, our_cpu = ours(kind, "all")
            their, their_cpu, encoded = theirs(t)
            if turn > 0:
                turns.append((our - less, their, their / (our - less),
                              their_cpu / (our_cpu - less_cpu)))
                continue
            with open(os.path.join(folder, "all.bin"), "rb") as f:
                raw = f.read()[1024:]
            ids = [i for e in encoded for i in e.ids]
            assert ids == list(struct.unpack("<%dH" % (len(raw) // 2), raw)), kind
        our, their, ratio, ratio_cpu = (median([t[k] for t in turns]) for k in range(4))
        print("%s, vocabulary %d, %d thread%s: %.1f MB/s; tokenizers %s: %.1f MB/s; ratio %.1f, "
              "of processor time %.1f" % (
                  kind, t.get_vocab_size(), threads, "" if threads == 1 else "s",
                  size / our / 1e6, tokenizers.__version__, size / their / 1e6, ratio,
                  ratio_cpu), flush=True)


main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]))
