# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. Every shipped description generates for the CPU target, fast and small, the
# same bytes twice, and what it generates compiles (the largest only with FULL=1).

milliseconds() { date +%s%3N; }

# The folder's size without the runtime, in KiB.
folder_kib() { du -sk --apparent-size "$1" | cut -f1; }

shipped() {
    local file name dir=$WORK/shipped began took kib
    for file in "$ROOT"/models/*.lua; do
        name=$(basename "$file" .lua)
        [ "$name" = fsdpgen ] && continue # annotations for editors
        rm -rf "$dir" "$dir".*
        began=$(milliseconds)
        if ! generate "$dir" "$file"; then
            bad "$name generates" "$dir.log"
            continue
        fi
        took=$(($(milliseconds) - began))
        kib=$(folder_kib "$dir")
        echo "figure: $name generates in $took ms, $kib KiB"
        if [ "$kib" -le 2048 ]; then ok "$name: $kib KiB"; else bad "$name: $kib KiB"; fi
        if [ "$FULL" = 1 ] || [ "$name" = llama8b ]; then
            began=$(milliseconds)
            if build_trainer "$dir"; then
                ok "$name compiles"
                echo "figure: $name compiles in $(($(milliseconds) - began)) ms"
            else
                bad "$name compiles" "$dir.log"
            fi
        fi
    done
}
