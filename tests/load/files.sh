# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: the output folder. Only what changed is written, never over edits or
# foreign files, never outside. What faults and kills leave: writer.sh.
mkdir -p "$WORK/files"
cd "$WORK/files" || exit 70
cp "$here/base.lua" base.lua
generate() { "$FSDPGEN" base.lua -o d "$@" >log 2>&1; }
refuses() { # NAME TEXT ARGS...
    local name=$1 text=$2
    shift 2
    generate "$@"
    if [ $? = 1 ] && grep -qF -- "$text" log; then ok "$name"; else bad "$name" log; fi
}
snapshot() {
    (cd d && find . -printf '%p %y %s %T@\n' | sort &&
        find . -type f -exec md5sum {} + | sort)
}

check "a first time" generate
snapshot >before
check "a second time" generate
check "it says that nothing is written" grep -q ' 0 written, 0 removed' log
snapshot >after
check "nothing is touched" cmp before after
check "--check of a fresh folder" generate --check
"$FSDPGEN" base.lua -o other/deep/d >log 2>&1
check "the same bytes elsewhere" diff -r d other/deep/d
(cd / && LC_ALL=C.UTF-8 TZ=Asia/Tokyo "$FSDPGEN" "$WORK/files/base.lua" \
    -o "$WORK/files/e/") >log 2>&1
check "the same bytes from another folder" diff -r d e
check "no temporary files" bash -c '! find d other e -name "*.tmp" | grep -q .'

echo '/* mine */' >>d/step.c
cp d/step.c edited
refuses "an edited file" "d/step.c: error: this generated file was edited by hand"
check "the edit is still there" cmp edited d/step.c
refuses "--check sees the edit" "d/step.c: error: was edited by hand" --check
check "--force overwrites it" generate --force
check "and then all is well" generate --check

rm d/step.c
refuses "--check sees a missing file" "d/step.c: error: is missing" --check
check "a missing file is written again" generate
check "only that one" grep -q ' 1 written' log

refuses "--check sees another description" "differs from what is generated now" \
    --check --set seq=32
check "--check writes nothing" generate --check

echo keep >d/notes.txt
mkdir d/runs && echo keep >d/runs/log
check "foreign files" generate
check "are left alone" grep -q keep d/notes.txt d/runs/log
check "--link-runtime" generate --link-runtime ../runtime
check "files no longer generated are removed" test ! -e d/runtime
check "foreign files stay then too" grep -q keep d/notes.txt
check "and back" generate
echo keep >d/runtime/mine.c
check "a foreign file in a folder of ours" generate --link-runtime ../runtime
check "keeps its folder" grep -q keep d/runtime/mine.c
check "ours are gone from it" bash -c '[ "$(ls d/runtime)" = mine.c ]'
rm -r d/runtime
check "and back again" generate
echo '/* mine */' >>d/runtime/rt.h
refuses "an edited file that is no longer generated" \
    "no longer generated, but was edited" --link-runtime ../runtime
check "is not removed" grep -q mine d/runtime/rt.h
check "--force removes it" generate --force --link-runtime ../runtime
check "and back once more" generate

rm d/step.c
ln -s ../victim d/step.c
echo victim >victim
refuses "a symbolic link" "d/step.c: error: is a symbolic link"
refuses "a symbolic link, with --force" "d/step.c: error: is a symbolic link" --force
check "its target is untouched" grep -qx victim victim
rm d/step.c
mkdir d/step.c
refuses "a folder in the way" "d/step.c: error: is a folder"
rmdir d/step.c
mkfifo d/step.c
refuses "a FIFO in the way" "d/step.c: error: is not a regular file"
rm d/step.c
check "repaired" generate
mv d/runtime elsewhere && ln -s ../elsewhere d/runtime
refuses "a symbolic link to a folder" "below something that is not a folder"
rm d/runtime && mv elsewhere d/runtime
check "repaired again" generate

cp d/manifest.json manifest
echo '{' >d/manifest.json
refuses "a broken manifest" "this is not a manifest"
check "the way out is not to remove it" grep -q 'help: put back the one that fsdpgen wrote' log
echo '{"files": {"../victim": "0000000000000000", "/tmp/x": "0", "step.c": 5,
    "a/../../victim": "0"}}' >d/manifest.json
refuses "a manifest without hashes protects all" "fsdpgen did not write this file" \
    --set seq=32
check "a hostile manifest, with --force" generate --force
check "names no file outside" grep -qx victim victim
claim='"..\/victim": "0123456789abcdef", "notes.txt": "0123456789abcdef", '
sed "s/\"files\": *{/&$claim/" manifest >d/manifest.json
refuses "a manifest that claims a foreign file" \
    "notes.txt: error: this file is no longer generated"
check "leaves it" grep -q keep d/notes.txt
seq 40000 | awk '{ print (NR > 1 ? "," : "{\"generator\": \"fsdpgen 1\", \"files\": {") "\"x/" $1 "\": \"0123456789abcdef\"" }
    END { print "}}" }' >d/manifest.json
refuses "a manifest of more than 1 MiB" "manifest.json: error: it has more than 1 MiB"
cp manifest d/manifest.json
check "repaired manifest" generate

rm d/step.c && echo mine >d/.step.c.fsdpgen-new
refuses "another's file under a name of ours to come" \
    "d/.step.c.fsdpgen-new: error: fsdpgen did not write this file, and needs its name"
check "stays" grep -qx mine d/.step.c.fsdpgen-new
rm d/.step.c.fsdpgen-new
check "and is no longer in the way" generate

mkdir fresh && echo 'int main;' >fresh/step.c
"$FSDPGEN" base.lua -o fresh >log 2>&1
check "a folder of others" grep -q "fresh: error: the folder has files, and none says that fsdpgen made it" log
check "stays alone" bash -c '[ "$(ls -A fresh)" = step.c ]'
check "with --force it is written" "$FSDPGEN" base.lua -o fresh --force
mkdir own && sed 's/^return/-- mine\n&/' base.lua >own/description.lua
"$FSDPGEN" own/description.lua -o own --force >log 2>&1
check "a description that is read, with --force" grep -q \
    'own/description.lua: error: is read here; the output would replace it' log
check "and all is as it was" bash -c '[ "$(ls -A own)" = description.lua ] && grep -qx -- "-- mine" own/description.lua'
mkdir repository && mkdir repository/.git && : >repository/.hidden
check "names with a dot do not count" "$FSDPGEN" base.lua -o repository
mkdir d2 && "$FSDPGEN" base.lua -o d2 >log 2>&1 && rm d2/plan.txt && echo mine >d2/plan.txt.mine
check "a file of others in a folder of ours" "$FSDPGEN" base.lua -o d2
echo other >>d2/math.h && sed -i '/"math.h"/d' d2/manifest.json
"$FSDPGEN" base.lua -o d2 >log 2>&1
check "a foreign file under a generated name" \
    grep -q 'd2/math.h: error: fsdpgen did not write' log
"$FSDPGEN" chek base.lua >log 2>&1
check "a command spelt wrong" grep -qx 'fsdpgen: unknown command chek; did you mean check; without a command a description is generated' log
: >file
"$FSDPGEN" base.lua -o file >log 2>&1
check "the folder is a file" grep -q 'file: error: there is a file where the folder would be' log
"$FSDPGEN" base.lua -o file/d >log 2>&1
check "the folder lies below a file" grep -q 'error' log
leaves_none() { # NAME CODE DIR
    if [ "$2" = 1 ] && ! [ -e "$3" ]; then ok "$1"; else bad "$1" log; fi
}
"$FSDPGEN" base.lua -o wrong --set seq=0 >log 2>&1
leaves_none "errors make no folder" $? wrong
"$FSDPGEN" base.lua -o absent --check >log 2>&1
leaves_none "--check makes no folder" $? absent
(ulimit -f 8 && "$FSDPGEN" base.lua -o full) >log 2>&1
leaves_none "a full disk leaves no folder" $? full
check "and says why" grep -q 'cannot write: File too large' log
cp -a d before_full
(ulimit -f 8 && generate --set seq=32 --set name=other) >log 2>&1
check "a full disk leaves the old folder" diff -r d before_full

# The resolved description is the same trainer.
sed 's/name = "tiny"/name = "again"/' base.lua >again.lua
"$FSDPGEN" again.lua -o first >log 2>&1 &&
    "$FSDPGEN" first/description.lua -o second >>log 2>&1
check "description.lua generates" test -e second/description.lua
check "the same resolved description" cmp first/description.lua second/description.lua
check "the same mathematics" cmp first/math.c second/math.c
check "the same schedule" cmp first/step.c second/step.c
cd "$ROOT" || exit 70
