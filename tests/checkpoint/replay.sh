#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# replay.sh STEP_FOLDER WORK_FOLDER TRAINER... -- FLAGS...
#
# Computes the whole history of a checkpoint anew, from step 0, and compares. STEP_FOLDER is that of a
# checkpoint, RUN/step-00000012. Its train_state.json has the lineage: every numerics hash that the run
# had, with the first step that ran with it. The TRAINERs are those of these hashes, in any order, on
# any mesh; FLAGS are the run's own (--data, and --init where it began so). Each trainer computes its
# steps in WORK_FOLDER/replay, and the last one prints the hash of the weights. Exit code 0: weights,
# masters and moments have equal bits, 1: they have not, or a trainer failed, 2: usage.
set -u

usage() {
    echo "replay: $1; usage: replay.sh STEP_FOLDER WORK_FOLDER TRAINER... -- FLAGS..." >&2
    exit 2
}

fail() {
    echo "replay: $1" >&2
    exit 1
}

[ $# -ge 4 ] || usage "too few arguments"
step_folder=${1%/} work=$2
shift 2
trainers=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    trainers+=("$1")
    shift
done
[ $# -gt 0 ] || usage "no -- before the flags"
shift
state=$step_folder/train_state.json
[ -r "$state" ] || usage "$step_folder has no train_state.json"
[ ! -e "$work/replay" ] || usage "$work/replay is there already"

number_of() { sed -n "s/^ *\"$1\": *\([0-9]*\),*$/\1/p" "$state"; }
last=$(number_of step)
seed=$(number_of seed)
mapfile -t lineage < <(sed -n 's/^ *"lineage": *//p' "$state" | grep -o '{[^}]*}' |
    sed 's/.*"from_step": *\([0-9]*\), *"hash": *"\([0-9a-f]*\)".*/\1 \2/')
[ ${#lineage[@]} -gt 0 ] || fail "$state has no lineage: a version before it wrote the checkpoint"
[ "${lineage[0]%% *}" = 0 ] || fail "the lineage begins at step ${lineage[0]%% *}: its first lines are gone"

declare -A trainer_of=()
for trainer in "${trainers[@]}"; do
    hash=$("$trainer" --numerics-hash | sed -n 's/^numerics \([0-9a-f]*\)$/\1/p')
    [ -n "$hash" ] || fail "$trainer prints no numerics hash"
    trainer_of[$hash]=$trainer
done
for line in "${lineage[@]}"; do
    [ -n "${trainer_of[${line#* }]:-}" ] ||
        fail "no trainer of the numerics hash ${line#* }, which steps from ${line%% *} on ran with"
done

mkdir -p "$work" || exit 1
for ((i = 0; i < ${#lineage[@]}; i++)); do
    until=$last
    [ $((i + 1)) = ${#lineage[@]} ] || until=${lineage[i + 1]%% *}
    trainer=${trainer_of[${lineage[i]#* }]}
    echo "replay: steps ${lineage[i]%% *} to $until by $trainer"
    "$trainer" "$@" --seed "$seed" --steps "$until" --checkpoint "$work/replay" --resume \
        --accept-numerics --quiet --weights-hash >"$work/replay.out" 2>"$work/replay.err" || {
        tail -n 5 "$work/replay.err" >&2
        fail "the trainer failed"
    }
done
grep '^weights ' "$work/replay.out"

tensors() { grep -E '^file (optimizer/[a-z0-9-]+|model[a-z0-9-]*)\.safetensors ' "$1/MANIFEST"; }
printf -v again '%s/replay/step-%08d' "$work" "$last"
tensors "$step_folder" >"$work/was" && tensors "$again" >"$work/is" || fail "a MANIFEST has no tensors"
if ! diff "$work/was" "$work/is" >&2; then
    fail "files of tensors differ (<: $step_folder, >: $again)"
fi
echo "replay: step $last has equal bits: weights, masters, moments ($(wc -l <"$work/is") files)"
