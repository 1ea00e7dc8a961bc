# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: `fsdpgen import --accelerate` on configurations as `accelerate config`
# writes them, on wrong ones, and on hostile ones. tests/load/import/NAME.txt holds what must
# be printed: the exit code, stdout, stderr.

import_case() {
    local name=$1 code
    (cd "$WORK" && cp "$here/import/$name.yaml" config.yaml &&
        timeout 60 "$FSDPGEN" import --accelerate config.yaml >stdout 2>stderr </dev/null
        code=$?
        { echo "exit $code"; cat stdout; echo "--"; cat stderr; } >got)
    [ $update = 1 ] && cp "$WORK/got" "$here/import/$name.txt"
    if diff -u "$here/import/$name.txt" "$WORK/got" >"$WORK/diff" 2>&1; then
        ok "import $name"
    else
        bad "import $name" "$WORK/diff"
    fi
}

for file in "$here"/import/*.yaml; do
    import_case "$(basename "$file" .yaml)"
done

# What is printed for a good one is a description's fields: fsdpgen takes them.
pasted() { # NAME
    (cd "$WORK" && "$FSDPGEN" import --accelerate "$here/import/$1.yaml" >fields 2>/dev/null &&
        sed -e '/mesh = /d' -e '/dtypes = /d' -e '/optimizer = /r fields' "$here/base.lua" \
            >pasted.lua && "$FSDPGEN" check pasted.lua)
}
for name in fsdp1 nothing; do
    check "the fields of $name are a description's" pasted $name
done

# hostile NAME WORDS: refused with exit 1, a message that says WORDS, and nothing on stdout.
hostile() {
    (cd "$WORK" && timeout 30 "$FSDPGEN" import --accelerate hostile.yaml >stdout 2>stderr)
    if [ $? = 1 ] && ! [ -s "$WORK/stdout" ] && grep -q "$2" "$WORK/stderr"; then
        ok "import refuses $1"
    else
        bad "import refuses $1" "$WORK/stderr"
    fi
}
head -c 3000 /dev/urandom | tr '\0' '\1' >"$WORK/hostile.yaml"
hostile "bytes" "hostile.yaml"
printf 'num_processes: 2\0\n' >"$WORK/hostile.yaml"
hostile "a NUL byte" "not a text file"
head -c 2000000 /dev/zero | tr '\0' 'a' >"$WORK/hostile.yaml"
hostile "two megabytes" "larger than 1 MiB"
{ printf 'gpu_ids: '; head -c 5000 /dev/zero | tr '\0' 'a'; } >"$WORK/hostile.yaml"
hostile "a long value" "more than 4096 bytes"
head -c 100000 /dev/zero | tr '\0' '[' >"$WORK/hostile.yaml"
hostile "deep brackets" "hostile.yaml"
{ printf 'a: '; head -c 100000 /dev/zero | tr '\0' '['; } >"$WORK/hostile.yaml"
hostile "deep lists" "a list holds values only"
for ((i = 0; i < 5000; i++)); do echo "key$i: 1"; done >"$WORK/hostile.yaml"
hostile "five thousand keys" "more than 4096 keys"
rm -f "$WORK/hostile.yaml" && mkfifo "$WORK/hostile.yaml"
hostile "a fifo" "not a regular file"
rm -f "$WORK/hostile.yaml"
hostile "no file" "there is no such file"
