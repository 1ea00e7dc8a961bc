# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh, with FULL=1 or by the part's name: the images of docker/, without Docker. A base is
# a fresh Debian made by mmdebstrap, and each instruction of a Dockerfile is done in it by chroot, as a
# build does: FROM, RUN, COPY, WORKDIR, USER, CMD; any other is an error. What is made is then used as
# docs/operate.md says: by a user without a name, with a folder of theirs at /work. Debian 12 is the
# CPU image's own base; for those of the CUDA image, which come from elsewhere, Debian 13 stands in,
# which has packages of these names, with this machine's CUDA toolkit mounted where the base has its own.
images_at=$WORK/images
toolkit=$(readlink -f "${CUDA_HOME:-/usr/local/cuda}")
base_suite() { # IMAGE: Debian's suite that is it, or stands in for it
    case $1 in
    debian:12-slim) echo bookworm ;;
    ubuntu:24.04 | nvidia/cuda:*-devel-ubuntu24.04) echo trixie ;;
    *) return 1 ;;
    esac
}

# inside ROOT USER FOLDER COMMAND...: as a build and a container have it; mounts end with it
inside() {
    local root=$1 user=$2 folder=$3
    shift 3
    toolkit=$toolkit timeout 3000 unshare --mount --pid --fork --kill-child bash -c '
        root=$1 user=$2 folder=$3
        shift 3
        mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" || exit 125
        [ ! -d "$root/usr/local/cuda" ] || mount --bind "$toolkit" "$root/usr/local/cuda" || exit 125
        exec chroot --userspec="$user" "$root" env -i HOME=/ TERM=dumb DEBIAN_FRONTEND=noninteractive \
            PATH=/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            sh -c "cd \"\$0\" && exec \"\$@\"" "$folder" "$@"
    ' bash "$root" "$user" "$folder" "$@" </dev/null
}

base_of() { # SUITE: its archive, made once
    [ -e "$images_at/$1.tar" ] || timeout 1800 mmdebstrap --quiet --variant=minbase \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        "$1" "$images_at/$1.tar"
}

# from IMAGE [as NAME]: a new folder of the image; the last one is $root
from() {
    local suite
    suite=$(base_suite "$1") || { echo "no base is known for $1"; return 1; }
    root=$images_at/$image/${3:-last} user=0:0 folder=/
    mkdir -p "$root" && base_of "$suite" && tar -C "$root" -xf "$images_at/$suite.tar" &&
        cp /etc/resolv.conf "$root/etc/resolv.conf" || return 1
    case $1 in
    nvidia/cuda:*) [ ! -x "$toolkit/bin/nvcc" ] || mkdir "$root/usr/local/cuda" ;;
    esac
}

copy() { # [--from=STAGE] SOURCE... TARGET: a folder's contents, or files, as COPY does
    local context=$ROOT to path
    case $1 in --from=*) context=$images_at/$image/${1#*=}; shift ;; esac
    to=${*: -1}
    case $to in /*) to=$root$to ;; *) to=$root$folder/$to ;; esac
    [ $# -gt 2 ] && mkdir -p "$to"
    for path in "${@:1:$#-1}"; do
        if [ -d "$context/$path" ]; then
            mkdir -p "$to" && cp -a --no-preserve=ownership "$context/$path/." "$to/" || return 1
        else
            cp "$context/$path" "$to" || return 1
        fi
    done
}

# steps DOCKERFILE: a line for each instruction
steps() { sed -e '/^#/d' -e :a -e '/\\$/{N;s/\\\n */ /;ba' -e '}' "$1" | sed '/^ *$/d'; }

instruction() { # LINE
    local word=${1%% *} rest=${1#* }
    # shellcheck disable=SC2086 # words
    case $word in
    FROM) from $rest ;;
    RUN) inside "$root" "$user" "$folder" sh -c "$rest" ;;
    COPY) copy $rest ;;
    WORKDIR) folder=$rest; mkdir -p "$root$folder" ;;
    USER) user=$(inside "$root" 0:0 / sh -c "id -u $rest && id -g $rest" | paste -sd:) &&
        [ -n "$user" ] ;;
    CMD) # ["WORD"]
        rest=${rest#'["'}
        inside "$root" "$user" "$folder" sh -c "command -v ${rest%'"]'}" ;;
    *) echo "an instruction that is not known here: $1"; return 1 ;;
    esac
}

image() { # NAME: builds it
    local line number=0
    image=$1
    while read -r line; do
        number=$((number + 1))
        if ! instruction "$line" >"$images_at/step.log" 2>&1; then
            bad "docker/$image.Dockerfile, step $number: $line" "$images_at/step.log"
            return 1
        fi
    done < <(steps "$ROOT/docker/$image.Dockerfile")
    ok "docker/$image.Dockerfile: its $number steps"
}

# used NAME COMMAND: by a user whom the image does not know, in a folder of theirs
used() {
    local name=$1
    shift
    check "the $image image: $name" inside "$root" 12345:12345 /work "$@"
}

cpu_image() {
    image cpu || return
    chown 12345:12345 "$root/work"
    used "fsdpgen writes a description" fsdpgen init mine.lua
    used "and a trainer" fsdpgen mine.lua -o mine
    used "which is built" make -C mine -j2
    used "with oneDNN" sh -c 'mine/trainer --data /usr/local/bin/fsdpgen --steps 1 --verbose | grep -i onednn'
    cp "$ROOT/README.md" "$root/work/text"
    used "trains" mine/trainer --data text --steps 3 --checkpoint ck
    used "speaks" mine/trainer sample --checkpoint ck --prompt The --tokens 5
    used "and imports its checkpoint" fsdpgen import ck/step-00000003
    echo "figure: the CPU image: $(du -sm --exclude=./proc --exclude=./dev "$root" | cut -f1) MB"
}

cuda_image() {
    image cuda || return
    chown 12345:12345 "$root/work"
    used "fsdpgen writes a description for GPUs" fsdpgen init mine.lua --target cuda
    used "and a trainer" fsdpgen mine.lua -o mine
    used "a C compiler" sh -c 'echo "int main(void) { return 0; }" >c.c && cc c.c -o c && ./c'
    if [ -d "$root/usr/local/cuda" ]; then
        used "which nvcc builds" make -C mine -j2
        used "and the trainer starts" mine/trainer --help
    else
        echo "no nvcc in $toolkit: the CUDA image builds no trainer here (CUDA_HOME says where it is)"
    fi
}

demo_image() { # docs/operate.md: ./demo.sh in a slim image, as root
    image=demo
    from debian:12-slim && mkdir "$root/src" && (cd "$ROOT" &&
        git ls-files -z | xargs -0 cp --parents -t "$root/src") || {
        bad "a slim image with the checkout"
        return
    }
    if inside "$root" 0:0 /src ./demo.sh --steps 2 >"$WORK/demo.log" 2>&1; then
        check "./demo.sh in a slim image ends with a text" grep -q '^The hacker ' "$WORK/demo.log"
    else
        bad "./demo.sh in a slim image" "$WORK/demo.log"
    fi
}

images_lack() { # what this machine needs for it
    local tool
    [ "$(id -u)" = 0 ] || { echo "not root"; return; }
    for tool in mmdebstrap unshare chroot; do
        command -v $tool >/dev/null || { echo "no $tool"; return; }
    done
    unshare --mount --pid --fork mount -t tmpfs none /mnt 2>/dev/null ||
        echo "mounts are not allowed"
}

lack=$(images_lack)
if [ -n "$lack" ]; then
    echo "skipped: images: $lack (it needs root, and Debian's mmdebstrap)"
else
    mkdir -p "$images_at"
    for suite in bookworm trixie; do
        base_of $suite 2>"$WORK/base.log" && continue
        echo "skipped: images: no Debian mirror gives $suite:"
        tail -n 3 "$WORK/base.log"
        lack=mirror
    done
fi
if [ -z "$lack" ]; then
    cpu_image
    cuda_image
    demo_image
fi
