# SPDX-License-Identifier: Apache-2.0
# Sourced by demo.sh and test.sh: what must be on the machine, why, and how it gets there.
# deps_install KIND... installs what is missing of those kinds (build, run, test, full). On a machine
# without apt it prints what is needed and stops with exit code 4.

# kind|Debian package|why|a command that succeeds where it is present
deps_table() {
    cat <<'TABLE'
build|gcc|the C compiler, also of emitted trainers|command -v cc
build|libc6-dev|C headers|deps_header stdio.h
build|make|builds emitted trainers|command -v make
build|cmake|builds fsdpgen|command -v cmake
build|pkg-config|finds libraries|command -v pkg-config
build|liblua5.4-dev|descriptions and templates are Lua|deps_lua
build|libjansson-dev|writes JSON plans|pkg-config --exists jansson
build|libxxhash-dev|hashes|pkg-config --exists libxxhash
build|libyaml-dev|reads Accelerate's configurations|pkg-config --exists yaml-0.1
build|libpcre2-dev|patterns of tokenizers|pkg-config --exists libpcre2-8
build|libutf8proc-dev|Unicode's normal form C, for tokenizers|pkg-config --exists libutf8proc
build|libzstd-dev|reads packed texts|pkg-config --exists libzstd
run|libdnnl-dev|fast matrix products (oneDNN)|deps_header oneapi/dnnl/dnnl.h
test|libcmocka-dev|C tests|pkg-config --exists cmocka
test|libopenblas-dev|matrix products by a CBLAS, tested too|pkg-config --exists openblas
test|valgrind|memory checks of a short run|command -v valgrind
test|clang|ThreadSanitizer with an OpenMP it understands|command -v clang
test|libclang-rt-dev|its runtime|deps_archive 'libclang_rt.tsan*'
test|libomp-dev|LLVM's OpenMP, with Archer|deps_archive 'libarcher*'
test|procps|finds ranks that were left behind|command -v pgrep
test|zstd|packs texts for tokenize|command -v zstd
test|diffutils|compares folders|command -v cmp
test|tmux|a terminal whose text is looked at|command -v tmux
test|git|names the commit in reports|command -v git
test|python3|reads what trainers write and checks plans|command -v python3
full|mkdocs|the pages as HTML|command -v mkdocs
full|chromium|draws reports|command -v chromium || command -v chromium-browser || command -v google-chrome
full|fonts-dejavu-core|letters for it|find /usr/share/fonts -name '*.ttf' | grep -q .
full|zsh|runs its completions|command -v zsh
full|fish|runs its completions|command -v fish
full|groff-base|reads the manual pages|command -v groff
full|gcc-aarch64-linux-gnu|compiles for Arm|command -v aarch64-linux-gnu-gcc
full|libc6-dev-arm64-cross|C headers for Arm|[ -e /usr/aarch64-linux-gnu/include/stdio.h ]
full|qemu-user-static|runs what was compiled|command -v qemu-aarch64-static
full|mmdebstrap|makes the Debian systems in which the Dockerfiles' steps run|command -v mmdebstrap
test|ccache|compiles what many trainers share once|command -v ccache
TABLE
}

deps_header() {
    echo "#include <$1>" | cc -E -x c - >/dev/null 2>&1
}

deps_archive() { # a file of LLVM's, wherever its version puts it
    local pattern
    for pattern in "$@"; do
        [ -n "$(find /usr/lib -name "$pattern" -print -quit 2>/dev/null)" ] && return 0
    done
    return 1
}

deps_lua() {
    for name in lua5.4 lua-5.4 lua54; do
        pkg-config --exists "$name" && return 0
    done
    pkg-config --exists 'lua >= 5.4' && pkg-config --exists 'lua < 5.5'
}

deps_install() {
    local kinds=" $* " kind package why check
    local missing=() lines=()
    while IFS='|' read -r kind package why check; do
        case "$kinds" in *" $kind "*) ;; *) continue ;; esac
        if ! eval "$check" >/dev/null 2>&1; then
            missing+=("$package")
            lines+=("$(printf '  %-16s %s' "$package" "$why")")
        fi
    done < <(deps_table)
    [ ${#missing[@]} -eq 0 ] && return 0
    if ! command -v apt-get >/dev/null 2>&1; then
        {
            echo "Missing here, and there is no apt-get to install it (Debian's names):"
            printf '%s\n' "${lines[@]}"
            echo "Install them by this system's means; docs/install.md, \"Building without root\"."
        } >&2
        exit 4
    fi
    echo "Installing with apt-get, because missing here:"
    printf '%s\n' "${lines[@]}"
    local sudo=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null 2>&1; then
            echo "Not root, and no sudo. As root: apt-get install ${missing[*]}" >&2
            echo "Without root: docs/install.md, \"Building without root\"." >&2
            exit 4
        fi
        sudo=(sudo)
    fi
    # slim images come without package lists
    if ! "${sudo[@]}" apt-get update -q >/tmp/fsdpgen-apt.$$ 2>&1 ||
       ! "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
            --no-install-recommends "${missing[@]}" >>/tmp/fsdpgen-apt.$$ 2>&1; then
        tail -n 20 /tmp/fsdpgen-apt.$$ >&2
        rm -f /tmp/fsdpgen-apt.$$
        echo "apt-get failed (above); needed: ${missing[*]}" >&2
        exit 4
    fi
    rm -f /tmp/fsdpgen-apt.$$
}
