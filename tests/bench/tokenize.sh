#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tokenize.sh: `fsdpgen tokenize` beside the `tokenizers` package. In: the built fsdpgen; TEXT
# (Debian's jargon-text), ROUNDS, THREADS (a list), VOCAB; PYTHON with the package. Out: MB/s of
# text of both, their ratio, and that of processor time, which a busy machine changes less;
# medians of turns; the ids are compared, too.
#
# Ours is a whole run, with reading JSON lines and writing the file, less a run of an empty
# document; theirs is encode_batch_fast of texts that lie in memory.
#
#   PYTHON=python3 tests/bench/tokenize.sh
set -u
own_args=1
. "$(dirname "$0")/../lib.sh"
TEXT=${TEXT:-$(ls /usr/share/doc/jargon-text/jargon.txt* 2>/dev/null | head -n 1)}
python=${PYTHON:-python3}
"$python" -c 'import tokenizers' || exit 4
[ -n "$TEXT" ] || { echo "no text: TEXT=FILE, or install jargon-text" >&2; exit 4; }
case $TEXT in *.gz) zcat "$TEXT" ;; *) cat "$TEXT" ;; esac >"$WORK/text.txt"
echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores," \
    "load $(cut -d ' ' -f 1 /proc/loadavg) before"
for threads in ${THREADS:-1 $(nproc)}; do
    many=$([ "$threads" -gt 1 ] && echo true || echo false)
    RAYON_NUM_THREADS=$threads TOKENIZERS_PARALLELISM=$many "$python" \
        "$ROOT/tests/bench/tokenize_turns.py" "$FSDPGEN" "$WORK" "${ROUNDS:-7}" "$threads" \
        "${VOCAB:-30000}" || exit 1
done
