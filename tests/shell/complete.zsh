# SPDX-License-Identifier: Apache-2.0
# zsh -f complete.zsh SCRIPTS FOLDER OUT LINE: an interactive zsh in FOLDER, with the completions in
# SCRIPTS, gets LINE and a Tab. OUT gets each word that it proposes, then "done".
zmodload zsh/zpty
scripts=${1:a} folder=${2:a} out=${3:a} line=$4
cat >$out.rc <<RC
PROMPT= fpath=(${(q)scripts} \$fpath)
autoload -Uz compinit && compinit -u -D
cd ${(q)folder}
compadd() {
    local -a hits
    # calls that only fill arrays, or filter them, propose nothing
    if [[ -z \${(M)@[1,(i)(-|--)]:#-[^-]#[OAD]*} ]]; then
        builtin compadd -O hits "\$@"
        (( \$#hits )) && print -rl -- \$hits >>${(q)out}
    fi
    builtin compadd "\$@"
}
propose() { _main_complete; print done >>${(q)out} }
zle -C propose complete-word propose
bindkey '^I' propose
print ready >>${(q)out}
RC
wait_for() {
    local i
    for i in {1..200}; do
        [[ -r $out ]] && grep -qx $1 $out && return
        sleep 0.05
    done
    print -u 2 "complete.zsh: zsh is not $1"
    exit 1
}
rm -f $out
setopt extendedglob
zpty z zsh -f -i
zpty -w z "setopt extendedglob; source ${(q)out}.rc"
wait_for ready
: >$out
zpty -w -n z "$line"$'\t'
wait_for done
zpty -d z
