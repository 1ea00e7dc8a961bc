# SPDX-License-Identifier: Apache-2.0
# Sourced: the folders of out/ and how each is made. The committed trainers link the
# tree's runtime. Paths are relative to the root of the tree, so that the banners hold
# no machine's.
OUT_MODELS="demo gpt2_124m llama8b"
OUT_CUDA="llama8b" # of these the trainer for GPUs

# out_generate NAME FOLDER [FLAGS...], from the root of the tree.
out_generate() {
    local name=$1 folder=$2 target=cpu
    shift 2
    case " $OUT_CUDA " in *" $name "*) target=cuda ;; esac
    "$FSDPGEN" "models/$name.lua" -o "$folder" --target $target \
        --link-runtime ../../runtime "$@"
}
