# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: a run that is stopped among its renames leaves a mark, which make, --check and the
# next run read. What a user edited or wrote there stays.
. "$here/writer_setup.sh"

# What was edited by hand stays, also where a run was stopped.
renames_at=$(start_from a; faulty 1000000 error b; sed -n 's/^calls //p' log)
start_from a
faulty $((renames_at - 10)) kill b # among the renames
check "a run that is stopped among its renames leaves a mark" test -s d/$mark
make -C d >log 2>&1
check "make refuses what it left" grep -q 'fsdpgen is writing this folder, or was stopped while it did' log
echo '/* mine */' >>d/step.c
cp d/step.c edited
: >log
writes a
check "an edit in a marked folder is refused" \
    grep -qF 'd/step.c: error: this generated file was edited by hand' log
check "and stays" cmp edited d/step.c
check "the mark, too" test -s d/$mark
check "with --force it is overwritten" "$FSDPGEN" base.lua -o d --force --link-runtime ../runtime
check "and the folder whole" is_ref a

# The mark: make, the trainer and --check read it. (The trainer: tests/emit.)
start_from a
: >d/$mark
"$FSDPGEN" base.lua -o d --link-runtime ../runtime --check >log 2>&1
check "--check reports the mark" grep -qF "d/$mark: error: fsdpgen is writing this folder" log
make -C d >log 2>&1
check "make refuses a marked folder" \
    grep -q 'fsdpgen is writing this folder, or was stopped while it did: run it again' log
check "make help does not" make -C d help
check "an empty mark is mended" writes a
check "and gone" test ! -e d/$mark
ln -s ../victim d/$mark
echo victim >victim
: >log
writes b
check "a mark that is a link is refused" grep -qF "d/$mark: error:" log
check "and not followed" grep -qx victim victim
rm d/$mark
printf '# x\n0123456789abcdef ../victim\n0123456789abcdef notes.txt\n' >d/$mark
check "a mark that names what is not ours" writes b
check "takes nothing" grep -qx victim victim
check "not even what it names" foreign_stay a

# A mark that is somebody's notes
start_from a
echo 'my notes' >d/$mark
check "a user's file with the mark's name is refused" fails b
check "and says so" grep -q "$mark: error: fsdpgen did not write this file" log
check "and stays" grep -qx 'my notes' d/$mark
check "and so does the folder" diff -r -x notes.txt -x runs -x mine.c -x $mark ref_a d
# shellcheck disable=SC2046
check "unless forced" "$FSDPGEN" base.lua -o d $(flags b) --force
check "then the folder is whole" is_ref b
cd "$ROOT" || exit 70
