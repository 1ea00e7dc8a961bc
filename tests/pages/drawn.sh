# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. The pictures in docs/ are what figures.sh writes.
mkdir "$WORK/drawn"
check "the pictures are written" env FSDPGEN="$FSDPGEN" "$here/figures.sh" "$WORK/drawn"
[ "$update" = 0 ] || cp "$WORK"/drawn/*.svg docs/
for picture in "$WORK"/drawn/*.svg; do
    check "docs/${picture##*/} is as tests/pages/figures.sh docs writes it" \
        cmp "$picture" "docs/${picture##*/}"
    check "${picture##*/} follows dark and light" grep -q 'prefers-color-scheme:dark' "$picture"
done
